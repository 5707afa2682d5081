"""The paper's ablation (Tables 2 and 5) on any data: joint embedding space, similarity, episodes and classes per episode."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sightunseen.benchmark.entries import DataEntry, MethodEntry
from sightunseen.benchmark.groups import newest, seeds_together
from sightunseen.benchmark.outcome import Outcome
from sightunseen.benchmark.plan import Plan
from sightunseen.benchmark.published import published_row
from sightunseen.benchmark.result_tables import PENALTY_NOTE, Table
from sightunseen.benchmark.rows import Row, row_of
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.metrics import ACCURACIES, definitions
from sightunseen.methods.catalogue import INDUCTIVE

VISUAL = "A→V"
SPACES: Mapping[str, tuple[str, Mapping[str, str]]] = {  # joint embedding space -> method and hyperparameters
    "V→A": ("Projection", {"space": "attributes"}),
    "V→I←A": ("Projection", {"space": "between"}),
    VISUAL: ("CVC", {}),
}
SEARCH: Mapping[str, Mapping[str, Sequence[Any]] | None] = {  # similarity -> search space
    "dot": {"semantic_norm": ("sqrt", 1.0)},
    "cosine": None,  # the default search space of the method: the initial scale
}
SIZES, USUAL_SIZE = (4, 8, 16, 32), 32  # classes per episode
VARIED = {
    "space",
    "output",
    "similarity",
    "initialisation",
    "episodic",
    "classes_per_episode",
    "seed",
}  # differ between variants
SEARCHED = {"semantic_norm", "initial_scale"}
FEWEST_SEEN = 4  # fewer cannot be split into training and validation classes
PAPERS_DATA, OF_THE_PAPER = "AWA1", "paper†"
PAPERS_NOTE = "† published in the paper, not comparable: AwA1 with ResNet-101 features, hyperparameters selected on TEST data."


@dataclass(frozen=True)
class Variant:
    """A variant of CVC in the ablation.

    Parameters
    ----------
    space : {"V→A", "V→I←A", "A→V"}
        Joint embedding space: class vectors, intermediate, or visual features.
    score : {"dot", "cosine"}
        Similarity of image and class embeddings.
    episodic : bool
        Whether training is episodic.
    size : int
        Classes per episode.
    last : {"linear", "auto"}, default="linear"
        Activation after the last layer. "auto" is a ReLU if features are never negative.
    """

    space: str
    score: str
    episodic: bool
    size: int
    last: str = "linear"

    @property
    def papers(self) -> str:
        """Name of the corresponding row of the paper's Table 2."""
        return f"{self.space}, {self.score}, {'episodes' if self.episodic else 'no episodes'}"

    @property
    def label(self) -> str:
        """Name of the variant; "CVC" for the unchanged method."""
        return "CVC" if self.last == "auto" else self.papers

    def entry(self, label: str, shared: Mapping[str, Any]) -> MethodEntry:
        """Build the plan entry of the variant.

        Parameters
        ----------
        label : str
            Name in tables.
        shared : mapping
            Hyperparameters of all variants.

        Returns
        -------
        MethodEntry
            Method, hyperparameters and search space.
        """
        name, of_space = SPACES[self.space]
        own = {"similarity": self.score, "episodic": self.episodic, "classes_per_episode": self.size}
        return MethodEntry(name, label, {**shared, **of_space, **own, "output": self.last}, SEARCH[self.score])


