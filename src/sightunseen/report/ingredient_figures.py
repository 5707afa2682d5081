"""Figures of the study of Foresight: every variant on validation classes and on test data."""

import altair as alt

from sightunseen.benchmark.ingredients import Study
from sightunseen.report.ablation_figures import interval
from sightunseen.report.figures import BLUE, ORANGE, ROWS, Figure, Panel, columns_of, slug

PANELS = {"T1": "T1: among unseen classes", "H": "H: with the penalty chosen"}
MEASURED = {"validation classes": "_validation", "test data": ""}
STEP = 26


def study_figures(place: str, study: Study) -> list[Figure]:
    """A figure a part; none of what has no results. ``place`` is the end of their names."""
    figures = []
    for title, rows in study.parts.items():
        done = [row for row in rows if row.seeds]
        values = [
            (panel, row.name, on, *interval(row, panel + ending))
            for panel in PANELS
            for row in done
            for on, ending in MEASURED.items()
            if row.mean(panel + ending) is not None
        ]
        if values:
            order = list(dict.fromkeys(row.name for row in done))
            panels = [Panel(_chart(panel, order), heading) for panel, heading in PANELS.items()]
            columns = columns_of(("panel", "variant", "measured", "percent", "low", "high"), values)
            see = (
                "Everything was chosen on the validation classes, for each seed by itself; the test data were looked at once. "
                "Lines are one standard deviation over seeds."
            )
            figures.append(Figure(f"{slug(title)}-{place}", title[0].upper() + title[1:], see, columns, panels))
    return figures


def _chart(panel: str, order: list[str]) -> alt.TopLevelMixin:
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == panel)
    base = base.encode(
        y=alt.Y("variant:N", sort=order, title=None, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("measured:N", sort=list(MEASURED)),
        color=alt.Color("measured:N", scale=alt.Scale(domain=list(MEASURED), range=[ORANGE, BLUE])),
    )
    percent = alt.X("percent:Q", title=f"{panel} (%)", scale=alt.Scale(zero=False))
    tooltip = ["variant:N", "measured:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("percent", "low", "high"))]
    return alt.layer(
        base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        base.mark_circle(size=60, opacity=1).encode(x=percent, tooltip=tooltip),
    ).properties(width="container", height=STEP * len(order))
