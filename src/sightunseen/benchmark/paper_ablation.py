"""The paper's ablation on any data: in which space, by which score, with episodes or without; and how many classes an episode."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sightunseen.benchmark.plan import DataEntry, MethodEntry, Plan
from sightunseen.benchmark.published import NUMBERS, published_row
from sightunseen.benchmark.result_tables import Row, Table, row_of, seeds_together
from sightunseen.benchmark.store import Outcome
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods.catalogue import INDUCTIVE

VISUAL = "A→V"
SPACES: Mapping[str, tuple[str, Mapping[str, str]]] = {  # where images and classes are compared -> method and its settings
    "V→A": ("Projection", {"space": "attributes"}),
    "V→I←A": ("Projection", {"space": "between"}),
    VISUAL: ("CVC", {}),
}
SEARCH: Mapping[str, Mapping[str, Sequence[Any]] | None] = {  # score -> what is chosen on validation classes
    "dot": {"semantic_norm": ("sqrt", 1.0)},
    "cosine": None,  # the method's own: where the scale starts
}
SIZES, USUAL_SIZE = (4, 8, 16, 32), 32  # classes an episode
VARIED = {"space", "output", "similarity", "initialisation", "episodic", "classes_per_episode", "seed"}  # not alike in all
CHOSEN = {"semantic_norm", "initial_scale"}
FEWEST_SEEN = 4  # from which some can be held out as validation classes
PAPERS_DATA, OF_THE_PAPER = "AWA1", "paper†"
PAPERS_NOTE = (
    "† the paper's, for orientation only: AwA1 with ResNet-101 features (other data, other features), chosen on TEST data."
)


@dataclass(frozen=True)
class Variant:
    """A row of the ablation: where images and classes are compared, by which score, and whether training is episodic."""

    space: str
    score: str
    episodic: bool
    size: int  # classes an episode
    last: str = "linear"  # what follows the networks' last layer

    @property
    def papers(self) -> str:
        """The row of the paper's Table 2 that it repeats."""
        return f"{self.space}, {self.score}, {'episodes' if self.episodic else 'no episodes'}"

    @property
    def label(self) -> str:
        """Its name: CVC is what nothing was changed of."""
        return "CVC" if self.last == "auto" else self.papers

    def entry(self, label: str, shared: Mapping[str, Any]) -> MethodEntry:
        """The method of a plan that it is."""
        name, of_space = SPACES[self.space]
        own = {"similarity": self.score, "episodic": self.episodic, "classes_per_episode": self.size}
        return MethodEntry(name, label, {**shared, **of_space, **own, "output": self.last}, SEARCH[self.score])


def ablation_plan(data: DataEntry, n_seen: int, seeds: int, shared: Mapping[str, Any] | None = None) -> Plan:
    """The plan of both tables; ``n_seen`` is the number of seen classes, ``shared`` are settings of all variants.

    Twelve variants differ in nothing but space, score and episodes; a last one is CVC as it is, whose generator ends in a ReLU
    where features are never negative. Each chooses between two scales of its scores on validation classes, besides the number
    of tasks and the penalty on seen classes: by ``cosine`` where the learnable scale starts, the method's own search space;
    by ``dot``, which has none, how long class vectors are, which helped most of what was tried on validation classes of CUB.
    Without episodes there are mini-batches of as many images. Episodes have 32 classes, or all where fewer are seen: that job
    stands in both tables, and runs once.
    """
    check_ablation(data, n_seen, shared or {})
    usual = min(USUAL_SIZE, n_seen)
    sizes = sorted({size for size in SIZES if size < n_seen} | {n_seen})
    variants = {variant.label: variant for variant in _cells(usual)}
    variants |= {_label_by_size(size, n_seen): Variant(VISUAL, "cosine", True, size) for size in sizes if size != usual}
    entries = [variant.entry(label, shared or {}) for label, variant in variants.items()]
    return Plan((data,), tuple(entries), seeds, title=f"Ablation on {data.name}")


def check_ablation(data: DataEntry, n_seen: int, shared: Mapping[str, Any]) -> None:
    """Refuse too few seen classes, and shared settings that variants differ in."""
    if n_seen < FEWEST_SEEN:
        raise DataError(
            f"an ablation is chosen on validation classes, which takes at least {FEWEST_SEEN} seen classes; "
            f"{data.name} has {n_seen}. Add images of more classes."
        )
    refused = sorted((VARIED | CHOSEN) & set(shared))
    if refused:
        raise SettingsError(f"'{refused[0]}' is varied or chosen by the ablation itself, and cannot be set for all variants.")


@dataclass(frozen=True)
class Ablation:
    """The rows of one data set's ablation."""

    name: str
    rows: Sequence[tuple[Variant, Row]]
    n_seen: int | None

    def by_cell(self) -> list[tuple[Variant, Row]]:
        """The rows of Table 2, in order."""
        order = [variant.label for variant in _cells(0)]
        usual = {variant.size for variant, _ in self.rows if variant.space != VISUAL}
        found = [(variant, row) for variant, row in self.rows if variant.size in usual and variant.label in order]
        return sorted(found, key=lambda pair: order.index(pair[0].label))

    def by_size(self) -> list[tuple[int, Row]]:
        """The rows of Table 5 by classes an episode."""
        found = [(variant.size, row) for variant, row in self.rows if variant == Variant(VISUAL, "cosine", True, variant.size)]
        return sorted(found, key=lambda pair: pair[0])

    def tables(self) -> list[Table]:
        """Tables 2 and 5."""
        return [_table_2(self), _table_5(self)]


