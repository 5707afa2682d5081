"""Result tables: mean ± standard deviation over seeds, ranks, and published numbers next to the measured ones."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightunseen.benchmark.comparison import COMPARED, draw_order
from sightunseen.benchmark.published import Published, published_row
from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Outcome, job_id
from sightunseen.core.intervals import COVERAGE
from sightunseen.core.limits import MAGNITUDE
from sightunseen.core.metrics import ACCURACIES, MAIN, RECORDED, definitions, further
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

OTHER_BACKBONE = "†"
SHOWN = {  # setting -> metrics of the table, and those with a published number
    None: ((*MAIN, "H_plain"), COMPARED),
    "zsl": (("T1",), ("T1",)),
    "gzsl": (RECORDED[1:], ACCURACIES[1:]),
}
PENALTY_NOTE = (
    "U, S and H with the seen-class bias of calibrated stacking (seen penalty; Chao et al., 2016) chosen on validation "
    "classes; plain: without it."
)


@dataclass(frozen=True)
class Row:
    """Results of one method on one data set over its seeds.

    Parameters
    ----------
    label : str
        Name of the variant.
    method : str
        Name of the method.
    selection : {"validation", "none", "oracle"}
        How hyperparameters were selected.
    results : mapping of str to sequence of float
        Values of each metric, in percent, one per seed.
    published : Published or None
        Published results of the same method and data set.
    backbone : str
        Network that the features come from.
    seconds : float, default=0.0
        Mean wall-clock time of a job.
    reasons : tuple of str, default=()
        Why some seeds have no result.
    drawn : bool, default=False
        Whether each seed is a random class split.
    intervals : mapping of str to sequence of float, default={}
        95% interval of each metric in percent, low and high, of a single seed; see
        :func:`~sightunseen.core.intervals.bootstrap`.
    """

    label: str
    method: str
    selection: str
    results: Mapping[str, Sequence[float]]
    published: Published | None
    backbone: str
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    drawn: bool = False
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """Number of seeds with a result."""
        return len(self.results.get("T1", ()))

    @property
    def name(self) -> str:
        """Label, followed by the selection unless it was made on validation classes."""
        return self.label if self.selection == "validation" else f"{self.label} ({self.selection})"

    @property
    def remarks(self) -> list[str]:
        """One sentence per reason why seeds have no result."""
        return [f"{self.name}: {reason}" for reason in self.reasons]

    def mean(self, number: str) -> float | None:
        """Mean of a metric over seeds; None if there is no result."""
        return statistics.fmean(self.results[number]) if self.results.get(number) else None

    def spread(self, number: str) -> float:
        """Sample standard deviation of a metric over seeds; 0 for one seed."""
        return statistics.stdev(self.results[number]) if len(self.results[number]) > 1 else 0.0

    def shown(self, number: str) -> str:
        """Format a metric as mean ± standard deviation, or as the value for one seed."""
        mean = self.mean(number)
        if mean is None:
            return "-"
        return f"{mean:.1f} ± {self.spread(number):.1f}" if len(self.results[number]) > 1 else f"{mean:.1f}"

    def interval(self, number: str) -> str:
        """Format the 95% interval of a metric; "-" if there is none."""
        return "{:.1f}-{:.1f}".format(*self.intervals[number]) if number in self.intervals else "-"


@dataclass(frozen=True)
class Table:
    """A table of text cells, ready to be written in any format.

    Parameters
    ----------
    title : str
        Title.
    columns : sequence of str
        Column names.
    rows : sequence of sequence of str
        Cells, one per column.
    notes : sequence of str, default=()
        Lines below the table that explain its columns and marks.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)


def tables(outcomes: Iterable[Outcome], setting: str | None = None) -> list[Table]:
    """Build a result table per data set, number of drawn seen classes and setting, the best method first.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.
    setting : {"zsl", "gzsl"}, optional
        Show only the metrics of zero-shot or generalised zero-shot learning. Default: the main metrics of both.

    Returns
    -------
    list of Table
        Tables ordered by data set and number of seen classes; inductive before transductive methods.
    """
    return [_table(f"{data}, {kind}", rows, setting) for (data, kind), rows in rows_by_data(outcomes).items()]


def rows_by_data(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Row]]:
    """Group outcomes into rows, one per method and selection, by data set, number of drawn seen classes and setting.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    dict of (str, str) to list of Row
        Rows by data set (with the draws of random class splits) and "inductive" or "transductive", in the order of the
        tables.
    """
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    order: dict[tuple[str, str], tuple[Any, ...]] = {}
    for group in seeds_together(outcomes):
        shown, draw = group[0].shown, group[0].draw
        key = group[0].split_name, shown["setting"]
        rows[key].append(row_of(group))
        order[key] = (shown["data"], *draw_order(draw), key[0], (INDUCTIVE, TRANSDUCTIVE).index(shown["setting"]))
    return {key: rows[key] for key in sorted(rows, key=order.__getitem__)}


