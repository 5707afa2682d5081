"""Figures of the paper's ablation, with a standard deviation on everything."""

import altair as alt

from sightunseen.benchmark.paper_ablation import Ablation, Variant
from sightunseen.benchmark.result_tables import Row
from sightunseen.report.figures import BLUE, ORANGE, ROWS, Figure, Panel, columns_of

NUMBERS = {"T1": "T1: among unseen classes", "H": "H: with the penalty chosen", "H_plain": "H plain: without penalty"}
STEP = 30


def ablation_figures(place: str, ablation: Ablation) -> list[Figure]:
    """Tables 2 and 5 as pictures; none of what has no results. ``place`` is the end of their names."""
    return [*_cells(place, ablation), *_sizes(place, ablation)]


def _cells(place: str, ablation: Ablation) -> list[Figure]:
    """Where images and classes are compared, and by which score, with episodes and without."""
    found = [(variant, row) for variant, row in ablation.by_cell() if row.seeds]
    rows = [
        (number, _name(variant), *_training(variant.episodic), *interval(row, number))
        for number in NUMBERS
        for variant, row in found
    ]
    if not rows:
        return []
    columns = columns_of(("panel", "variant", "training", "offset", "percent", "low", "high"), rows)
    order = list(dict.fromkeys(row[1] for row in rows))
    colours = alt.Color("training:N", scale=alt.Scale(domain=[_training(True)[0], _training(False)[0]], range=[BLUE, ORANGE]))
    panels = []
    for number, title in NUMBERS.items():
        base = alt.Chart(ROWS).transform_filter(alt.datum.panel == number)
        base = base.encode(y=alt.Y("variant:N", sort=order, title=None), yOffset="offset:N", color=colours)
        percent = alt.X("percent:Q", title=f"{number.replace('_', ' ')} (%)", scale=alt.Scale(zero=False))
        tooltip = ["variant:N", "training:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("percent", "low", "high"))]
        chart = alt.layer(
            base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
            base.mark_circle(size=75, opacity=1).encode(x=percent, tooltip=tooltip),
        )
        panels.append(Panel(chart.properties(width="container", height=STEP * len(order)), title))
    see = (
        "The paper's Table 2: V→A compares in the space of class vectors, V→I←A in one between, A→V in that of visual "
        "features. Lines are one standard deviation over seeds: what they overlap in, chance decides."
    )
    return [Figure(f"cells-{place}", "Space, score and episodes", see, columns, panels)]


def _sizes(place: str, ablation: Ablation) -> list[Figure]:
    """How many classes an episode should have."""
    found = [(size, row) for size, row in ablation.by_size() if row.seeds]
    rows = [(number, size, *interval(row, number)) for number in ("T1", "H") for size, row in found]
    if not rows:
        return []
    columns = columns_of(("number", "classes", "percent", "low", "high"), rows)
    base = alt.Chart(ROWS).encode(
        x=alt.X("classes:O", title="classes an episode", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("number:N", scale=alt.Scale(domain=["T1", "H"], range=[BLUE, ORANGE])),
    )
    percent = alt.Y("percent:Q", title="percent", scale=alt.Scale(zero=False))
    tooltip = ["number:N", "classes:O", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("percent", "low", "high"))]
    chart = alt.layer(
        base.mark_rule().encode(y="low:Q", y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=70)).encode(y=percent, tooltip=tooltip),
    ).properties(width="container", height=280)
    see = "The paper's Table 5: how many classes are told apart in one task; the last are all seen classes."
    return [Figure(f"sizes-{place}", "Classes a task", see, columns, [Panel(chart)])]


def _name(variant: Variant) -> str:
    return f"{variant.space}, {variant.score}" if variant.last == "linear" else variant.label


def _training(episodic: bool) -> tuple[str, int]:
    """The words for how it is trained, and their place within a row."""
    return ("episodes", 0) if episodic else ("mini-batches of all classes", 1)


def interval(row: Row, number: str) -> tuple[float, float, float]:
    """Mean, and one standard deviation below and above."""
    mean, spread = row.mean(number) or 0.0, row.spread(number)
    return mean, mean - spread, mean + spread
