"""Ablation study of Foresight: one component changed at a time, all added one by one, adaptation, and CVC for comparison."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightunseen.benchmark.entries import DataEntry, MethodEntry
from sightunseen.benchmark.groups import newest, seeds_together
from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.benchmark.paper_ablation import check_ablation
from sightunseen.benchmark.plan import Plan
from sightunseen.benchmark.result_tables import Table
from sightunseen.benchmark.rows import Row, row_of
from sightunseen.benchmark.variant_names import OWN
from sightunseen.core.metrics import ACCURACIES, definitions
from sightunseen.methods.base.presets import QUICK
from sightunseen.methods.catalogue import CARDS

WHOLE, ADAPTED = "Foresight", "Foresight-tran"
NEGLIGIBLE_NOISE = 1e-6  # the regression interpolates the class means
NOISES = {"noise": (0.03, 0.1, 0.3, 1.0)}  # linear variants need less noise than Foresight's search space offers
SHRINKAGES = (0.1, 0.3, 0.6, 0.9)  # of Foresight's search space
SCALINGS = ("none", "unit", "standard", "centred", "root", "root+centred")


def _variant(label: str, search: Mapping[str, Sequence[Any]] | None = None, **settings: Any) -> MethodEntry:
    """Foresight with fixed hyperparameters; the others are searched in ``search``, by default Foresight's search space."""
    return MethodEntry(WHOLE, label, settings, search)


def _adapted(label: str, **adaptation: Any) -> MethodEntry:
    return MethodEntry(ADAPTED, label, adaptation=adaptation)


def _simpler(label: str, *whitening: float, **settings: Any) -> MethodEntry:
    """A step from ridge regression to Foresight. ``whitening`` lists the shrinkages to search; without it, none is done."""
    search = {"shrinkage": whitening or (1.0,), **NOISES}
    return _variant(label, search, **settings)


INGREDIENTS = (
    MethodEntry(WHOLE),
    *(_variant(f"features: {kind}", feature_scaling=kind) for kind in SCALINGS),
    _variant("no whitening", shrinkage=1.0),
    *(_variant(f"shrinkage {value:g}", shrinkage=value) for value in SHRINKAGES),
    _variant("linear generator", generator="linear"),
    _variant("arc-cosine kernel", generator="wide"),
    _variant("predicted mean lengths", mean_length="predicted"),
    _variant("equal mean lengths", mean_length="equal"),
    _variant("no noise", noise=NEGLIGIBLE_NOISE),
    *(_variant(f"noise {value:g}", noise=value) for value in (0.1, 0.3, 1.0, 10.0)),
    _variant("class vectors not normalised", semantic_norm=None),
    MethodEntry("CVC"),
    MethodEntry("CVC", "CVC, linear output", {"output": "linear"}),
)
STEPS = (
    _simpler("ridge regression of class means", feature_scaling="none", generator="linear"),
    _simpler("+ L2 normalisation and centring", feature_scaling="centred", generator="linear"),
    _simpler("+ signed square root", feature_scaling="root", generator="linear"),
    _simpler("+ whitening", *SHRINKAGES, feature_scaling="root", generator="linear"),
    _simpler("+ arc-cosine kernel", *SHRINKAGES, feature_scaling="root", generator="wide"),
    _simpler("+ second view without square root", *SHRINKAGES, feature_scaling="root+centred", generator="wide"),
    MethodEntry(WHOLE),
)
TRANSDUCTION = (
    MethodEntry(WHOLE),
    MethodEntry(ADAPTED),
    *(_adapted(f"rounds {count}", rounds=count) for count in (1, 3, 20)),
    *(_adapted(f"temperature {value:g}", temperature=value) for value in (1.0, 2.0, 4.0, 8.0, 16.0)),
    *(_adapted(f"trust {value:g}", trust=value) for value in (0.3, 1.0)),
    _adapted("means of the unlabelled images only", trust=1 / NEGLIGIBLE_NOISE),
    _adapted("prior uniform", prior="uniform"),
    _adapted("images of any class", images_of="all"),
    MethodEntry("CVC-tran-GXE"),
)
PARTS: Mapping[str, tuple[Sequence[MethodEntry], str]] = {
    "one ingredient at a time": (
        INGREDIENTS,
        "Foresight selects feature scaling (root, centred, root+centred), shrinkage, noise, kernel and mean length; each "
        "variant fixes what it names.",
    ),
    "from ridge regression to Foresight": (
        STEPS,
        "Each row adds to the row above it. The last row also selects feature scaling, kernel and mean length.",
    ),
    "adapted to unlabelled images": (
        TRANSDUCTION,
        "Foresight-tran has 10 rounds and selects temperature; it is not adapted if adapting does not help on validation "
        "classes. The first row is not adapted.",
    ),
}
NUMBERS = {"T1_validation": "T1 val.", "H_validation": "H val.", "T1": "T1 test", "H": "H test", "H_plain": "H plain"}