def seeds_together(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Group outcomes that differ only in their seed: each group is one row of a table.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of list of Outcome
        Non-empty groups, in the order of their first outcome.
    """
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.split_name, _without_seed(outcome)].append(outcome)
    return list(groups.values())


def _without_seed(outcome: Outcome) -> str:
    """Hash of the identity without the seed; skipped jobs are identified by their names."""
    if "skipped" in outcome.identity:
        return f"skipped {outcome.shown['label']} {outcome.shown['selection']}"
    method: dict[str, Any] = outcome.identity["method"]
    settings = {name: value for name, value in method["settings"].items() if name != "seed"}
    return job_id({**outcome.identity, "seed": None, "method": {**method, "settings": settings}})


def row_of(outcomes: Sequence[Outcome]) -> Row:
    """Summarise the outcomes of one method's seeds.

    Parameters
    ----------
    outcomes : sequence of Outcome
        A group of :func:`seeds_together`.

    Returns
    -------
    Row
        Results of all metrics over the seeds that are done.
    """
    shown, drawn = outcomes[0].shown, outcomes[0].draw is not None
    done = [outcome for outcome in outcomes if outcome.state == DONE]
    found = [outcome.record["results"] for outcome in done]
    names = (*RECORDED, *further(name for results in found for name in results))
    results = {name: [one[name] for one in found if _is_number(one.get(name))] for name in names}
    reasons = tuple(f"{outcome.state}: {outcome.reason}" for outcome in outcomes if outcome.state in (FAILED, SKIPPED))
    return Row(
        shown["label"],
        shown["method"],
        shown["selection"],
        results,
        # Variants have published numbers of their own. Published numbers do not apply to drawn splits.
        None if drawn else published_row(shown["label"], shown["published_name"]),
        shown["backbone"],
        statistics.fmean([outcome.seconds for outcome in done]) if done else 0.0,
        tuple(dict.fromkeys(reasons)),
        drawn,
        done[0].record.get("intervals", {}) if len(done) == 1 else {},
    )


def _is_number(value: Any) -> bool:
    """Whether a result is a finite number; that of a metric plug-in can be anything in a file."""
    return isinstance(value, (int, float)) and abs(value) <= MAGNITUDE


def _table(title: str, rows: Sequence[Row], setting: str | None) -> Table:
    (numbers, published), ranked_by = SHOWN[setting], "T1" if setting == "zsl" else "H"
    drawn = any(row.drawn for row in rows)
    published = () if drawn else published
    # Methods selected on test data come last and are ranked separately.
    ordered = sorted(rows, key=lambda row: (row.selection == "oracle", -(row.mean(ranked_by) or -1.0), row.name))
    if setting != "zsl":  # metric plug-ins are computed among all classes
        numbers = (*numbers, *further(name for row in rows for name in row.results))
    bounded = [name for name in COMPARED if name in numbers and any(name in row.intervals for row in rows)]
    columns = ["method", "rank", *(name.replace("_", " ") for name in numbers), *(f"{name} 95%" for name in bounded)]
    columns += [f"{name} pub." for name in published] + ["draws" if drawn else "seeds", "s"]
    lines = []
    for row in ordered:
        line = [row.name, _rank(row, rows, ranked_by), *(row.shown(name) for name in numbers), *map(row.interval, bounded)]
        lines.append([*line, *(_published(row, name) for name in published), str(row.seeds), f"{row.seconds:.{int(drawn)}f}"])
    return Table(title, columns, lines, _notes(rows, ranked_by, numbers, bounded))


def _rank(row: Row, rows: Sequence[Row], number: str) -> str:
    """Rank among the rows that were selected on validation classes, or among those selected on test data."""
    mean = row.mean(number)
    if mean is None:
        return "-"
    rivals = [other.mean(number) for other in rows if (other.selection == "oracle") == (row.selection == "oracle")]
    return str(1 + sum(rival is not None and rival > mean for rival in rivals))


def _published(row: Row, number: str) -> str:
    value = row.published.numbers[number] if row.published else None
    if row.published is None or value is None:
        return "-"
    return f"{value:.1f}{OTHER_BACKBONE if row.backbone != row.published.backbone else ''}"


def _notes(rows: Sequence[Row], ranked_by: str, numbers: Sequence[str], bounded: Sequence[str]) -> list[str]:
    drawn = any(row.drawn for row in rows)
    over, published = ("random class splits", "") if drawn else ("seeds", " pub.: published;")
    notes = [
        f"Percent, mean ± standard deviation over {over}; ranked by {ranked_by};{published} s: seconds per job.",
        definitions(numbers),
    ]
    if bounded:
        notes.append(f"95%: interval of a single seed, {COVERAGE}.")
    if any(row.selection == "validation" for row in rows) and "H" in numbers:
        notes.append(PENALTY_NOTE)
    if any(row.selection == "oracle" for row in rows):
        notes.append("oracle: hyperparameters selected on the TEST data.")
    others = {row.published.backbone for row in rows if row.published and row.backbone != row.published.backbone}
    if others:
        ours = " or ".join(sorted({row.backbone or "other features" for row in rows}))
        notes.append(f"{OTHER_BACKBONE} published with {', '.join(sorted(others))} features; measured with {ours}.")
    for row in rows:
        notes += row.remarks
    return notes