def ablation_plan(data: DataEntry, n_seen: int, seeds: int, shared: Mapping[str, Any] | None = None) -> Plan:
    """Build the plan of the ablation: all variants of Tables 2 and 5 on one data set.

    Twelve variants differ only in space, similarity and episodes. One more is the unchanged CVC, whose generator ends in a ReLU
    if features are never negative. Each variant selects one of two scales of its scores on validation classes, together with
    the number of steps and the seen penalty. With ``cosine`` that is the initial value of the learned scale. With ``dot``,
    which has no learned scale, it is the norm of the class vectors, which helped most on validation classes of CUB. Variants
    without episodes train on mini-batches of the same number of images. Episodes have 32 classes, or all seen classes if there
    are fewer; that job is in both tables and runs once.

    Parameters
    ----------
    data : DataEntry
        Data set.
    n_seen : int
        Number of seen classes of the data set.
    seeds : int
        Number of seeds.
    shared : mapping, optional
        Hyperparameters of all variants.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    DataError
        If there are too few seen classes to hold out validation classes.
    SettingsError
        If ``shared`` has a hyperparameter that the ablation varies.
    """
    check_ablation(data, n_seen, shared or {})
    usual = min(USUAL_SIZE, n_seen)
    sizes = sorted({size for size in SIZES if size < n_seen} | {n_seen})
    variants = {variant.label: variant for variant in _cells(usual)}
    variants |= {_label_by_size(size, n_seen): Variant(VISUAL, "cosine", True, size) for size in sizes if size != usual}
    entries = [variant.entry(label, shared or {}) for label, variant in variants.items()]
    return Plan((data,), tuple(entries), seeds, title=f"Ablation on {data.name}")


def check_ablation(data: DataEntry, n_seen: int, shared: Mapping[str, Any]) -> None:
    """Validate the arguments of an ablation plan.

    Parameters
    ----------
    data : DataEntry
        Data set.
    n_seen : int
        Number of seen classes of the data set.
    shared : mapping
        Hyperparameters of all variants.

    Raises
    ------
    DataError
        If there are fewer than 4 seen classes.
    SettingsError
        If ``shared`` has a hyperparameter that is varied or searched.
    """
    if n_seen < FEWEST_SEEN:
        raise DataError(
            f"selection on validation classes needs at least {FEWEST_SEEN} seen classes; {data.name} has {n_seen}. "
            "Add images of more classes."
        )
    fixed = sorted((VARIED | SEARCHED) & set(shared))
    if fixed:
        raise SettingsError(f"'{fixed[0]}' is varied or searched by the ablation. Remove it from --set.")


@dataclass(frozen=True)
class Ablation:
    """Results of the ablation on one data set.

    Parameters
    ----------
    name : str
        Data set, with the hyperparameters that distinguish it from other ablations on the same data.
    rows : sequence of (Variant, Row)
        Results of each variant.
    n_seen : int or None
        Number of seen classes; None if no job is done.
    """

    name: str
    rows: Sequence[tuple[Variant, Row]]
    n_seen: int | None

    def by_cell(self) -> list[tuple[Variant, Row]]:
        """Select the rows of Table 2.

        Returns
        -------
        list of (Variant, Row)
            Rows in the order of the table.
        """
        order = [variant.label for variant in _cells(0)]
        usual = {variant.size for variant, _ in self.rows if variant.space != VISUAL}
        found = [(variant, row) for variant, row in self.rows if variant.size in usual and variant.label in order]
        return sorted(found, key=lambda pair: order.index(pair[0].label))

    def by_size(self) -> list[tuple[int, Row]]:
        """Select the rows of Table 5.

        Returns
        -------
        list of (int, Row)
            Classes per episode and results, in increasing order.
        """
        found = [(variant.size, row) for variant, row in self.rows if variant == Variant(VISUAL, "cosine", True, variant.size)]
        return sorted(found, key=lambda pair: pair[0])

    def tables(self) -> list[Table]:
        """Build Tables 2 and 5.

        Returns
        -------
        list of Table
            The two tables.
        """
        return [_table_2(self), _table_5(self)]


def ablations(outcomes: Iterable[Outcome]) -> list[Ablation]:
    """Find the ablations among outcomes.

    Runs with different shared hyperparameters are separate ablations; their names include what differs.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of Ablation
        Empty if no variant with another space than A→V (method Projection) was run.
    """
    runs: dict[tuple[str, tuple[tuple[str, str], ...]], list[list[Outcome]]] = defaultdict(list)
    shown = (outcome for outcome in outcomes if _variant(outcome) is not None)
    for group in seeds_together(newest(shown, lambda outcome: f"{_variant(outcome)} {_shared(outcome)}")):
        runs[group[0].shown["data"], _shared(group[0])].append(group)
    found = []
    for (data, shared), groups in sorted(runs.items()):
        same_data = [set(others) for name, others in runs if name == data]
        differs = [(name, value) for name, value in shared if any((name, value) not in other for other in same_data)]
        rows = [(variant, row_of(group)) for group in groups if (variant := _variant(group[0])) is not None]
        if any(variant.space != VISUAL for variant, _ in rows):
            title = ", ".join([data, *(f"{name} {value}" for name, value in differs)])
            found.append(Ablation(title, rows, _n_seen(groups)))
    return found