def ablations(outcomes: Iterable[Outcome]) -> list[Ablation]:
    """The ablation of every data set that has one among these outcomes; none where there is no Projection.

    Runs with other shared settings are others, with names that tell them apart.
    """
    runs: dict[tuple[str, tuple[tuple[str, str], ...]], list[list[Outcome]]] = defaultdict(list)
    for group in seeds_together(outcomes):
        if _variant(group[0]) is not None:
            runs[group[0].shown["data"], _shared(group[0])].append(group)
    found = []
    for (data, shared), groups in sorted(runs.items()):
        rivals = [set(others) for name, others in runs if name == data]
        apart = "".join(f", {name} {value}" for name, value in shared if any((name, value) not in other for other in rivals))
        rows = [(variant, row_of(group)) for group in groups if (variant := _variant(group[0])) is not None]
        if any(variant.space != VISUAL for variant, _ in rows):
            found.append(Ablation(f"{data}{apart}", rows, _n_seen(groups)))
    return found


def ablation_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Tables 2 and 5 of every ablation among these outcomes."""
    return [table for found in ablations(outcomes) for table in found.tables()]


def _cells(size: int) -> list[Variant]:
    """The rows of Table 2."""
    variants = [Variant(space, score, episodic, size) for space, score, episodic in product(SPACES, SEARCH, (False, True))]
    return [*variants, Variant(VISUAL, "cosine", True, size, "auto")]


def _variant(outcome: Outcome) -> Variant | None:
    """The variant that an outcome's method is; None for what is none."""
    method = outcome.identity.get("method")
    if method is None or outcome.shown["setting"] != INDUCTIVE:
        return None
    settings = method["settings"]
    for space, (name, own) in SPACES.items():
        if method["name"] == name and all(settings[key] == value for key, value in own.items()):
            shape = settings["similarity"], settings["episodic"], settings["classes_per_episode"]
            return Variant(space, *shape, settings["output"])
    return None


def _shared(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """Settings that all variants of a run have in common, and how they were chosen; as text, which can be sorted."""
    settings = {**outcome.identity["method"]["settings"], "selection": outcome.shown["selection"]}
    return tuple((name, str(value)) for name, value in sorted(settings.items()) if name not in VARIED)


def _n_seen(groups: Sequence[Sequence[Outcome]]) -> int | None:
    """The number of seen classes, which jobs that are done have recorded."""
    records = [outcome.record for group in groups for outcome in group if outcome.record]
    return records[0]["data"]["classes"]["seen"] if records else None


def _label_by_size(size: int, n_seen: int | None) -> str:
    """The name in Table 5 of CVC with episodes of so many classes."""
    return f"{VISUAL}, cosine, {'all' if size == n_seen else size} classes an episode"


def _table_2(ablation: Ablation) -> Table:
    ordered = ablation.by_cell()
    factors, paper = ["space", "score", "episodes", "last layer"], [f"{name} {OF_THE_PAPER}" for name in NUMBERS]
    columns = [*factors, *NUMBERS, "H plain", *paper, "seeds"]
    lines = []
    for variant, row in ordered:
        measured = [row.shown(name) for name in (*NUMBERS, "H_plain")]
        named = [variant.space, variant.score, "yes" if variant.episodic else "no", variant.last]
        lines.append([*named, *measured, *(_of_the_paper(variant.papers, name) for name in NUMBERS), str(row.seeds)])
    notes = [
        "Percent, mean ± standard deviation over seeds. V→A: images are projected to the class vectors' space; V→I←A: images "
        "and classes to a space between; A→V: classes to the space of visual features. The last row is CVC as it is: "
        "a ReLU follows its last layer where features are never negative.",
        "U, S and H with the penalty on seen classes that was chosen on validation classes; plain: without it.",
    ]
    remarks = [remark for _, row in ordered for remark in row.remarks]
    title = f"{ablation.name}: space, score and episodes (the paper's Table 2)"
    return Table(title, columns, lines, [*notes, PAPERS_NOTE, *remarks])


def _table_5(ablation: Ablation) -> Table:
    lines, remarks = [], []
    for size, row in ablation.by_size():
        paper = _of_the_paper(_label_by_size(size, ablation.n_seen), "T1")
        shown = f"{size} (all)" if size == ablation.n_seen else str(size)
        lines.append([shown, row.shown("T1"), row.shown("H"), paper, str(row.seeds)])
        remarks += row.remarks
    columns = ["classes an episode", "T1", "H", f"T1 {OF_THE_PAPER}", "seeds"]
    notes = ["Percent, mean ± standard deviation over seeds; A→V, cosine, episodes.", PAPERS_NOTE]
    return Table(f"{ablation.name}: classes an episode (the paper's Table 5)", columns, lines, [*notes, *remarks])


def _of_the_paper(label: str, number: str) -> str:
    row = published_row(label, PAPERS_DATA)
    value = row.numbers[number] if row else None
    return "-" if value is None else f"{value:.1f}"
