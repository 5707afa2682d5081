"""Pages: sections of figures, tables and photos, rendered as one self-contained HTML file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sightunseen._version import __version__
from sightunseen.core.files import written_atomically
from sightunseen.report.figures import CONFIG, Columns, Figure, as_csv


@dataclass(frozen=True)
class Tile:
    """A number at the top of a page, with a label, a note that explains it, and its 95% interval if there is one."""

    label: str
    value: str
    note: str = ""
    interval: str = ""


@dataclass(frozen=True)
class DataTable:
    """A table that the reader can sort by any column; texts that start with a number are sorted by it.

    Parameters
    ----------
    name : str
        Identifier, used as HTML id and file name.
    title, caption : str
        Heading and description.
    columns : mapping of str to sequence
        The cells.
    notes : sequence of str, default=()
        Notes below the table.
    folded : bool, default=False
        Whether the table is collapsed until the reader opens it.
    highlighted : sequence of int, default=()
        Indices of rows to highlight, such as the selected one.
    """

    name: str
    title: str
    caption: str
    columns: Columns
    notes: Sequence[str] = ()
    folded: bool = False
    highlighted: Sequence[int] = ()

    kind = "table"

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The cells, row by row."""
        return list(zip(*self.columns.values(), strict=True))


@dataclass(frozen=True)
class Photo:
    """An image in a gallery.

    Parameters
    ----------
    name : str
        Name of the image, shown if there is no picture.
    caption : str
        Text below the image.
    mark : {"", "correct", "wrong"}, default=""
        Whether the class is the true one; empty if it is not known.
    picture : str, default=""
        The picture as a ``data:`` address.
    """

    name: str
    caption: str
    mark: str = ""
    picture: str = ""


@dataclass(frozen=True)
class Gallery:
    """Groups of images.

    Parameters
    ----------
    name : str
        Identifier, used as HTML id and file name.
    title, caption : str
        Heading and description.
    groups : mapping of str to sequence of Photo
        Images by heading; an empty heading is not shown.
    columns : mapping of str to sequence
        The same content as a table, for download.
    """

    name: str
    title: str
    caption: str
    groups: Mapping[str, Sequence[Photo]]
    columns: Columns

    kind = "gallery"


@dataclass(frozen=True)
class Note:
    """A paragraph; ``level`` is PASS, WARN, FAIL or empty."""

    text: str
    level: str = ""

    kind = "note"


@dataclass(frozen=True)
class Verbatim:
    """Preformatted text, such as JSON, collapsed until the reader opens it."""

    title: str
    text: str

    kind = "verbatim"


Block = Figure | DataTable | Gallery | Note | Verbatim


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; ``name`` is the HTML id."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A page.

    Parameters
    ----------
    title, subtitle : str
        Heading and the paragraph below it.
    tiles : sequence of Tile, default=()
        Key numbers at the top.
    sections : sequence of Section, default=()
        The content.
    verdict : sequence of str, default=()
        The results in plain sentences, below the subtitle.

    Examples
    --------
    >>> page = Page("Report", "A subtitle.", [Tile("T1", "64.2")], [Section("notes", "Notes", [Note("Nothing to report.")])])
    >>> "Nothing to report." in page.html()
    True
    """

    title: str
    subtitle: str
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    verdict: Sequence[str] = ()

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]

    def html(self) -> str:
        """Render the page as HTML with all data, styles and scripts inside."""
        return _environment().get_template("page.html").render(page=self, version=__version__, config=CONFIG, vega=_vega())

    def save(self, path: Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : Path
            The HTML file; its folder is created if needed.

        Raises
        ------
        StorageError
            If the file cannot be written.
        """
        with written_atomically(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8")


def compact(columns: Columns) -> dict[str, Any]:
    """Shrink columns for embedding in a page: five significant digits, and repeated texts stored once.

    Parameters
    ----------
    columns : mapping of str to sequence
        The table of a figure.

    Returns
    -------
    dict
        Per column a list, or ``{"levels": ..., "codes": ...}`` if texts repeat.

    Examples
    --------
    >>> compact({"class": ["owl", "emu", "owl"], "share": [1 / 3, 0.5, 1.0]})
    {'class': {'levels': ['owl', 'emu'], 'codes': [0, 1, 0]}, 'share': [0.33333, 0.5, 1.0]}
    """
    return {name: _compact_column(values) for name, values in columns.items()}


def _compact_column(values: Sequence[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        code = {level: k for k, level in enumerate(dict.fromkeys(values))}
        return {"levels": list(code), "codes": [code[value] for value in values]} if len(code) < len(values) else list(values)
    return [float(f"{value:.5g}") if isinstance(value, float) else value for value in values]


def as_json(content: Any) -> Markup:
    """Format as JSON that is safe inside a ``<script>`` element: it cannot contain the end of the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def specs_of(figures: Iterable[Figure]) -> dict[str, Any]:
    """Collect the data and chart specifications of figures, by name, for the script of the page."""
    return {
        figure.name: {
            "columns": compact(figure.columns),
            "panels": [
                {"spec": panel.spec(), "canvas": panel.crowded, "least": panel.least, "label": figure.label(panel)}
                for panel in figure.panels
            ],
        }
        for figure in figures
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sightunseen.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"as_csv": as_csv, "as_json": as_json, "specs": specs_of}
    return environment


@cache
def _vega() -> Markup:
    """Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"))