def ablation_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Build Tables 2 and 5 of all ablations among outcomes.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of Table
        Two tables per ablation.
    """
    return [table for found in ablations(outcomes) for table in found.tables()]


def _cells(size: int) -> list[Variant]:
    """Variants of Table 2, in order."""
    variants = [Variant(space, score, episodic, size) for space, score, episodic in product(SPACES, SEARCH, (False, True))]
    return [*variants, Variant(VISUAL, "cosine", True, size, "auto")]


def _variant(outcome: Outcome) -> Variant | None:
    """Variant of an outcome's method; None if it is not part of the ablation."""
    method = outcome.identity.get("method")
    if method is None or outcome.shown["setting"] != INDUCTIVE:
        return None
    settings = method["settings"]
    for space, (name, own) in SPACES.items():
        if method["name"] == name and all(settings.get(key) == value for key, value in own.items()):
            shape = [settings.get(key) for key in ("similarity", "episodic", "classes_per_episode", "output")]
            return Variant(space, *shape) if [type(value) for value in shape] == [str, bool, int, str] else None
    return None


def _shared(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """Hyperparameters that all variants of a run share, and the selection, as sortable text."""
    settings = {**outcome.identity["method"]["settings"], "selection": outcome.shown["selection"]}
    return tuple((name, str(value)) for name, value in sorted(settings.items()) if name not in VARIED)


def _n_seen(groups: Sequence[Sequence[Outcome]]) -> int | None:
    """Number of seen classes, from the record of a job that is done."""
    records = [outcome.record for group in groups for outcome in group if outcome.record]
    return records[0].get("data", {}).get("classes", {}).get("seen") if records else None


def _label_by_size(size: int, n_seen: int | None) -> str:
    """Name of CVC with ``size`` classes per episode in Table 5."""
    return f"{VISUAL}, cosine, {'all' if size == n_seen else size} classes per episode"


def _table_2(ablation: Ablation) -> Table:
    ordered = ablation.by_cell()
    factors, paper = ["space", "score", "episodes", "last layer"], [f"{name} {OF_THE_PAPER}" for name in ACCURACIES]
    columns = [*factors, *ACCURACIES, "H plain", *paper, "seeds"]
    lines = []
    for variant, row in ordered:
        measured = [row.shown(name) for name in (*ACCURACIES, "H_plain")]
        named = [variant.space, variant.score, "yes" if variant.episodic else "no", variant.last]
        lines.append([*named, *measured, *(_of_the_paper(variant.papers, name) for name in ACCURACIES), str(row.seeds)])
    notes = [
        "Percent, mean ± standard deviation over seeds. V→A: images are mapped to the space of class vectors; V→I←A: images "
        "and classes are mapped to an intermediate space; A→V: classes are mapped to the space of visual features. The last "
        "row is the unchanged CVC, with a ReLU after its last layer if features are never negative.",
        definitions(ACCURACIES),
        PENALTY_NOTE,
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
    columns = ["classes per episode", "T1", "H", f"T1 {OF_THE_PAPER}", "seeds"]
    notes = ["Percent, mean ± standard deviation over seeds; A→V, cosine, episodes.", definitions(ACCURACIES), PAPERS_NOTE]
    return Table(f"{ablation.name}: classes per episode (the paper's Table 5)", columns, lines, [*notes, *remarks])


def _of_the_paper(label: str, number: str) -> str:
    row = published_row(label, PAPERS_DATA)
    value = row.numbers[number] if row else None
    return "-" if value is None else f"{value:.1f}"
