"""Figures per class: accuracy of unseen and of seen classes, predictions for unseen classes, hubs."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.confusion import Destination
from sightunseen.analysis.hubness import Hubness
from sightunseen.report.figures import BLUE, GREEN, GREY, ORANGE, RED, ROWS, Figure, Panel, columns_of

MOST_BARS = 60  # of a readable bar chart
MOST_NAMES = 30  # classes of a figure with the name of each class
FEW, NARROW, WIDE = 12, 18, 26  # pixels per bar: WIDE up to FEW bars, NARROW otherwise
AMONG_UNSEEN, AMONG_ALL = "among unseen classes", "among all classes"
PERCENT = alt.Scale(domain=[0, 100])
TENS = alt.Axis(tickCount=10)
Names = Mapping[Any, str]


def accuracy_figure(zsl: Mapping[Any, float], gzsl: Mapping[Any, float], names: Names) -> Figure:
    """Draw the accuracy of each unseen class, among unseen and among all classes.

    Parameters
    ----------
    zsl, gzsl : mapping of label to float
        Accuracy of each unseen class with unseen classes and with all classes as candidates.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    ordered = sorted(zsl, key=lambda label: (-zsl[label], names[label]))
    shown, part = _ends(ordered)
    accuracies = {AMONG_UNSEEN: zsl, AMONG_ALL: gzsl}
    rows = [(names[label], kind, 100 * found[label]) for label in ordered for kind, found in accuracies.items()]
    columns = columns_of(("class", "candidates", "accuracy"), rows)
    kept = [names[label] for label in shown]
    base = alt.Chart(ROWS).transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=kept))
    base = base.encode(y=alt.Y("class:N", sort=kept, title=None))
    chart = alt.layer(
        base.mark_line(color=GREY, strokeWidth=2).encode(x="accuracy:Q", detail="class:N"),
        base.mark_circle(opacity=1).encode(
            x=alt.X("accuracy:Q", title="accuracy (%)", scale=PERCENT, axis=TENS),
            color=alt.Color("candidates:N", scale=alt.Scale(domain=list(accuracies), range=[BLUE, ORANGE])),
            # If both are equal, the smaller dot is drawn on the larger one.
            size=alt.condition(alt.datum.candidates == AMONG_ALL, alt.value(40), alt.value(140)),
            tooltip=["class:N", "candidates:N", alt.Tooltip("accuracy:Q", format=".1f")],
        ),
    )
    caption = (
        "Share of correctly classified test images of each unseen class, with only unseen classes and with all classes as "
        f"candidates; highest accuracy first{part}. A long line marks a class whose images are confused with seen classes."
    )
    panels = [Panel(chart, height=height_of(len(kept)))]
    return Figure("accuracy-by-class", "Accuracy of each unseen class", caption, columns, panels)


