"""The study of Foresight: each ingredient taken away or replaced, then all added one by one; adapted, and beside CVC."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightunseen.benchmark.paper_ablation import check_ablation
from sightunseen.benchmark.plan import DataEntry, MethodEntry, Plan
from sightunseen.benchmark.result_tables import Row, Table, row_of, seeds_together
from sightunseen.benchmark.store import DONE, Outcome
from sightunseen.methods.catalogue import CARDS

WHOLE, ADAPTED = "Foresight", "Foresight-tran"
NEXT_TO_NOTHING = 1e-6  # of noise: the means are met
NOISES = {"noise": (0.03, 0.1, 0.3, 1.0)}  # more to choose from for what is simpler than the whole
SCALINGS, SHRINKAGES = ("root", "centred"), (0.1, 0.3, 0.6, 0.9)  # as Foresight chooses from
OWN = CARDS[WHOLE].estimator


def _variant(label: str, search: Mapping[str, Sequence[Any]] | None = None, **settings: Any) -> MethodEntry:
    """Foresight with these settings; all others are searched as ever, or, with a ``search``, as that says."""
    return MethodEntry(WHOLE, label, settings, search)


def _adapted(label: str, **adaptation: Any) -> MethodEntry:
    return MethodEntry(ADAPTED, label, adaptation=adaptation)


def _simpler(label: str, *whitening: float, **settings: Any) -> MethodEntry:
    """A step of the way to Foresight; without a shrinkage to choose from there is no whitening."""
    search = {"shrinkage": whitening or (1.0,), **NOISES}
    return _variant(label, search, **settings)


INGREDIENTS = (
    MethodEntry(WHOLE),
    *(_variant(f"features: {kind}", feature_scaling=kind) for kind in ("none", "unit", "standard", "centred", "root")),
    _variant("no whitening", shrinkage=1.0),
    *(_variant(f"shrinkage {value:g}", shrinkage=value) for value in SHRINKAGES),
    _variant("linear generator", {"feature_scaling": SCALINGS, "shrinkage": SHRINKAGES, **NOISES}, generator="linear"),
    _variant("no noise", noise=NEXT_TO_NOTHING),
    *(_variant(f"noise {value:g}", noise=value) for value in (0.1, 0.3, 1.0, 10.0)),
    _variant("class vectors as long as they are", semantic_norm=None),
    MethodEntry("CVC"),
    MethodEntry("CVC", "CVC, linear output", {"output": "linear"}),
)
WAY = (
    _simpler("ridge regression of class means", feature_scaling="none", generator="linear"),
    _simpler("+ images of one length, centred", feature_scaling="centred", generator="linear"),
    _simpler("+ square roots of features", feature_scaling="root", generator="linear"),
    _simpler("+ whitening", *SHRINKAGES, feature_scaling="root", generator="linear"),
    _simpler("+ infinitely many hidden units", *SHRINKAGES, feature_scaling="root"),
    MethodEntry(WHOLE),
)
TRANSDUCTION = (
    MethodEntry(WHOLE),
    MethodEntry(ADAPTED),
    *(_adapted(f"rounds {count}", rounds=count) for count in (1, 3, 20)),
    *(_adapted(f"temperature {value:g}", temperature=value) for value in (1.0, 2.0, 4.0, 8.0)),
    _adapted("prior uniform", prior="uniform"),
    _adapted("images' own means alone", noise=NEXT_TO_NOTHING),
    MethodEntry("CVC-tran-GXE"),
)
PARTS: Mapping[str, tuple[Sequence[MethodEntry], str]] = {
    "one ingredient at a time": (
        INGREDIENTS,
        "Foresight chooses features (root, centred), shrinkage and noise; a row fixes what it names and chooses the rest.",
    ),
    "from ridge regression to Foresight": (
        WAY,
        "Every row has what the rows above it have. The last also chooses between features root and centred.",
    ),
    "adapted to unlabelled images": (
        TRANSDUCTION,
        "Foresight-tran has 10 rounds and chooses the temperature; the first row has met no unlabelled image.",
    ),
}
NUMBERS = {"T1_validation": "T1 val.", "H_validation": "H val.", "T1": "T1 test", "H": "H test", "H_plain": "H plain"}


def study_plan(data: DataEntry, n_seen: int, seeds: int, shared: Mapping[str, Any] | None = None) -> Plan:
    """The plan of all three tables; ``n_seen`` is the number of seen classes, ``shared`` are settings of CVC beside it."""
    check_ablation(data, n_seen, shared or {})
    entries = {entry.shown: entry for rows, _ in PARTS.values() for entry in rows}
    methods = [
        entry if CARDS[entry.name].estimator == OWN else replace(entry, settings={**(shared or {}), **entry.settings})
        for entry in entries.values()
    ]
    return Plan((data,), tuple(methods), seeds, title=f"Study of {WHOLE} on {data.name}")


@dataclass(frozen=True)
class Study:
    """The rows of one data set's study: the title of each part, with its rows."""

    name: str
    parts: Mapping[str, Sequence[Row]]

    def tables(self) -> list[Table]:
        """A table a part."""
        return [_table(f"{self.name}: {title}", rows, PARTS[title][1]) for title, rows in self.parts.items()]


def studies(outcomes: Iterable[Outcome]) -> list[Study]:
    """The study of every data set that has one among these outcomes; none where only whole methods were run."""
    entries = {(entry.name, entry.shown): bool(entry.label) for rows, _ in PARTS.values() for entry in rows}
    found: dict[str, list[Row]] = defaultdict(list)
    for group in seeds_together(outcomes):
        shown = group[0].shown
        if (shown["method"], shown["label"]) in entries and "skipped" not in group[0].identity:
            found[f"{shown['data']}, {group[0].identity['data']['semantics']}"].append(_row(group))
    return [
        Study(name, {title: _chosen(rows, wanted) for title, (wanted, _) in PARTS.items()})
        for name, rows in sorted(found.items())
        if any(entries[row.method, row.label] for row in rows)
    ]


def study_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """The tables of every study among these outcomes."""
    return [table for study in studies(outcomes) for table in study.tables()]


def _chosen(rows: Sequence[Row], entries: Sequence[MethodEntry]) -> list[Row]:
    """The rows that these entries became, in their order."""
    return [row for entry in entries for row in rows if (row.label, row.method) == (entry.shown, entry.name)]


def _row(group: Sequence[Outcome]) -> Row:
    """A row that also has what was reached on validation classes."""
    reports = [outcome.record["selection"] for outcome in group if outcome.state == DONE]
    points = [report.get("validation", {}) for report in reports]
    keys = {"T1_validation": "T1", "H_validation": "H_at_best_penalty"}
    measured = {name: [point[key] for point in points if key in point] for name, key in keys.items()}
    row = row_of(group)
    return replace(row, results={**row.results, **measured})


def _table(title: str, rows: Sequence[Row], note: str) -> Table:
    lines = [[row.name, *(row.shown(number) for number in NUMBERS), str(row.seeds), f"{row.seconds:.0f}"] for row in rows]
    notes = [
        note,
        "Percent, mean ± standard deviation over seeds, which draw the held-out images, and the validation classes where the "
        "data list none. val.: on the validation classes that everything was chosen on; test: looked at once; plain: H on "
        "test data without the penalty on seen classes; s: seconds a job.",
    ]
    remarks = [remark for row in rows for remark in row.remarks]
    return Table(title, ["variant", *NUMBERS.values(), "seeds", "s"], lines, [*notes, *remarks])
