"""Result tables: mean ± standard deviation over seeds, ranks, and published numbers next to the measured ones."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightunseen.benchmark.comparison import draw_order
from sightunseen.benchmark.published import Published, published_row
from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Outcome, job_id
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

OTHER_BACKBONE = "†"
ALL_METRICS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")
SHOWN = {  # setting -> metrics of the table, and those with a published number
    None: (("T1", "U", "S", "H", "AUSUC", "H_plain"), ("T1", "H")),
    "zsl": (("T1",), ("T1",)),
    "gzsl": (ALL_METRICS[1:], ("U", "S", "H")),
}
DEFINITIONS = {
    "T1": "per-class top-1 accuracy among unseen classes",
    "U": "per-class accuracy of unseen among all classes",
    "S": "per-class accuracy of seen among all classes",
    "H": "harmonic mean of U and S",
    "AUSUC": "area under the seen-unseen curve",
}
PENALTY_NOTE = (
    "U, S and H with the seen-class bias of calibrated stacking (seen penalty; Chao et al., 2016) chosen on validation "
    "classes; plain: without it."
)


def definitions(numbers: Iterable[str]) -> str:
    """Define metrics in one line.

    Parameters
    ----------
    numbers : iterable of str
        Names of metrics; unknown ones are left out.

    Returns
    -------
    str
        The definitions, separated by semicolons.

    Examples
    --------
    >>> definitions(["H"])
    'H: harmonic mean of U and S.'
    """
    return "; ".join(f"{name}: {DEFINITIONS[name]}" for name in numbers if name in DEFINITIONS) + "."


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
        return statistics.stdev(self.results[number]) if self.seeds > 1 else 0.0

    def shown(self, number: str) -> str:
        """Format a metric as mean ± standard deviation, or as the value for one seed."""
        mean = self.mean(number)
        if mean is None:
            return "-"
        return f"{mean:.1f} ± {self.spread(number):.1f}" if self.seeds > 1 else f"{mean:.1f}"


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
    results = {name: [outcome.record["results"][name] for outcome in done] for name in ALL_METRICS}
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
    )


def _table(title: str, rows: Sequence[Row], setting: str | None) -> Table:
    (numbers, published), ranked_by = SHOWN[setting], "T1" if setting == "zsl" else "H"
    drawn = any(row.drawn for row in rows)
    published = () if drawn else published
    # Methods selected on test data come last and are ranked separately.
    ordered = sorted(rows, key=lambda row: (row.selection == "oracle", -(row.mean(ranked_by) or -1.0), row.name))
    columns = ["method", "rank", *(name.replace("_", " ") for name in numbers)]
    columns += [f"{name} pub." for name in published] + ["draws" if drawn else "seeds", "s"]
    lines = []
    for row in ordered:
        line = [row.name, _rank(row, rows, ranked_by), *(row.shown(name) for name in numbers)]
        lines.append([*line, *(_published(row, name) for name in published), str(row.seeds), f"{row.seconds:.{int(drawn)}f}"])
    return Table(title, columns, lines, _notes(rows, ranked_by, numbers))


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


def _notes(rows: Sequence[Row], ranked_by: str, numbers: Sequence[str]) -> list[str]:
    drawn = any(row.drawn for row in rows)
    over, published = ("random class splits", "") if drawn else ("seeds", " pub.: published;")
    notes = [
        f"Percent, mean ± standard deviation over {over}; ranked by {ranked_by};{published} s: seconds per job.",
        definitions(numbers),
    ]
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
