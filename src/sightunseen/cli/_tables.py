"""Tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One table; text left, numbers right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    lines = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(line[k]) for line in lines) for k in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    Console(markup=False).print(table)


def print_results(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """T1, U, S, H and AUSUC in percent, a row each."""
    names = ("T1", "U", "S", "H", "AUSUC")
    print_table(title, ["", *names], [[label, *(results.get(name) for name in names)] for label, results in rows.items()])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace(",", "").lstrip("-").isdigit()
