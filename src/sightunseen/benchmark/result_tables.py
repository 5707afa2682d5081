"""Result tables: mean ± standard deviation over seeds, ranks, and published numbers next to the measured ones."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sightunseen.benchmark.comparison import COMPARED
from sightunseen.benchmark.outcome import FLOPS, JOULES, Outcome
from sightunseen.benchmark.rows import SHORT_NOTE, Row, rows_by_data
from sightunseen.benchmark.variant_names import OWN
from sightunseen.core.intervals import COVERAGE
from sightunseen.core.metrics import ACCURACIES, MAIN, RECORDED, definitions, further
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

OTHER_CONDITIONS = "†"  # mark of numbers published with other features or class vectors
SHOWN = {  # setting -> metrics of the table, and those with a published number
    None: ((*MAIN, "H_plain"), COMPARED),
    "zsl": (("T1",), ("T1",)),
    "gzsl": (RECORDED[1:], ACCURACIES[1:]),
}
PENALTY_NOTE = (
    "U, S and H with the seen-class bias of calibrated stacking (seen penalty; Chao et al., 2016) chosen on validation "
    "classes; plain: without it."
)
BUDGET_NOTE = (
    "budget: quick = defaults of the method, minutes on two cores; full = the authors' sizes and number of steps where known; "
    "- = the method has no budgets; other names are presets."
)
SCALING_NOTE = (
    "scaling: own, the default of the method; searched, chosen on validation classes. Foresight always searches its own list; "
    "methods that cannot choose, or were not measured with a searched scaling, are compared with their own."
)
SECONDS = {  # meaning of the column s
    INDUCTIVE: "seconds of a job",
    TRANSDUCTIVE: "seconds of a job, without the selection if that of the inductive job was used",
}
Formatter = Callable[[Row], str]  # returns the text of a row's cell


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


def tables(outcomes: Iterable[Outcome], setting: str | None = None, conditions: bool = False) -> list[Table]:
    """Build a result table per data set, number of drawn seen classes and setting, the best method first.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.
    setting : {"zsl", "gzsl"}, optional
        Show only the metrics of zero-shot or generalised zero-shot learning. Default: the main metrics of both.
    conditions : bool, default=False
        Whether to show the features, class vectors, selection and source of published numbers.

    Returns
    -------
    list of Table
        Tables ordered by data set and number of seen classes; inductive before transductive methods.
    """
    grouped = rows_by_data(outcomes)
    return [_table(data, kind, rows, setting, conditions) for (data, kind), rows in grouped.items()]


def _table(data: str, kind: str, rows: Sequence[Row], setting: str | None, conditions: bool) -> Table:
    (numbers, published), ranked_by = SHOWN[setting], "T1" if setting == "zsl" else "H"
    drawn = any(row.drawn for row in rows)
    published = published if any(row.published for row in rows) else ()
    # Methods selected on test data come last and are ranked separately.
    ordered = sorted(rows, key=lambda row: (row.selection == "oracle", _descending(row.mean(ranked_by)), row.variant))
    if setting != "zsl":  # metric plug-ins are computed among all classes
        numbers = (*numbers, *further(name for row in rows for name in row.results))
    bounded = [name for name in COMPARED if name in numbers and any(name in row.intervals for row in rows)]
    columns: list[tuple[str, Formatter]] = [  # name of the column, and its cell in a row
        ("method", lambda row: row.marked),
        *variant_columns(rows),
        ("rank", lambda row: str(rank_of(row, rows, ranked_by) or "-")),
        *((name.replace("_", " "), partial(Row.shown, number=name)) for name in numbers),
        *((f"{name} 95%", partial(Row.interval, number=name)) for name in bounded),
        *((f"{name} pub.", partial(_published, number=name)) for name in published),
        ("draws" if drawn else "seeds", lambda row: str(row.seeds)),
        ("s", lambda row: f"{row.seconds:.{int(drawn)}f}"),
        *cost_columns(rows),
        *([("published with", _conditions)] if conditions and any(row.published for row in rows) else []),
    ]
    lines = [[cell(row) for _, cell in columns] for row in ordered]
    notes = _notes(rows, ranked_by, numbers, bounded, SECONDS[kind])
    return Table(f"{data}, {kind}", [name for name, _ in columns], lines, notes)


def variant_columns(rows: Sequence[Row]) -> list[tuple[str, Formatter]]:
    """Columns for budget and scaling, if any row has them.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the table.

    Returns
    -------
    list of (str, callable)
        Name of each column, and the function that returns its cell for a row.
    """
    found: list[tuple[str, Formatter]] = []
    if any(row.budget for row in rows):
        found.append(("budget", lambda row: row.budget or "-"))
    if any(row.scaling != OWN for row in rows):
        found.append(("scaling", lambda row: row.scaling))
    return found


def cost_columns(rows: Sequence[Row]) -> list[tuple[str, Formatter]]:
    """Columns of energy and floating-point operations, if any row has them.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the table.

    Returns
    -------
    list of (str, callable)
        Name of each column, and the function that returns its cell for a row.
    """
    found: list[tuple[str, Formatter]] = []
    if any(row.joules is not None for row in rows):
        found.append(("kJ", lambda row: _amount(row.joules, 1e3)))
    if any(FLOPS in row.cost for row in rows):
        found.append(("TFLOP", lambda row: _amount(row.cost.get(FLOPS), 1e12)))
    return found


def variant_notes(rows: Sequence[Row]) -> list[str]:
    """Notes that explain the columns and marks of variants and costs, as far as they are in the table.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the table.

    Returns
    -------
    list of str
        One sentence each.
    """
    notes = []
    if any(row.short for row in rows):
        notes.append(SHORT_NOTE)
    if any(row.budget for row in rows):
        notes.append(BUDGET_NOTE)
    if any(row.scaling != OWN for row in rows):
        notes.append(SCALING_NOTE)
    devices = sorted({name.removeprefix(JOULES).upper() for row in rows for name in row.cost if name.startswith(JOULES)})
    if devices:
        notes.append(f"kJ: energy of a job that ran alone, by the counters of {' and '.join(devices)}.")
    if any(FLOPS in row.cost for row in rows):
        notes.append("TFLOP: trillions of floating-point operations in the gradient steps of a job.")
    return notes


def rank_of(row: Row, rows: Sequence[Row], number: str) -> int | None:
    """Rank of a row by a metric.

    Parameters
    ----------
    row : Row
        The row.
    rows : sequence of Row
        All rows. The rank is that among the rows selected on test data, or among all others.
    number : str
        Metric.

    Returns
    -------
    int or None
        The rank; 1 is best. None if the row has no result.
    """
    mean = row.mean(number)
    if mean is None:
        return None
    rivals = [other.mean(number) for other in rows if (other.selection == "oracle") == (row.selection == "oracle")]
    return 1 + sum(rival is not None and rival > mean for rival in rivals)


def _amount(value: float | None, unit: float) -> str:
    """Format an amount with three digits, but never as a power of ten."""
    if value is None:
        return "-"
    amount = value / unit
    return "<0.001" if 0 < amount < 0.001 else f"{amount:.3g}" if amount < 999.5 else f"{amount:.0f}"


def _descending(mean: float | None) -> float:
    """Sort key of a result; rows without one come last."""
    return math.inf if mean is None else -mean


def _published(row: Row, number: str) -> str:
    value = row.published.numbers[number] if row.published else None
    return "-" if value is None else f"{value:.1f}{'' if row.same_conditions else OTHER_CONDITIONS}"


def _conditions(row: Row) -> str:
    found = row.published
    return "-" if found is None else f"{found.conditions}: {found.origin.source}, {found.origin.table}"


def _notes(rows: Sequence[Row], ranked_by: str, numbers: Sequence[str], bounded: Sequence[str], seconds: str) -> list[str]:
    drawn = any(row.drawn for row in rows)
    over = "random class splits" if drawn else "seeds"
    published = " pub.: published;" if any(row.published for row in rows) else ""
    notes = [
        f"Percent, mean ± standard deviation over {over}; ranked by {ranked_by};{published} s: {seconds}.",
        definitions(numbers),
    ]
    if bounded:
        notes.append(f"95%: interval, {COVERAGE}; mean over {over}.")
    if any(row.selection == "validation" for row in rows) and "H" in numbers:
        notes.append(PENALTY_NOTE)
    if any(row.selection == "oracle" for row in rows):
        notes.append("oracle: hyperparameters selected on the TEST data.")
    notes += variant_notes(rows)
    other = [row.published for row in rows if row.published and not row.same_conditions]
    if other:
        theirs = "; ".join(sorted({f"{one.backbone} and {one.origin.semantics}" for one in other}))
        ours = "; ".join(sorted({f"{row.backbone or 'other features'} and {row.semantics}" for row in rows}))
        notes.append(f"{OTHER_CONDITIONS} published with {theirs}; measured with {ours}.")
    for row in rows:
        notes += row.remarks
    return notes
