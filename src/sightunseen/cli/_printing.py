"""Tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from sightunseen.core.records import RunRecord

if TYPE_CHECKING:
    from sightunseen.core.calibration import Calibration

LONGEST_LINE = 1000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which ends quietly; rich would end the process as if a check had failed."""
        raise BrokenPipeError


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], fold: bool = True, paths: str | None = None
) -> None:
    """A title and a table; text left, numbers right. Without ``fold`` lines are as long as they need to be.

    ``paths`` is a column that loses its front where a line is too long for the terminal; in a file or a pipe, no line is.
    """
    console = _Console(markup=False, highlight=False)
    if not fold or (paths is not None and not console.is_terminal):
        console.width = LONGEST_LINE
    table = Table(box=box.SIMPLE_HEAD)
    lines = [[_cell(value) for value in row] for row in rows]
    if paths is not None:
        _shorten(lines, columns, columns.index(paths), console.width)
    numeric = [all(_is_number(line[k]) for line in lines) for k in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    console.print(title)
    console.print(table)


def print_results(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """T1, U, S, H and AUSUC in percent, a row each."""
    names = ("T1", "U", "S", "H", "AUSUC")
    print_table(title, ["", *names], [[label, *(results.get(name) for name in names)] for label, results in rows.items()])


def print_choice(record: RunRecord) -> None:
    """What was chosen, on what, and what else was tried."""
    from sightunseen.selection.choice import best_point

    tried = record.selection.get("tried", [])
    if len(tried) > 1 and "folds" in record.selection:
        rows = []
        for entry in tried:
            point = best_point(entry)
            settings = ", ".join(f"{name} {value}" for name, value in entry["settings"].items())
            rows.append((settings, point.get("steps"), point["T1"], point["H_at_best_penalty"], point["AUSUC"]))
        print_table("Tried on validation classes:", ["settings", "steps", "T1", "H", "AUSUC"], rows)
    chosen = record.selection.get("chosen", {})
    shown = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen.items()
    )
    whose = f"seed {record.seed}, each for itself: " if record.seeds else ""
    print(f"{whose}chosen by {record.selection['by']}" + (f": {shown}" if shown else ""))


def print_calibration(calibration: "Calibration | None") -> None:
    """In one line how sure the model may be, and when it says "none of these"; nothing where nobody measured it."""
    from sightunseen.core.calibration import NONE

    if calibration is None:
        return
    found = calibration
    shown = f"temperature {found.temperature:.3g} (ECE {found.ECE_before:.1f} -> {found.ECE:.1f})"
    if found.none_below is not None:
        shown += f", '{NONE}' below a score of {found.none_below:.4g} "
        shown += f"(AUROC {found.AUROC:.1f}, right {found.none_accuracy:.1f}, keeps {found.known_kept:.1f}% of known images)"
    print(f"calibrated on validation classes: {shown}")


def _shorten(lines: list[list[str]], columns: Sequence[str], place: int, width: int) -> None:
    """Cut the cells of one column at their left, so that lines fit the width and a file's name stays to be read.

    Where the other columns are long as well, they fold, and a quarter of the width is left to this one.
    """
    others = [max(map(cell_len, column)) for k, column in enumerate(zip(columns, *lines, strict=True)) if k != place]
    room = max(width - sum(others) - 3 * len(columns) - 1, width // 4)  # three blanks lie between columns
    for line in lines:
        if cell_len(line[place]) > room:
            while cell_len(line[place]) >= room:
                line[place] = line[place][1:]
            line[place] = f"…{line[place]}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace(",", "").lstrip("-").isdigit()
