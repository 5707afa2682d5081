"""A page: sections of figures, tables and photos, in one HTML file with all it needs inside."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """One number at the top of a page."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class DataTable:
    """A table that can be sorted by any column; texts that begin with a number are sorted by it."""

    name: str
    title: str
    see: str
    columns: Columns
    notes: Sequence[str] = ()
    folded: bool = False  # shown when asked for

    kind = "table"

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Row by row."""
        return list(zip(*self.columns.values(), strict=True))

    def csv(self) -> str:
        """Its cells."""
        return as_csv(self.columns)


@dataclass(frozen=True)
class Photo:
    """An image in a gallery: a picture (a ``data:`` address) or, without one, its name."""

    name: str
    caption: str
    mark: str = ""  # right, wrong, or nothing where the truth is not known
    picture: str = ""


@dataclass(frozen=True)
class Gallery:
    """Rows of images under a heading each."""

    name: str
    title: str
    see: str
    groups: Mapping[str, Sequence[Photo]]
    columns: Columns

    kind = "gallery"

    def csv(self) -> str:
        """What is shown, as a table."""
        return as_csv(self.columns)


@dataclass(frozen=True)
class Note:
    """A paragraph; ``level`` is what the split doctor would call it: PASS, WARN or FAIL."""

    text: str
    level: str = ""

    kind = "note"


@dataclass(frozen=True)
class Verbatim:
    """Text as it is, such as JSON, shown when asked for."""

    title: str
    text: str

    kind = "verbatim"


Block = Figure | DataTable | Gallery | Note | Verbatim


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]

    def html(self) -> str:
        """The page, complete."""
        return _environment().get_template("page.html").render(page=self, version=__version__, config=CONFIG, vega=_vega())

    def save(self, path: Path) -> None:
        """Write the page."""
        with written_atomically(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8")


def compact(columns: Columns) -> dict[str, Any]:
    """Columns for a page: numbers rounded to what a screen shows, and each text that repeats written once."""
    return {name: _compact_column(values) for name, values in columns.items()}


def _compact_column(values: Sequence[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        levels = list(dict.fromkeys(values))
        if len(levels) < len(values):
            place = {level: k for k, level in enumerate(levels)}
            return {"levels": levels, "codes": [place[value] for value in values]}
        return list(values)
    return [float(f"{value:.5g}") if isinstance(value, float) else value for value in values]


def as_json(content: Any) -> Markup:
    """JSON that can stand inside a ``<script>``: nothing in it can end the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def specs_of(figures: Iterable[Figure]) -> dict[str, Any]:
    """All that the page's script draws figures from."""
    return {
        figure.name: {
            "columns": compact(figure.columns),
            "panels": [{"spec": panel.spec(), "canvas": panel.crowded} for panel in figure.panels],
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
    environment.filters |= {"as_json": as_json, "specs": specs_of}
    return environment


@cache
def _vega() -> Markup:
    """Vega, Vega-Lite and vega-embed, as one script."""
    import vl_convert

    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"))