def study_plan(data: DataEntry, n_seen: int, seeds: int, shared: Mapping[str, Any] | None = None) -> Plan:
    """Build the plan of the Foresight study: all variants of its three tables on one data set.

    Parameters
    ----------
    data : DataEntry
        Data set.
    n_seen : int
        Number of seen classes of the data set.
    seeds : int
        Number of seeds.
    shared : mapping, optional
        Hyperparameters of the CVC variants.

    Returns
    -------
    Plan
        The plan; a variant that is in several tables has one entry.

    Raises
    ------
    DataError
        If there are too few seen classes to hold out validation classes.
    SettingsError
        If ``shared`` has a hyperparameter that the study varies.
    """
    check_ablation(data, n_seen, shared or {})
    entries = {entry.shown: entry for rows, _ in PARTS.values() for entry in rows}
    methods = [
        entry
        if CARDS[entry.name].estimator == CARDS[WHOLE].estimator
        else replace(entry, settings={**(shared or {}), **entry.settings})
        for entry in entries.values()
    ]
    return Plan((data,), tuple(methods), seeds, title=f"Study of {WHOLE} on {data.name}")


@dataclass(frozen=True)
class Study:
    """Results of the Foresight study on one data set.

    Parameters
    ----------
    name : str
        Data set and class vectors.
    parts : mapping of str to sequence of Row
        Rows by title of the table.
    """

    name: str
    parts: Mapping[str, Sequence[Row]]

    def tables(self) -> list[Table]:
        """Build one table per part.

        Returns
        -------
        list of Table
            Tables in the order of ``parts``.
        """
        return [_table(f"{self.name}: {title}", rows, PARTS[title][1]) for title, rows in self.parts.items()]


def studies(outcomes: Iterable[Outcome]) -> list[Study]:
    """Find the Foresight studies among outcomes.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of Study
        One per data set and class vectors; empty if no variant of Foresight was run.
    """
    entries = {(entry.name, entry.shown): bool(entry.label) for rows, _ in PARTS.values() for entry in rows}
    found: dict[str, list[Row]] = defaultdict(list)
    of_study = [one for one in outcomes if (one.shown["method"], one.shown["label"]) in entries and _as_it_is(one)]
    for group in seeds_together(newest(of_study, lambda one: f"{one.row_name} {_semantics(one)}")):
        found[f"{group[0].shown['data']}, {_semantics(group[0])}"].append(_row(group))
    return [
        Study(name, {title: _chosen(rows, wanted) for title, (wanted, _) in PARTS.items()})
        for name, rows in sorted(found.items())
        if any(entries[row.method, row.label] for row in rows)
    ]


def study_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Build the tables of all Foresight studies among outcomes.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of Table
        Three tables per study.
    """
    return [table for study in studies(outcomes) for table in study.tables()]


def _as_it_is(outcome: Outcome) -> bool:
    """Whether a method ran with its defaults and its own feature scaling."""
    return outcome.budget in ("", QUICK) and outcome.scaling == OWN and "skipped" not in outcome.identity


def _semantics(outcome: Outcome) -> str:
    return str(outcome.identity.get("data", {}).get("semantics", ""))


def _chosen(rows: Sequence[Row], entries: Sequence[MethodEntry]) -> list[Row]:
    """Rows of these entries, in the order of the entries."""
    return [row for entry in entries for row in rows if (row.label, row.method) == (entry.shown, entry.name)]


def _row(group: Sequence[Outcome]) -> Row:
    """Summarise one variant, with its results on validation classes."""
    reports = [outcome.record.get("selection", {}) for outcome in group if outcome.state == DONE]
    points = [report.get("validation", {}) for report in reports]
    keys = {"T1_validation": "T1", "H_validation": "H_at_best_penalty"}
    measured = {name: [point[key] for point in points if key in point] for name, key in keys.items()}
    row = row_of(group)
    return replace(row, results={**row.results, **measured})


def _table(title: str, rows: Sequence[Row], note: str) -> Table:
    lines = [[row.name, *(row.shown(number) for number in NUMBERS), str(row.seeds), f"{row.seconds:.0f}"] for row in rows]
    notes = [
        note,
        "Percent, mean ± standard deviation over seeds. val.: on the validation classes that hyperparameters are selected on; "
        "test: on the test images, evaluated once; plain: H on test images without seen penalty; s: seconds per job.",
        definitions(ACCURACIES),
    ]
    remarks = [remark for row in rows for remark in row.remarks]
    return Table(title, ["variant", *NUMBERS.values(), "seeds", "s"], lines, [*notes, *remarks])
