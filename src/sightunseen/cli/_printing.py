"""Tables and results on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from sightunseen.core.documents import printable
from sightunseen.core.intervals import COVERAGE
from sightunseen.core.metrics import MAIN, definitions, further
from sightunseen.core.records import RunRecord

if TYPE_CHECKING:
    from sightunseen.core.calibration import Calibration

LONGEST_LINE = 1000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error, so that ``main`` exits with 0; rich would exit with 1."""
        raise BrokenPipeError


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], fold: bool = True, paths: str | None = None
) -> None:
    """Print a title and a table, with numbers aligned to the right.

    Parameters
    ----------
    title : str
        Line above the table.
    columns : sequence of str
        Column names.
    rows : iterable of sequence
        Cells, one per column.
    fold : bool, default=True
        Fold cells that do not fit the width of the terminal. Otherwise lines are as long as needed.
    paths : str, optional
        Column of file paths, which are shortened from the left if a line does not fit the terminal. Output to a file or a pipe
        is never shortened.
    """
    console = _Console(markup=False, highlight=False)
    if not fold or (paths is not None and not console.is_terminal):
        console.width = LONGEST_LINE
    table = Table(box=box.SIMPLE_HEAD)
    lines = [[_cell(value) for value in row] for row in rows]
    if paths is not None:
        _shorten(lines, columns, columns.index(paths), console.width)
    for k, name in enumerate(columns):
        numeric = all(_is_number(line[k]) for line in lines)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    console.print(title)
    console.print(table)


def print_verdict(sentences: Iterable[str]) -> None:
    """Print the results in plain sentences, one per line.

    Parameters
    ----------
    sentences : iterable of str
        ``verdict`` of a run record.
    """
    for sentence in sentences:
        print(printable(sentence))


def print_results(
    title: str, rows: Mapping[str, Mapping[str, Any]], intervals: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Print T1, U, S, H and AUSUC, and the results of metric plug-ins, with their definitions.

    Parameters
    ----------
    title : str
        Line above the table.
    rows : mapping of str to mapping
        Results in percent by row label.
    intervals : mapping of str to sequence of float, default=None
        95% intervals of the last row, low and high by metric.
    """
    names = (*MAIN, *further(name for results in rows.values() for name in results))
    lines = [[label, *(results.get(name) for name in names)] for label, results in rows.items()]
    if intervals:
        shown = {name: f"{low:.1f}-{high:.1f}" for name, (low, high) in intervals.items()}
        lines.append(["95% interval", *(shown.get(name) for name in names)])
    print_table(title, ["", *names], lines)
    print(definitions(names))
    if intervals:
        print(f"95% interval: {COVERAGE}.")


def print_methods(record: RunRecord, verbose: bool = False) -> None:
    """Print the reason for the choice of a method, if it was chosen automatically.

    Parameters
    ----------
    record : RunRecord
        Record of the run.
    verbose : bool, default=False
        Print the comparison of all methods as well.
    """
    comparison = record.selection.get("methods")
    if comparison is None:
        return
    if verbose:
        from sightunseen.selection.auto import columns_of

        columns = columns_of(comparison)
        title = f"Methods on {comparison['folds']} class folds of the seen classes, percent"
        print_table(title, list(columns), zip(*columns.values(), strict=True))
    for name, reason in comparison["left_out"].items():
        print(f"note: {name} was left out: {reason}")
    by_seed = f" The method was chosen with seed {record.seed} for all seeds." if record.seeds else ""
    print(comparison["why"] + by_seed)


def print_choice(record: RunRecord, verbose: bool = False) -> None:
    """Print the selected hyperparameters in one line.

    Parameters
    ----------
    record : RunRecord
        Record of the run.
    verbose : bool, default=False
        Print how they were selected as well, and a table of all combinations that were tried on validation classes, the best
        one at the top.
    """
    folds = record.selection.get("folds", [])
    chosen = _listed(record.selection.get("chosen", {})).replace("seen_penalty", "seen penalty")
    if verbose and folds:
        _print_tried(record.selection)
    if folds and not verbose:
        sentence = f"chosen: {chosen} (more with --verbose)"
    elif folds:
        sizes = sorted({fold["validation_classes"] for fold in folds})
        size = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
        sentence = f"chosen on {len(folds)} class fold{'s' * (len(folds) > 1)} of {size} validation classes: {chosen}"
    else:
        sentence = f"chosen by {record.selection['by']}: {chosen}" if chosen else record.selection["by"]
    print(f"seed {record.seed}, each for itself: {sentence}." if record.seeds else f"{sentence[0].upper()}{sentence[1:]}.")


def print_calibration(calibration: "Calibration | None", verbose: bool) -> None:
    """Print the temperature and the rejection threshold of a model; nothing if the model is not calibrated.

    Parameters
    ----------
    calibration : Calibration or None
        Calibration of the model.
    verbose : bool
        If false, print only if there is no rejection threshold.
    """
    from sightunseen.core.calibration import NONE

    if calibration is None:
        return
    found = calibration
    if found.none_below is None:
        print(f"No rejection threshold is better than chance on validation classes: the model never answers '{NONE}'.")
    if not verbose:
        return
    print(
        f"Calibrated on validation classes: temperature {found.temperature:.3g} "
        f"(expected calibration error {found.ECE_before:.1f} -> {found.ECE:.1f} percent)."
    )
    if found.none_below is not None:
        print(
            f"Open-set rejection: '{NONE}' below a score of {found.none_below:.4g} (AUROC {found.AUROC:.1f}, "
            f"accuracy {found.none_accuracy:.1f}, {found.known_kept:.1f} percent of images of known classes kept)."
        )


def _print_tried(selection: Mapping[str, Any]) -> None:
    from sightunseen.selection.choice import CRITERIA, best_point

    value = CRITERIA[selection["by"].split(" on ")[0]]
    points = [(best_point(entry), entry["settings"]) for entry in selection["tried"]]
    points.sort(key=lambda pair: -value(pair[0]))
    numbers = ("steps", "T1", "H_at_best_penalty", "AUSUC")
    rows = [(_listed(settings), *map(point.get, numbers)) for point, settings in points]
    print_table("Tried on validation classes:", ["hyperparameters", "steps", "T1", "H", "AUSUC"], rows)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items())


def _shorten(lines: list[list[str]], columns: Sequence[str], k: int, width: int) -> None:
    """Cut the cells of column ``k`` from the left, so that lines fit the width and file names stay readable.

    If the other columns are long as well, they fold, and this one gets a quarter of the width.
    """
    others = [max(map(cell_len, column)) for j, column in enumerate(zip(columns, *lines, strict=True)) if j != k]
    room = max(width - sum(others) - 3 * len(columns) - 1, width // 4)  # three spaces between columns
    for line in lines:
        if cell_len(line[k]) > room:
            while cell_len(line[k]) >= room:
                line[k] = line[k][1:]
            line[k] = f"…{line[k]}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return printable(f"{value:.1f}" if isinstance(value, float) else str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace(",", "").lstrip("-").isdigit()
