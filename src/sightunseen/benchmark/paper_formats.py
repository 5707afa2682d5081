"""Tables in the layout of the paper as text, Markdown, CSV, JSON and LaTeX."""

from collections.abc import Mapping, Sequence

from sightunseen.benchmark.formats import FORMATS, latex_text
from sightunseen.benchmark.paper_layout import AS_GOOD, Cell, PaperTable
from sightunseen.benchmark.result_tables import Table
from sightunseen.core.metrics import ACCURACIES

TEXT, LATEX = "table", "latex"
BEST = {TEXT: "{}*", "md": "**{}**", "csv": "{}", "json": "{}*", LATEX: r"\textbf{{{}}}"}  # by format
STARRED = "* the best of its column."
BOLD = "The best results are in bold."
BEST_NOTES = {TEXT: STARRED, "md": BOLD, "csv": "", "json": STARRED, LATEX: r"The best results are in \textbf{bold}."}


def as_table(table: PaperTable, form: str = TEXT) -> Table:
    """Convert a table to text cells: one row per method, and four columns per data set.

    Parameters
    ----------
    table : PaperTable
        Table to convert.
    form : {"table", "md", "csv", "json"}, default="table"
        Format that the best numbers are marked for.

    Returns
    -------
    Table
        The table with its notes.
    """
    columns = ["method", *(f"{data} {metric}" for data in table.data for metric in ACCURACIES)]
    rows = [[name, *_texts(table, cells, form)] for group in table.groups for name, cells in group.items()]
    return Table(table.title, columns, rows, [BEST_NOTES[form], *table.notes])


def as_paper(tables: Sequence[PaperTable], form: str) -> str:
    r"""Format tables.

    Parameters
    ----------
    tables : sequence of PaperTable
        Tables to format.
    form : {"md", "csv", "json", "latex"}
        Format. LaTeX tables span two columns, have a ``\label`` and need no package.

    Returns
    -------
    str
        The text.
    """
    if form == LATEX:
        return "\n\n".join("\n".join(_latex_lines(table)) for table in tables)
    return FORMATS[form]([as_table(table, form) for table in tables])


def _texts(table: PaperTable, cells: Mapping[tuple[str, str], Cell], form: str) -> list[str]:
    """Numbers of a method in the order of the columns."""
    found = (cells.get((data, metric)) for data in table.data for metric in ACCURACIES)
    return ["-" if cell is None else _text(cell, form) for cell in found]


def _text(cell: Cell, form: str) -> str:
    text, marks = f"{cell.mean:.1f}", "" if form == "csv" else cell.marks
    return (BEST[form].format(text) if cell.best else text) + (_escaped(marks) if form == LATEX else marks)


def _escaped(text: str) -> str:
    return latex_text(text).replace(AS_GOOD, r"$^\circ$")


def _latex_lines(table: PaperTable) -> list[str]:
    ends = ["||"] * (len(table.data) - 1) + [""]
    rule = rf"\\ \cline{{2-{1 + len(ACCURACIES) * len(table.data)}}}"
    names = [rf"\multicolumn{{4}}{{c{end}}}{{\textbf{{{_escaped(name)}}}}}" for name, end in zip(table.data, ends, strict=True)]
    kinds = [rf"ZSL & \multicolumn{{3}}{{c{end}}}{{GZSL}}" for end in ends]
    groups = []
    for group in table.groups:
        rows = [" & ".join([_escaped(name), *_texts(table, cells, LATEX)]) + r" \\" for name, cells in group.items()]
        groups += [*rows[:-1], rf"{rows[-1]} \hline"]
    return [
        r"\begin{table*}",
        r"\centering",
        r"\scriptsize",  # five data sets fit the width of a page with two columns
        r"\setlength{\tabcolsep}{2pt}",
        rf"\begin{{tabular}}{{l|{'||'.join(['c|ccc'] * len(table.data))}}} \hline",
        " & ".join(["", *names]) + f" {rule}",
        " & ".join(["", *kinds]) + f" {rule}",
        " & ".join(["", *ACCURACIES * len(table.data)]) + r" \\ \hline",
        *groups,
        r"\end{tabular}",
        rf"\caption{{{table.title}. {BEST_NOTES[LATEX]} {_escaped(' '.join(table.notes))}}}",
        rf"\label{{tab:{table.setting}}}",
        r"\end{table*}",
    ]
