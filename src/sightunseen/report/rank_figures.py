"""Figures of mean ranks over random class splits: critical-difference diagrams, and ranks by number of seen classes."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightunseen.benchmark.comparison import COMPARED, Comparison, cliques
from sightunseen.benchmark.significance import LEVEL
from sightunseen.core.metrics import METRICS
from sightunseen.report.figures import BLUE, GREY, ORANGE, ROWS, Figure, Panel, columns_of

ROW, BAR, AXIS = 20, 9, 54  # pixels: per method, per bar, and from the top to the axis
LABELS = 0.45  # width on each side for the names of methods, as a share of the range of ranks
TITLES = {name: METRICS[name].title for name in COMPARED}
SEGMENTS = ("x", "y", "x2", "y2")


def rank_figures(suffix: str, compared: Sequence[Comparison]) -> list[Figure]:
    """Draw the mean ranks of methods on random class splits.

    Parameters
    ----------
    suffix : str
        End of the figures' names.
    compared : sequence of Comparison
        Comparisons of one setting and one ratio of class sizes, by number of seen classes.

    Returns
    -------
    list of Figure
        Mean ranks by number of seen classes, if there are several, and a critical-difference diagram for each.
    """
    diagrams = [_differences(f"{suffix}-{comparison.draw.seen}", comparison) for comparison in compared]
    return [*([_by_classes(suffix, compared)] if len(compared) > 1 else []), *diagrams]


def _differences(suffix: str, comparison: Comparison) -> Figure:
    """Critical-difference diagrams by T1 and by H (Demsar, 2006, Figure 1)."""
    found, panels = [], []
    for metric in COMPARED:
        rows = _diagram(comparison, metric)
        depth = max(row[5] for row in rows)
        found += [(metric, *row) for row in rows]
        panels.append(Panel(_chart(metric, len(comparison.methods), depth), TITLES[metric], depth + ROW // 2))
    columns = columns_of(("panel", "kind", "method", *SEGMENTS, "rank"), found)
    blocks = len(comparison.blocks)
    caption = (
        f"Mean rank over {blocks} random splits of {', '.join(comparison.data)}; 1 is best. A bar joins methods whose ranks "
        f"differ by less than the critical difference (CD) of the Nemenyi test at {LEVEL:g} (Demšar, JMLR 2006)."
    )
    return Figure(f"ranks-{suffix}", f"Mean ranks with {comparison.draw.name}", caption, columns, panels)


def _diagram(comparison: Comparison, metric: str) -> list[tuple[Any, ...]]:
    """Lines of the diagram: kind, method, ends (ranks, and pixels below the top), mean rank."""
    ranks, difference = comparison.ranks(metric).tolist(), comparison.critical_difference
    groups = cliques(ranks, difference)
    order = sorted(range(len(ranks)), key=lambda k: (ranks[k], comparison.methods[k]))
    last, half = len(ranks), (len(ranks) + 1) // 2
    first_row = AXIS + 2 + ROW + BAR * len(groups)
    rows: list[tuple[Any, ...]] = [
        ("axis", "", 1, AXIS, last, AXIS, None),
        *(("tick", str(rank), rank, AXIS, rank, AXIS - 5, None) for rank in range(1, last + 1)),
        ("CD", f"CD {difference:.2f}", 1, ROW, min(1 + difference, last), ROW, difference),
    ]
    for position, k in enumerate(order):
        left = position < half
        y = first_row + ROW * (position if left else last - 1 - position)
        name = f"{comparison.methods[k]} {ranks[k]:.2f}" if left else f"{ranks[k]:.2f} {comparison.methods[k]}"
        rows.append(("drop", name, ranks[k], AXIS, ranks[k], y, ranks[k]))
        rows.append(("left" if left else "right", name, 1 if left else last, y, ranks[k], y, ranks[k]))
    for number, group in enumerate(groups):
        y = AXIS + 2 + BAR * (number + 1)
        rows.append(("bar", "", ranks[group[0]] - 0.04, y, ranks[group[-1]] + 0.04, y, None))
    return rows


def _chart(metric: str, n_methods: int, depth: int) -> alt.TopLevelMixin:
    margin = LABELS * (n_methods - 1)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[1 - margin, n_methods + margin], nice=False, zero=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[depth + ROW // 2, 0], nice=False, zero=False))
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == metric).encode(x=x, y=y)

    def only(*kinds: str) -> alt.Chart:
        return base.transform_filter(alt.FieldOneOfPredicate("kind", list(kinds)))

    tooltip = [alt.Tooltip("method:N"), alt.Tooltip("rank:Q", title="mean rank", format=".2f")]
    ends = {"x2": alt.X2("x2:Q"), "y2": alt.Y2("y2:Q")}
    return alt.layer(
        only("axis", "tick").mark_rule(color=GREY, strokeWidth=2).encode(**ends),
        only("tick").mark_text(dy=-13).encode(text="method:N"),
        only("drop", "left", "right").mark_rule(color=GREY).encode(**ends, tooltip=tooltip),
        only("bar").mark_rule(color=BLUE, strokeWidth=5).encode(**ends),
        only("CD").mark_rule(color=ORANGE, strokeWidth=3).encode(**ends),
        only("CD").mark_text(align="left", dy=-9).encode(text="method:N"),
        only("left").mark_text(align="right", dx=-4).encode(text="method:N", tooltip=tooltip),
        only("right").mark_text(align="left", dx=4).encode(text="method:N", tooltip=tooltip),
        only("drop").mark_circle(size=45, color=BLUE, opacity=1).encode(tooltip=tooltip),
    )


def _by_classes(suffix: str, compared: Sequence[Comparison]) -> Figure:
    """Mean rank of each method against the number of seen classes."""
    numbers = [str(comparison.draw.seen) for comparison in compared]
    found = [
        (metric, name, str(comparison.draw.seen), rank)
        for metric in COMPARED
        for comparison in compared
        for name, rank in zip(comparison.methods, comparison.ranks(metric).tolist(), strict=True)
    ]
    columns = columns_of(("panel", "method", "classes", "rank"), found)
    names = sorted({row[1] for row in found})
    height = 40 + 2 * ROW * len(names)
    panels = [Panel(_lines(metric, numbers, names), title, height) for metric, title in TITLES.items()]
    caption = (
        "Mean rank of each method over random class splits of all data sets, by number of seen classes; 1 is best, at the top. "
        '"all": the data sets have their own numbers of seen and unseen classes.'
    )
    return Figure(f"ranks-{suffix}", "Mean rank by number of seen classes", caption, columns, panels)


def _lines(metric: str, numbers: Sequence[str], names: Sequence[str]) -> alt.TopLevelMixin:
    scheme = alt.SchemeParams("tableau10" if len(names) <= 10 else "tableau20")
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == metric)
    base = base.encode(
        x=alt.X("classes:O", sort=list(numbers), title="seen classes", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("rank:Q", title=f"mean rank by {metric}", scale=alt.Scale(domain=[len(names) + 0.3, 0.7], nice=False)),
        color=alt.Color("method:N", scale=alt.Scale(domain=list(names), scheme=scheme)),
    )
    tooltip = ["method:N", "classes:O", alt.Tooltip("rank:Q", format=".2f")]
    return alt.layer(base.mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2).encode(tooltip=tooltip))
