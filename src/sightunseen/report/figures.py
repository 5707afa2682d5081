"""Figures: a table of numbers and one or more Vega-Lite charts of it, shown in a page or saved as SVG and PDF."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import altair as alt

from sightunseen.core.files import written_atomically
from sightunseen.core.metrics import MAIN, definitions

DEFINITIONS = f"{definitions(MAIN)} All in percent."
ROWS = alt.NamedData(name="rows")  # the data source of every chart
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b7dc4", "#e0831a", "#2c9c6e", "#d24b5a", "#8d6cc0", "#8b9099"

# For light pages, dark pages and files alike; the page's CSS recolours text and lines.
CONFIG: dict[str, Any] = {
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "gridColor": "#e3e5e8",
        "domainColor": "#8b9099",
        "tickColor": "#8b9099",
        "labelFontSize": 11,
        "labelLimit": 220,
        "titleFontWeight": 600,
    },
    "legend": {"orient": "top", "title": None, "labelFontSize": 11, "labelLimit": 240, "symbolLimit": 0},
    "range": {"category": [BLUE, ORANGE, GREEN, RED, PURPLE, GREY]},
    "background": "white",
}

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Panel:
    """One chart of a figure.

    Parameters
    ----------
    chart : altair chart
        Chart of the data source ``ROWS``.
    title : str, default=""
        Title, to tell several panels apart.
    height : int, default=None
        Height in pixels of a chart that is as wide as its container; None if the chart has its own size.
    crowded : bool, default=False
        Whether to draw on a canvas, which is faster than SVG for thousands of points.
    least : int, default=0
        Smallest readable width in pixels; on a narrower screen the reader scrolls within the chart.
    most : int, default=None
        Largest width in pixels; None if the chart may be as wide as the page.
    """

    chart: alt.TopLevelMixin
    title: str = ""
    height: int | None = None
    crowded: bool = False
    least: int = 0
    most: int | None = None

    def spec(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart, without its rows."""
        # Keep the few inline points of a chart, such as a reference line, where they are used.
        with alt.data_transformers.enable(consolidate_datasets=False):
            found: dict[str, Any] = self.chart.to_dict()
        kept = {name: value for name, value in found.items() if name not in ("config", "datasets")}
        size = {} if self.height is None else {"width": "container", "height": self.height}
        return {**kept, **size, "autosize": {"type": "fit-x", "contains": "padding"}}


@dataclass(frozen=True)
class Figure:
    """One or more charts of one table.

    Parameters
    ----------
    name : str
        Identifier, used as HTML id and file name.
    title : str
        Heading.
    caption : str
        One or two sentences that define what is drawn.
    columns : mapping of str to sequence
        The table behind the charts.
    panels : sequence of Panel
        The charts.
    """

    name: str
    title: str
    caption: str
    columns: Columns
    panels: Sequence[Panel]

    kind = "figure"

    def label(self, panel: Panel) -> str:
        """Text that names a panel to readers who cannot see it."""
        return f"{self.title}: {panel.title}" if panel.title else self.title

    def save(self, folder: Path, size: int = 480) -> list[Path]:
        """Write every panel as SVG and PDF.

        Parameters
        ----------
        folder : Path
            Output folder, created if needed.
        size : int, default=480
            Width in pixels of charts that fill their container, within the limits of the panel.

        Returns
        -------
        list of Path
            The files written.

        Raises
        ------
        StorageError
            If a file cannot be written.
        """
        import vl_convert

        rows = rows_of(self.columns)
        written = []
        for number, panel in enumerate(self.panels, start=1):
            spec = {**panel.spec(), "datasets": {"rows": rows}, "config": CONFIG}
            if spec.get("width") == "container":
                spec["width"] = max(panel.least, min(size, panel.most or size))
            svg = _labelled(_renumbered(vl_convert.vegalite_to_svg(spec)), self.label(panel))
            base = folder / (self.name if len(self.panels) == 1 else f"{self.name}-{number}-{slug(panel.title)}".rstrip("-"))
            for path, content in ((base.with_suffix(".svg"), svg.encode()), (base.with_suffix(".pdf"), _pdf(svg))):
                with written_atomically(path) as temporary:
                    temporary.write_bytes(content)
                written.append(path)
        return written


def columns_of(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Transpose rows into named columns.

    >>> columns_of(("class", "images"), [("owl", 3), ("emu", 5)])
    {'class': ['owl', 'emu'], 'images': [3, 5]}
    """
    return {head: [row[k] for row in rows] for k, head in enumerate(heads)}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Transpose columns into one mapping per row, the form that Vega-Lite reads.

    >>> rows_of({"class": ["owl", "emu"], "images": [3, 5]})
    [{'class': 'owl', 'images': 3}, {'class': 'emu', 'images': 5}]
    """
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def as_csv(columns: Columns) -> str:
    r"""Format columns as CSV with a header line.

    >>> as_csv({"class": ["owl"], "images": [3]})
    'class,images\nowl,3\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def slug(text: str) -> str:
    """Reduce a text to lower-case letters, digits and hyphens, for file names and HTML ids.

    >>> slug("CVC transductive: V→A")
    'cvc-transductive-v-a'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _renumbered(svg: str) -> str:
    """Number the clip paths of an SVG from one; the converter counts on from figure to figure."""
    used = re.compile(r'(?<=<clipPath id="clip)\d+|(?<=url\(#clip)\d+')
    numbers = {old: str(new) for new, old in enumerate(dict.fromkeys(used.findall(svg)), start=1)}
    return used.sub(lambda found: numbers[found[0]], svg)


def _labelled(svg: str, label: str) -> str:
    """Declare an SVG to be an image with a name, for screen readers."""
    return svg.replace("<svg ", f'<svg role="img" aria-label={quoteattr(label)} ', 1)


def _pdf(svg: str) -> bytes:
    import pikepdf
    import vl_convert

    # The converter writes PDF objects in hash order, which changes from run to run; pikepdf writes them in a fixed order.
    content = io.BytesIO()
    with pikepdf.open(io.BytesIO(vl_convert.svg_to_pdf(svg))) as document:
        document.save(content, deterministic_id=True)
    return content.getvalue()
