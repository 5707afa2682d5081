"""Tables as Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Sequence

from sightunseen.benchmark.result_tables import Table


def as_markdown(tables: Sequence[Table]) -> str:
    """A heading, a table and its notes each."""
    parts = []
    for table in tables:
        lines = [f"### {table.title}", "", _pipes(table.columns), _pipes(["---"] * len(table.columns))]
        lines += [_pipes(row) for row in table.rows]
        parts.append("\n".join([*lines, "", *(f"{note}  " for note in table.notes)]).rstrip())
    return "\n\n".join(parts)


def as_csv(tables: Sequence[Table]) -> str:
    """One table, a row a method, its data set and setting in the first column."""
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["table", *columns], restval="", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows({"table": table.title, **dict(zip(table.columns, row, strict=True))} for row in table.rows)
    return text.getvalue().rstrip("\n")


def as_latex(tables: Sequence[Table]) -> str:
    """A ``table`` with ``booktabs`` rules each; the notes are its caption."""
    parts = []
    for table in tables:
        rows = [" & ".join(map(_escaped, row)) + r" \\" for row in table.rows]
        lines = [
            r"\begin{table}",
            rf"\caption{{{_escaped(table.title)}. {_escaped(' '.join(table.notes))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            " & ".join(map(_escaped, table.columns)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {"md": as_markdown, "csv": as_csv, "latex": as_latex}


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _escaped(text: str) -> str:
    marks = {"\\": r"\textbackslash{}", "±": r"$\pm$", "†": r"$^\dagger$", "→": r"$\rightarrow$", "←": r"$\leftarrow$"}
    return "".join(marks.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in text)
