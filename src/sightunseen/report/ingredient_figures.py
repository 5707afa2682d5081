"""Figures of the ablation study of Foresight: every variant on validation classes and on test data."""

import altair as alt

from sightunseen.benchmark.comparison import COMPARED
from sightunseen.benchmark.ingredients import Study
from sightunseen.report.ablation_figures import HEADS, PANELS, interval, intervals
from sightunseen.report.figures import BLUE, ORANGE, ROWS, Figure, Panel, columns_of, slug

MEASURED = {"validation classes": "_validation", "test data": ""}
STEP = 26  # pixels per row


def study_figures(suffix: str, study: Study) -> list[Figure]:
    """Draw one figure per part of the study.

    Parameters
    ----------
    suffix : str
        End of the figures' names.
    study : Study
        Results of the study.

    Returns
    -------
    list of Figure
        The figures; parts without results are left out.
    """
    figures = []
    for title, rows in study.parts.items():
        done = [row for row in rows if row.seeds]
        values = [
            (metric, row.name, on, *interval(row, metric + ending))
            for metric in COMPARED
            for row in done
            for on, ending in MEASURED.items()
            if row.mean(metric + ending) is not None
        ]
        if values:
            order = list(dict.fromkeys(row.name for row in done))
            panels = [Panel(_chart(metric, order), PANELS[metric], STEP * len(order)) for metric in COMPARED]
            columns = columns_of(("panel", "variant", "measured", *HEADS), values)
            caption = (
                "Mean and one standard deviation over seeds of each variant. Hyperparameters are selected on validation "
                "classes, separately for each seed; the test data are evaluated once."
            )
            figures.append(Figure(f"{slug(title)}-{suffix}", title[0].upper() + title[1:], caption, columns, panels))
    return figures


def _chart(metric: str, order: list[str]) -> alt.TopLevelMixin:
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == metric)
    base = base.encode(
        y=alt.Y("variant:N", sort=order, title=None, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("measured:N", sort=list(MEASURED)),
        color=alt.Color("measured:N", scale=alt.Scale(domain=list(MEASURED), range=[ORANGE, BLUE])),
    )
    return intervals(base, metric, ["variant:N", "measured:N"])
