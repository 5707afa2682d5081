"""Result tables as Markdown, CSV, LaTeX and JSON."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from sightunseen.benchmark.result_tables import Table


def as_markdown(tables: Sequence[Table]) -> str:
    """Format tables as Markdown: a heading, a pipe table and the notes of each.

    Parameters
    ----------
    tables : sequence of Table
        Tables to format.

    Returns
    -------
    str
        Markdown text.

    Examples
    --------
    >>> print(as_markdown([Table("CUB, inductive", ["method", "T1"], [["ESZSL", "51.0"]])]))
    ### CUB, inductive
    <BLANKLINE>
    | method | T1 |
    | --- | --- |
    | ESZSL | 51.0 |
    """
    parts = []
    for table in tables:
        lines = [f"### {table.title}", "", _pipes(table.columns), _pipes(["---"] * len(table.columns))]
        lines += [_pipes(row) for row in table.rows]
        parts.append("\n".join([*lines, "", *(f"{note}  " for note in table.notes)]).rstrip())
    return "\n\n".join(parts)


def as_csv(tables: Sequence[Table]) -> str:
    """Format tables as one CSV table, with the title of each row's table in the first column.

    Parameters
    ----------
    tables : sequence of Table
        Tables to format. Columns that a table does not have are left empty in its rows.

    Returns
    -------
    str
        CSV text with a header line. Notes are left out.
    """
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["table", *columns], restval="", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows({"table": table.title, **dict(zip(table.columns, row, strict=True))} for row in table.rows)
    return text.getvalue().rstrip("\n")


def as_latex(tables: Sequence[Table]) -> str:
    """Format tables as LaTeX ``table`` environments with ``booktabs`` rules.

    Parameters
    ----------
    tables : sequence of Table
        Tables to format. Title and notes become the caption.

    Returns
    -------
    str
        LaTeX source.
    """
    parts = []
    for table in tables:
        rows = [" & ".join(map(latex_text, row)) + r" \\" for row in table.rows]
        lines = [
            r"\begin{table}",
            rf"\caption{{{latex_text(table.title)}. {latex_text(' '.join(table.notes))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            " & ".join(map(latex_text, table.columns)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def as_json(tables: Sequence[Table]) -> str:
    """Format tables as JSON, for programs and for the pages of the documentation.

    Parameters
    ----------
    tables : sequence of Table
        Tables to format.

    Returns
    -------
    str
        A list of objects with ``title``, ``columns``, ``rows`` and ``notes``.
    """
    return json.dumps([asdict(table) for table in tables], ensure_ascii=False, indent=1)


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "md": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
    "json": as_json,
}


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def latex_text(text: str) -> str:
    """Escape a text for LaTeX.

    Parameters
    ----------
    text : str
        Text of a cell or caption.

    Returns
    -------
    str
        LaTeX source.
    """
    arrows = {"→": r"$\rightarrow$", "←": r"$\leftarrow$"}
    symbols = {sign: f"${sign}$" for sign in "<>|"} | {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "[": "{[}"}
    symbols |= {"\\": r"\textbackslash{}", "±": r"$\pm$", "†": r"$^\dagger$", "‡": r"$^\ddagger$", **arrows}
    return "".join(symbols.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in text)
