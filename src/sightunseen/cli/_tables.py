"""Tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from sightunseen.records import RunRecord

LONGEST_LINE = 1000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which ends quietly; rich would end the process as if a check had failed."""
        raise BrokenPipeError


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], fold: bool = True) -> None:
    """A title and a table; text left, numbers right. Without ``fold`` lines are as long as they need to be."""
    table = Table(box=box.SIMPLE_HEAD)
    lines = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(line[k]) for line in lines) for k in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    console = _Console(markup=False, highlight=False, width=None if fold else LONGEST_LINE)
    console.print(title)
    console.print(table)


def print_results(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """T1, U, S, H and AUSUC in percent, a row each."""
    names = ("T1", "U", "S", "H", "AUSUC")
    print_table(title, ["", *names], [[label, *(results.get(name) for name in names)] for label, results in rows.items()])


def print_choice(record: RunRecord) -> None:
    """What was chosen, on what, and what else was tried."""
    from sightunseen.selection import best_point

    tried = record.selection.get("tried", [])
    if len(tried) > 1 and "points" in tried[0]:
        rows = []
        for entry in tried:
            point = best_point(entry)
            settings = ", ".join(f"{name} {value}" for name, value in entry["settings"].items())
            rows.append((settings, point.get("tasks"), point["T1"], point["H_at_best_penalty"], point["AUSUC"]))
        print_table("Tried on validation classes:", ["settings", "tasks", "T1", "H", "AUSUC"], rows)
    chosen = record.selection.get("chosen", {})
    if record.protocol == "paper" and "tasks" in chosen:
        chosen = {"tasks": chosen["tasks"]}
    shown = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen.items()
    )
    whose = f"seed {record.seed}, each for itself: " if record.seeds else ""
    print(f"{whose}chosen by {record.selection['by']}" + (f": {shown}" if shown else ""))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace(",", "").lstrip("-").isdigit()
