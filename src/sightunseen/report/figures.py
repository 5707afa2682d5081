"""A figure: a table of numbers, and one or more charts of it that Vega-Lite draws, in a page or as SVG and PDF."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from sightunseen.core.files import written_atomically

ROWS = alt.NamedData(name="rows")  # what every chart is a chart of
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b7dc4", "#e0831a", "#2c9c6e", "#d24b5a", "#8d6cc0", "#8b9099"

# Light or dark is the page's matter, by CSS; here is what both share, and what a file for a paper has.
CONFIG: dict[str, Any] = {
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "gridColor": "#e3e5e8",
        "domainColor": "#8b9099",
        "tickColor": "#8b9099",
        "labelLimit": 190,
        "titleFontWeight": 600,
    },
    "legend": {"orient": "top", "title": None, "labelLimit": 240, "symbolLimit": 0},
    "range": {"category": [BLUE, ORANGE, GREEN, RED, PURPLE, GREY]},
    "background": "white",
}

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Panel:
    """One chart of a figure's rows; ``title`` tells it from the figure's other panels."""

    chart: alt.TopLevelMixin
    title: str = ""
    crowded: bool = False  # thousands of points, which a canvas draws quicker than SVG does

    def spec(self) -> dict[str, Any]:
        """The chart for Vega-Lite, without its rows."""
        # A few points of a chart's own, such as a line to compare with, stay where they are used.
        with alt.data_transformers.enable(consolidate_datasets=False):
            found: dict[str, Any] = self.chart.to_dict()
        kept = {name: value for name, value in found.items() if name not in ("config", "datasets")}
        return {**kept, "autosize": {"type": "fit-x", "contains": "padding"}}


@dataclass(frozen=True)
class Figure:
    """Charts of one table; ``see`` is the sentence that says what to look for."""

    name: str
    title: str
    see: str
    columns: Columns
    panels: Sequence[Panel]

    kind = "figure"

    def csv(self) -> str:
        """Its numbers."""
        return as_csv(self.columns)

    def save(self, folder: Path, size: int = 480) -> list[Path]:
        """Write every panel as SVG and PDF; the files written."""
        import vl_convert

        rows = rows_of(self.columns)
        written = []
        for place, panel in enumerate(self.panels):
            spec = {**panel.spec(), "datasets": {"rows": rows}, "config": CONFIG}
            spec = {**spec, "width": size} if spec.get("width") == "container" else spec
            svg = _numbered_anew(vl_convert.vegalite_to_svg(spec))
            base = folder / (self.name if len(self.panels) == 1 else f"{self.name}-{place + 1}-{slug(panel.title)}".rstrip("-"))
            for path, content in (
                (base.with_suffix(".svg"), svg.encode()),
                (base.with_suffix(".pdf"), _pdf(svg)),
            ):
                with written_atomically(path) as temporary:
                    temporary.write_bytes(content)
                written.append(path)
        return written


def columns_of(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as a table with these heads."""
    return {head: [row[place] for row in rows] for place, head in enumerate(heads)}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """A table as Vega-Lite wants it, a mapping a row."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def as_csv(columns: Columns) -> str:
    """A table as CSV with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def slug(text: str) -> str:
    """A text as part of a file's name or of an address.

    >>> slug("CVC transductive: V→A")
    'cvc-transductive-v-a'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _numbered_anew(svg: str) -> str:
    """The same SVG with its clip paths counted from one: the converter goes on counting from figure to figure."""
    used = re.compile(r'(?<=<clipPath id="clip)\d+|(?<=url\(#clip)\d+')
    numbers = {old: str(new) for new, old in enumerate(dict.fromkeys(used.findall(svg)), start=1)}
    return used.sub(lambda found: numbers[found[0]], svg)


def _pdf(svg: str) -> bytes:
    import pikepdf
    import vl_convert

    # The converter writes objects in the order of a hash table, another one each time; written anew, they are in one order.
    content = io.BytesIO()
    with pikepdf.open(io.BytesIO(vl_convert.svg_to_pdf(svg))) as document:
        document.save(content, deterministic_id=True)
    return content.getvalue()
