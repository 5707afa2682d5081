"""Figures of attributes: their contributions to the scores of true and of wrongly predicted classes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers, evenly_spaced
from sightunseen.analysis.contributions import Mistake, contributions
from sightunseen.core.names import readable_attribute
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import BLUE, RED, ROWS, Figure, Panel, columns_of
from sightunseen.report.page import DataTable

STEP = 22  # pixels per bar
MOST_CLASSES = 100  # in the table, evenly spaced; each takes a tenth of a second or more
SAMPLE = 50  # images per class


def mistakes_figure(mistakes: Sequence[Mistake], names: Names) -> Figure:
    """Draw, per frequent mistake, the attributes that contributed most to it.

    Parameters
    ----------
    mistakes : sequence of Mistake
        Confusions and contributions, one panel each.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    rows = [row for mistake in mistakes for row in _bars(mistake, names)]
    heads = ("panel", "attribute", "contribution", "value of the predicted class", "value of the true class")
    columns = columns_of(heads, rows)
    chart = (
        alt.Chart(ROWS)
        .mark_bar()
        .encode(
            y=alt.Y("attribute:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
            x=alt.X("contribution:Q", title="contribution to the score difference"),
            color=alt.condition("datum.contribution > 0", alt.value(RED), alt.value(BLUE)),
            opacity=alt.condition(f"isValid(datum['{heads[3]}'])", alt.value(1), alt.value(0.55)),
            tooltip=["attribute:N", *(alt.Tooltip(f"{head}:Q", format=".3") for head in heads[2:])],
        )
    )
    panels = [
        Panel(chart.transform_filter(alt.FieldEqualPredicate(field="panel", equal=title)), title, STEP * bars)
        for title, bars in Counter(row[0] for row in rows).items()
    ]
    caption = (
        "Mean contribution of each attribute to score(predicted class) - score(true class) in the images of the most frequent "
        "confusions among unseen classes; ↑ and ↓ mark a higher or lower value in the predicted class. Red bars favour the "
        "mistake, blue bars the true class, and all attributes together sum to the score difference."
    )
    return Figure("mistakes", "Attributes behind the mistakes", caption, columns, panels)


def _bars(mistake: Mistake, names: Names) -> list[tuple[Any, ...]]:
    """Rows (panel, attribute, contribution, both values): the strongest attributes, the sum of the others, the total."""
    found, parts = mistake.confusion, mistake.contributions
    title = f"{names[found.truth]} predicted as {names[found.predicted]}: {found.images} images"
    rows: list[tuple[Any, ...]] = []
    for name, *numbers in zip(parts.names, parts.mean.tolist(), parts.own.tolist(), parts.others.tolist(), strict=True):
        more = "↑" if numbers[1] > numbers[2] else "↓"
        rows.append((title, f"{readable_attribute(str(name))} {more}", *numbers))
    total = float(parts.totals.mean())
    rest = total - float(parts.mean.sum())
    return [*rows, (title, "all other attributes", rest, None, None), (title, "score difference", total, None, None)]


def attributes_table(model: ZeroShotClassifier, answers: Answers, X: Any, names: Names, strongest: int = 4) -> DataTable:
    """List, per class, the attributes that contribute most and least to its score in its own images.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    answers : Answers
        Predictions for ``X``, with true labels.
    X : array of shape (n, d)
        Features of the images.
    names : mapping of label to str
        Readable class names.
    strongest : int, default=4
        Maximum number of attributes of either sign.

    Returns
    -------
    DataTable
        The table.
    """
    heads = ("class", "positive contributions", "negative contributions")
    labels = np.unique(answers.known_truth)
    rows = []
    for label in labels[evenly_spaced(len(labels), MOST_CLASSES)].tolist():
        found = contributions(model, X[np.flatnonzero(answers.known_truth == label)[:SAMPLE]], label)
        mean = found.mean
        order = np.argsort(-mean, kind="stable")
        positive = [k for k in order[:strongest] if mean[k] > 0]
        negative = [k for k in order[::-1][:strongest] if mean[k] < 0]
        texts = (
            " · ".join(readable_attribute(str(found.names[k])) for k in indices) or "-" for indices in (positive, negative)
        )
        rows.append((names[label], *texts))
    caption = (
        "Attributes with the largest positive and the most negative mean contribution to score(true class) - score(mean of the "
        "seen classes), over the test images of each unseen class. A negative contribution marks an attribute in which the "
        "images do not match the class vector."
    )
    if len(labels) > MOST_CLASSES:
        caption += f" Shown are {MOST_CLASSES} of {len(labels)} classes."
    return DataTable("attributes-of-classes", "Attributes of each unseen class", caption, columns_of(heads, rows))
