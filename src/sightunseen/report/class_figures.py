"""Figures per class: accuracy, confusions, predictions for unseen classes, hubs."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Destination, confusion_matrix, similarity_order
from sightunseen.analysis.hubness import Hubness
from sightunseen.report.figures import BLUE, GREEN, GREY, ORANGE, RED, ROWS, Figure, Panel, columns_of

MOST_BARS = 60  # of a readable bar chart
MOST_CELLS = 60  # rows and columns of a confusion matrix
STEP = 15  # pixels per bar
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
    accuracies = {"among unseen classes": zsl, "among all classes": gzsl}
    rows = [(names[label], kind, 100 * found[label]) for label in ordered for kind, found in accuracies.items()]
    columns = columns_of(("class", "candidates", "accuracy"), rows)
    kept = [names[label] for label in shown]
    base = alt.Chart(ROWS).transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=kept))
    y = alt.Y("class:N", sort=kept, title=None)
    chart = alt.layer(
        base.mark_line(color=GREY, strokeWidth=2).encode(y=y, x="accuracy:Q", detail="class:N"),
        base.mark_circle(size=70, opacity=1).encode(
            y=y,
            x=alt.X("accuracy:Q", title="accuracy (%)", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("candidates:N", scale=alt.Scale(domain=list(accuracies), range=[BLUE, ORANGE])),
            tooltip=["class:N", "candidates:N", alt.Tooltip("accuracy:Q", format=".1f")],
        ),
    )
    caption = (
        "Share of correctly classified test images of each unseen class, with only unseen classes and with all classes as "
        f"candidates; highest accuracy first{part}. A long line marks a class whose images are confused with seen classes."
    )
    return Figure(
        "accuracy-by-class", "Accuracy of each unseen class", caption, columns, [Panel(chart, height=STEP * len(kept))]
    )


def confusion_figure(answers: Answers, vectors: Any, names: Names) -> Figure:
    """Draw the confusion matrix of the candidates.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    vectors : array-like of shape (c, a)
        Class vectors of the candidates, by which similar classes become adjacent.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    counts = confusion_matrix(answers, answers.labels)
    wrong = counts.sum(axis=1) + counts.sum(axis=0) - 2 * counts.diagonal()
    kept = np.sort(np.argsort(-wrong, kind="stable")[:MOST_CELLS])
    order = kept[similarity_order(np.asarray(vectors)[kept])]
    totals = np.maximum(counts.sum(axis=1), 1)
    shown = [names[label] for label in answers.labels.tolist()]
    cells = [
        (shown[i], shown[j], int(counts[i, j]), 100 * float(counts[i, j] / totals[i]))
        for i in order
        for j in order
        if counts[i, j]
    ]
    columns = columns_of(("true class", "predicted class", "images", "share"), cells)
    labels = alt.Axis(labelLimit=110, labelFontSize=8 if len(order) > 30 else 10, labelOverlap=True)
    scale = alt.Scale(domain=[shown[k] for k in order])
    chart = (
        alt.Chart(ROWS)
        .mark_rect(color=BLUE)
        .encode(
            x=alt.X("predicted class:N", scale=scale, title="predicted class", axis=labels),
            y=alt.Y("true class:N", scale=scale, title="true class", axis=labels),
            opacity=alt.Opacity("share:Q", title="% of the true class", scale=alt.Scale(domain=[0, 100], range=[0.12, 1])),
            tooltip=["true class:N", "predicted class:N", "images:Q", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    part = f" Shown are the {len(order)} classes with most mistakes of {len(shown)}." if len(order) < len(shown) else ""
    caption = (
        "Confusion matrix of the unseen classes, with only unseen classes as candidates: the share of each true class (row) "
        f"for which each class (column) is predicted. Classes with similar vectors are adjacent.{part}"
    )
    return Figure(
        "confusion", "Confusion matrix of unseen classes", caption, columns, [Panel(chart, height=max(120, 11 * len(order)))]
    )


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
            x=alt.X("share:Q", title="images (%)", scale=alt.Scale(domain=[0, 100])),
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
    return Figure(
        "leaks", "Unseen classes predicted as seen classes", caption, columns, [Panel(chart, height=STEP * len(shown))]
    )


def hubness_figure(found: Mapping[str, Hubness], images: int, names: Names) -> Figure:
    """Draw how often each class is predicted, in descending order.

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
    mean = images / max(1, len(next(iter(found.values())).labels))
    drawn = alt.Chart(ROWS).encode(
        x=alt.X("rank:Q", title="rank of the class", scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("images:Q", title="images it is predicted for"),
        color=alt.Color("model:N", scale=alt.Scale(domain=list(found), range=[GREY, BLUE] if len(found) > 1 else [BLUE])),
        tooltip=["model:N", "class:N", "images:Q", "rank:Q"],
    )
    level = alt.Chart(alt.InlineData(values=[{"mean": mean}])).mark_rule(strokeDash=[4, 4], color=GREY).encode(y="mean:Q")
    chart = alt.layer(level, drawn.mark_line(interpolate="step"), drawn.mark_circle(size=45, opacity=1))
    values = ((model, hubs.skewness) for model, hubs in found.items())
    skewness = ", ".join(f"{'not defined' if value is None else f'{value:.2f}'} ({model})" for model, value in values)
    caption = (
        "Number of images for which each class is predicted, most frequent first (dashed: the mean); a class that is "
        f"predicted far too often is a hub. Skewness of these numbers (0 if balanced, above 1 if hubs dominate): {skewness}."
    )
    return Figure("hubness", "Hubs", caption, columns, [Panel(chart, height=300)])


def _ends(ordered: Sequence[Any]) -> tuple[list[Any], str]:
    """All items or, if they are too many for a chart, the first and last ones and a text that tells so."""
    if len(ordered) <= MOST_BARS:
        return list(ordered), ""
    half = MOST_BARS // 2
    return [*ordered[:half], *ordered[-half:]], f" (the first and the last {half} of {len(ordered)}; all are in the CSV)"
