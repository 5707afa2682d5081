"""Figures of a benchmark that weigh two numbers of each method: seen against unseen accuracy, accuracy against time."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.benchmark.rows import Row
from sightunseen.report.figures import BLUE, GREY, ROWS, Figure, Panel, columns_of
from sightunseen.report.label_placement import MOST, placed

MOST_NAMED = 8  # methods with a name in the chart; more names would cover each other
HEIGHT = 380
NARROWEST = 640  # pixels; on a phone the reader scrolls within the chart
EDGE = 14  # pixels around the points
LABELS = ("label", "align", "dx", "dy")  # columns of the names beside points
UNLABELLED = ("", "left", 0, 0)
KINDS = {"as used": "", "without seen-class bias": "_plain"}  # endings of the metrics


def balance_figure(anchor: str, rows: Sequence[Row]) -> Figure:
    """Draw S against U of each method, with and without the seen-class bias.

    Parameters
    ----------
    anchor : str
        End of the HTML id.
    rows : sequence of Row
        Methods with results.

    Returns
    -------
    Figure
        The figure.
    """
    metrics = ("U", "S", "H")
    used, plain = ([[row.mean(f"{name}{ending}") for name in metrics] for row in rows] for ending in KINDS.values())
    texts = _texts(rows, used, [*used, *plain])
    found = [
        (row.variant, kind, *numbers, *text)
        for kind, of_kind, texts_of in zip(KINDS, (used, plain), (texts, [UNLABELLED] * len(rows)), strict=True)
        for row, numbers, text in zip(rows, of_kind, texts_of, strict=True)
    ]
    base = alt.Chart(ROWS).encode(
        x=alt.X("U:Q", title="U: accuracy of unseen classes (%)", scale=_scale()),
        y=alt.Y("S:Q", title="S: accuracy of seen classes (%)", scale=_scale()),
    )
    chart = alt.layer(
        base.mark_line(color=GREY, opacity=0.4).encode(detail="method:N"),
        base.mark_circle(size=80, opacity=0.9).encode(
            color=alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS), range=[BLUE, GREY])),
            tooltip=["method:N", "kind:N", *(alt.Tooltip(f"{metric}:Q", format=".1f") for metric in metrics)],
        ),
        _names(base),
    )
    caption = (
        "S against U of each method, without seen-class bias (grey) and as used (blue), with the bias of calibrated stacking "
        f"(Chao et al., 2016) that was selected on validation classes. Up and to the right is better.{_omitted(rows)}"
    )
    columns = columns_of(("method", "kind", *metrics, *LABELS), found)
    panel = Panel(chart, height=HEIGHT, least=NARROWEST)
    return Figure(f"balance-{anchor}", "Seen against unseen classes", caption, columns, [panel])


def time_figure(anchor: str, rows: Sequence[Row]) -> Figure:
    """Draw H against the mean duration of a job.

    Parameters
    ----------
    anchor : str
        End of the HTML id.
    rows : sequence of Row
        Methods with results.

    Returns
    -------
    Figure
        The figure.
    """
    numbers = [(max(row.seconds, 0.1), row.mean("H") or 0.0) for row in rows]
    points = [(float(np.log(seconds)), percent) for seconds, percent in numbers]
    texts = _texts(rows, points, points)
    found = [(row.variant, *of_row, *text) for row, of_row, text in zip(rows, numbers, texts, strict=True)]
    base = alt.Chart(ROWS).encode(
        x=alt.X("seconds:Q", title="seconds of a job", scale=alt.Scale(type="log", nice=False, padding=EDGE)),
        y=alt.Y("H:Q", title="H (%)", scale=_scale()),
    )
    tooltip = ["method:N", alt.Tooltip("seconds:Q", format=".0f"), alt.Tooltip("H:Q", format=".1f")]
    chart = alt.layer(base.mark_circle(size=80, color=BLUE, opacity=0.9).encode(tooltip=tooltip), _names(base))
    caption = (
        "H of each method against the time of one job: selection, training and evaluation; that of a transductive method may "
        "lack the selection, if an inductive job made it. Up and to the left is better."
        f"{_omitted(rows)}"
    )
    columns = columns_of(("method", "seconds", "H", *LABELS), found)
    panel = Panel(chart, height=HEIGHT, least=NARROWEST)
    return Figure(f"cost-{anchor}", "Accuracy against computing time", caption, columns, [panel])


def _scale() -> alt.Scale:
    return alt.Scale(zero=False, nice=False, padding=EDGE)


def _texts(rows: Sequence[Row], points: Sequence[Sequence[Any]], drawn: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Name of each row with its alignment and offsets; empty unless it is among the best by H."""
    best = sorted(range(len(rows)), key=lambda k: -(rows[k].mean("H") or 0.0))[:MOST_NAMED]
    everything = np.array(drawn, dtype=np.float64)[:, :2]
    extent = everything.min(axis=0), everything.max(axis=0)
    size = NARROWEST - 2 * EDGE, HEIGHT - 2 * EDGE
    names = [rows[k].variant for k in best]
    positions = placed(np.array(points, dtype=np.float64)[best, :2], names, extent, *size, everything)
    found = {k: (rows[k].variant, one.align, one.dx, one.dy) for k, one in zip(best, positions, strict=True)}
    return [found.get(k, UNLABELLED) for k in range(len(rows))]


def _names(base: alt.Chart) -> alt.Chart:
    """Names beside points; the others are shown by tooltips."""
    chart: alt.Chart = base.transform_filter(alt.datum.label != "").mark_text(
        align=alt.ExprRef("datum.align"),
        dx=alt.ExprRef("datum.dx"),
        dy=alt.ExprRef("datum.dy"),
        baseline="middle",
        limit=MOST,
        fontSize=11,
    )
    return chart.encode(text="label:N")


def _omitted(rows: Sequence[Row]) -> str:
    return f" The {MOST_NAMED} best by H are named; point at the others to see their names." if len(rows) > MOST_NAMED else ""
