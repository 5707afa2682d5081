"""Figures of the paper's ablation study, with standard deviations over seeds."""

from collections.abc import Sequence

import altair as alt

from sightunseen.benchmark.paper_ablation import Ablation, Variant
from sightunseen.benchmark.rows import Row
from sightunseen.core.metrics import METRICS
from sightunseen.report.figures import BLUE, ORANGE, ROWS, Figure, Panel, columns_of

PANELS = {name: METRICS[name].title for name in ("T1", "H", "H_plain")}
STEP = 30  # pixels per row
HEADS = ("percent", "low", "high")  # of an interval


def ablation_figures(suffix: str, ablation: Ablation) -> list[Figure]:
    """Draw Tables 2 and 5 of the paper.

    Parameters
    ----------
    suffix : str
        End of the figures' names.
    ablation : Ablation
        Results of the study.

    Returns
    -------
    list of Figure
        The figures; tables without results are left out.
    """
    return [*_variants(suffix, ablation), *_sizes(suffix, ablation)]


def _variants(suffix: str, ablation: Ablation) -> list[Figure]:
    """Table 2: embedding space and score, with and without episodes."""
    rows = [
        (number, _name(variant), *_training(variant.episodic), *interval(row, number))
        for number in PANELS
        for variant, row in ablation.by_cell()
        if row.seeds
    ]
    if not rows:
        return []
    columns = columns_of(("panel", "variant", "training", "offset", *HEADS), rows)
    order = list(dict.fromkeys(row[1] for row in rows))
    colours = alt.Color("training:N", scale=alt.Scale(domain=[_training(True)[0], _training(False)[0]], range=[BLUE, ORANGE]))
    panels = []
    for number, title in PANELS.items():
        base = alt.Chart(ROWS).transform_filter(alt.datum.panel == number)
        base = base.encode(y=alt.Y("variant:N", sort=order, title=None), yOffset="offset:N", color=colours)
        chart = intervals(base, number.replace("_", " "), ["variant:N", "training:N"])
        panels.append(Panel(chart, title, STEP * len(order)))
    caption = (
        "Mean and one standard deviation over seeds of each variant in the paper's Table 2. V→A compares images and classes in "
        "the space of class vectors, A→V in that of visual features, V→I←A in an intermediate space."
    )
    return [Figure(f"cells-{suffix}", "Space, score and episodes", caption, columns, panels)]


def _sizes(suffix: str, ablation: Ablation) -> list[Figure]:
    """Table 5: number of classes per episode."""
    found = [(size, row) for size, row in ablation.by_size() if row.seeds]
    rows = [(number, size, *interval(row, number)) for number in ("T1", "H") for size, row in found]
    if not rows:
        return []
    columns = columns_of(("metric", "classes", *HEADS), rows)
    base = alt.Chart(ROWS).encode(
        x=alt.X("classes:O", title="classes per episode", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("metric:N", scale=alt.Scale(domain=["T1", "H"], range=[BLUE, ORANGE])),
    )
    percent = alt.Y("percent:Q", title="percent", scale=alt.Scale(zero=False))
    tooltip = ["metric:N", "classes:O", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in HEADS)]
    chart = alt.layer(
        base.mark_rule().encode(y="low:Q", y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=70)).encode(y=percent, tooltip=tooltip),
    )
    caption = (
        "Mean and one standard deviation over seeds by number of classes per episode (the paper's Table 5); the last value is "
        "the number of all seen classes."
    )
    return [Figure(f"sizes-{suffix}", "Classes per episode", caption, columns, [Panel(chart, height=280)])]


def _name(variant: Variant) -> str:
    return f"{variant.space}, {variant.score}" if variant.last == "linear" else variant.label


def _training(episodic: bool) -> tuple[str, int]:
    """Name of the kind of training, and its position within a row of the chart."""
    return ("episodes", 0) if episodic else ("mini-batches of all classes", 1)


def interval(row: Row, number: str) -> tuple[float, float, float]:
    """Mean over seeds, and one standard deviation below and above it.

    Parameters
    ----------
    row : Row
        Results of one method or variant.
    number : str
        Name of the metric, such as ``"T1"``.

    Returns
    -------
    tuple of float
        Mean, lower and upper end.
    """
    mean, spread = row.mean(number) or 0.0, row.spread(number)
    return mean, mean - spread, mean + spread


def intervals(base: alt.Chart, metric: str, details: Sequence[str]) -> alt.TopLevelMixin:
    """Draw means as dots and intervals as horizontal lines.

    Parameters
    ----------
    base : altair.Chart
        Chart with vertical position and colour; its rows have ``percent``, ``low`` and ``high``.
    metric : str
        Name of the metric, for the axis.
    details : sequence of str
        Further fields of the tooltip.

    Returns
    -------
    altair chart
        The chart.
    """
    percent = alt.X("percent:Q", title=f"{metric} (%)", scale=alt.Scale(zero=False))
    tooltip = [*details, *(alt.Tooltip(f"{name}:Q", format=".1f") for name in HEADS)]
    return alt.layer(
        base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        base.mark_circle(size=75, opacity=1).encode(x=percent, tooltip=tooltip),
    )
