"""The confusion matrix as a figure."""

from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import confusion_matrix, similarity_order
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import BLUE, ROWS, Figure, Panel, columns_of

MOST_CELLS = 60  # rows and columns
MOST_NUMBERS = 20  # rows and columns of a matrix with a number in each cell
MOST_SLANTED = 10  # columns whose names are slanted; those of more are vertical
SMALLEST, LARGEST, SIZE = 15, 60, 640  # pixels: of a cell, and of a matrix in between
NAMES = 190  # pixels for the names


def confusion_figure(answers: Answers, vectors: Any, names: Names) -> Figure:
    """Draw the confusion matrix of the candidates; a small one has the number of images in each cell.

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
    part = f" Shown are the {len(order)} classes with most mistakes of {len(shown)}." if len(order) < len(shown) else ""
    numbers = " The numbers are images." if len(order) <= MOST_NUMBERS else ""
    caption = (
        "Confusion matrix of the unseen classes, with only unseen classes as candidates: the share of each true class (row) "
        f"for which each class (column) is predicted.{numbers} Classes with similar vectors are adjacent.{part}"
    )
    cell = int(np.clip(SIZE // len(order), SMALLEST, LARGEST))
    panel = Panel(
        _chart([shown[k] for k in order]),
        height=cell * len(order),
        least=SMALLEST * len(order) + NAMES if len(order) > MOST_SLANTED else 0,
        most=cell * len(order) + 2 * NAMES,
    )
    return Figure("confusion", "Confusion matrix of unseen classes", caption, columns, [panel])


def _chart(order: list[str]) -> alt.TopLevelMixin:
    scale = alt.Scale(domain=order)
    above = alt.Axis(labelLimit=NAMES - 40, labelAngle=-35 if len(order) <= MOST_SLANTED else -90, labelOverlap=False)
    beside = alt.Axis(labelOverlap=False, titlePadding=12)
    if len(order) > MOST_SLANTED:
        beside.labelLimit = NAMES - 40
    base = alt.Chart(ROWS).encode(
        x=alt.X("predicted class:N", scale=scale, title="predicted class", axis=above),
        y=alt.Y("true class:N", scale=scale, title="true class", axis=beside),
        tooltip=["true class:N", "predicted class:N", "images:Q", alt.Tooltip("share:Q", format=".1f")],
    )
    # Numbers have a contrast of at least 4.5 to the darkest cell in the light and in the dark theme.
    opacity = alt.Scale(domain=[0, 100], range=[0.15, 1.0 if len(order) > MOST_NUMBERS else 0.7])
    legend = alt.Legend(title="% of the true class")
    squares: alt.Chart = base.mark_rect(color=BLUE).encode(opacity=alt.Opacity("share:Q", scale=opacity, legend=legend))
    if len(order) > MOST_NUMBERS:
        return squares
    return alt.layer(squares, base.mark_text().encode(text="images:Q"))