def seen_accuracy_figure(accuracies: Mapping[Any, float], names: Names) -> Figure:
    """Draw the accuracy of each seen class, among all classes.

    Parameters
    ----------
    accuracies : mapping of label to float
        Accuracy of each seen class with all classes as candidates.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    ordered = sorted(accuracies, key=lambda label: (-accuracies[label], names[label]))
    shown, part = _ends(ordered)
    columns = columns_of(("class", "accuracy"), [(names[label], 100 * accuracies[label]) for label in ordered])
    kept = [names[label] for label in shown]
    base = alt.Chart(ROWS).transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=kept))
    base = base.encode(
        y=alt.Y("class:N", sort=kept, title=None),
        x=alt.X("accuracy:Q", title="accuracy (%)", scale=PERCENT, axis=TENS),
        tooltip=["class:N", alt.Tooltip("accuracy:Q", format=".1f")],
    )
    chart = alt.layer(
        base.mark_rule(color=GREY, strokeWidth=2).encode(x2=alt.datum(0)), base.mark_circle(color=ORANGE, size=90, opacity=1)
    )
    caption = (
        "Share of correctly classified test images of each seen class, with all classes as candidates; highest accuracy "
        f"first{part}."
    )
    panels = [Panel(chart, height=height_of(len(kept)))]
    return Figure("accuracy-by-seen-class", "Accuracy of each seen class", caption, columns, panels)


def destinations_figure(found: Sequence[Destination], names: Names) -> Figure:
    """Draw, per unseen class, the shares predicted correctly, as another unseen class and as a seen class.

    Parameters
    ----------
    found : sequence of Destination
        Shares per class, in the order to draw.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    kinds = {"correct": "the true class", "unseen": "another unseen class", "seen": "a seen class"}
    rows = [(names[one.label], text, 100 * getattr(one, kind)) for one in found for kind, text in kinds.items()]
    columns = columns_of(("class", "predicted", "share"), rows)
    shown, part = _ends([names[one.label] for one in found])
    chart = (
        alt.Chart(ROWS)
        .transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=shown))
        .transform_calculate(order=f"indexof({list(kinds.values())}, datum.predicted)")
        .mark_bar()
        .encode(
            y=alt.Y("class:N", sort=shown, title=None),
            x=alt.X("share:Q", title="images (%)", scale=PERCENT, axis=TENS),
            color=alt.Color("predicted:N", scale=alt.Scale(domain=list(kinds.values()), range=[GREEN, ORANGE, RED])),
            order="order:Q",
            tooltip=["class:N", "predicted:N", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    mean = 100 * float(np.mean([one.seen for one in found]))
    caption = (
        "Predictions for the test images of each unseen class with all classes as candidates; classes with most images "
        f"predicted as a seen class first{part}. On average over classes, that share is {mean:.1f}%."
    )
    panels = [Panel(chart, height=height_of(len(shown)))]
    return Figure("leaks", "Unseen classes predicted as seen classes", caption, columns, panels)


def hubness_figure(found: Mapping[str, Hubness], images: int, names: Names) -> Figure:
    """Draw how often each class is predicted, in descending order: as bars with names, or as a curve of many classes.

    Parameters
    ----------
    found : mapping of str to Hubness
        Counts by model, such as before and after adaptation.
    images : int
        Number of images.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    rows = []
    for model, hubs in found.items():
        for rank, k in enumerate(np.argsort(-hubs.counts, kind="stable"), start=1):
            rows.append((model, rank, names[hubs.labels.tolist()[k]], int(hubs.counts[k])))
    columns = columns_of(("model", "rank", "class", "images"), rows)
    n_classes = len(next(iter(found.values())).labels)
    colours = alt.Scale(domain=list(found), range=[GREY, BLUE] if len(found) > 1 else [BLUE])
    level = alt.Chart(alt.InlineData(values=[{"mean": images / max(1, n_classes)}])).mark_rule(strokeDash=[4, 4], color=GREY)
    base = alt.Chart(ROWS).encode(
        color=alt.Color("model:N", scale=colours), tooltip=["model:N", "class:N", "images:Q", "rank:Q"]
    )
    if n_classes <= MOST_NAMES:
        order = [row[2] for row in rows if row[0] == next(iter(found))]
        bars = base.encode(
            y=alt.Y("class:N", sort=order, title=None),
            yOffset=alt.YOffset("model:N", sort=list(found)),
            x=alt.X("images:Q", title="images it is predicted for", axis=alt.Axis(tickMinStep=1, format=",d")),
        )
        numbers = bars.mark_text(align="left", dx=4).encode(text="images:Q", color=alt.value("#1c2127"))
        chart = alt.layer(bars.mark_bar(), numbers, level.encode(x="mean:Q"))
        panel, hubs_named = Panel(chart, height=max(1, len(found)) * height_of(n_classes)), ""
    else:
        curve = base.encode(
            x=alt.X(
                "rank:Q",
                title="rank of the class",
                scale=alt.Scale(domain=[1, n_classes], nice=False),
                axis=alt.Axis(tickMinStep=1, format=",d"),
            ),
            y=alt.Y("images:Q", title="images it is predicted for"),
        )
        chart = alt.layer(level.encode(y="mean:Q"), curve.mark_line(interpolate="step"), curve.mark_circle(size=45, opacity=1))
        first = [f"{name} ({count:,})" for model, rank, name, count in rows if model == "this model" and rank <= 3]
        panel, hubs_named = Panel(chart, height=300), f" Most often predicted: {', '.join(first)}." if first else ""
    values = ((model, hubs.skewness) for model, hubs in found.items())
    skewness = ", ".join(f"{'not defined' if value is None else f'{value:.2f}'} ({model})" for model, value in values)
    caption = (
        "Number of images for which each class is predicted, most frequent first (dashed: the mean); a class that is "
        f"predicted far too often is a hub.{hubs_named} Skewness of these numbers (0 if balanced, above 1 if hubs dominate): "
        f"{skewness}."
    )
    return Figure("hubness", "Hubs", caption, columns, [panel])


def height_of(n_bars: int) -> int:
    """Height in pixels of a chart with one bar and one name per class."""
    return n_bars * (WIDE if n_bars <= FEW else NARROW)


def _ends(ordered: Sequence[Any]) -> tuple[list[Any], str]:
    """All items or, if they are too many for a chart, the first and last ones and a text that tells so."""
    if len(ordered) <= MOST_BARS:
        return list(ordered), ""
    half = MOST_BARS // 2
    return [*ordered[:half], *ordered[-half:]], f" (the first and the last {half} of {len(ordered)}; all are in the CSV)"
