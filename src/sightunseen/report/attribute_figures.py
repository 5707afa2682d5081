"""Figures of attributes and words: their contributions to the scores of true and of wrongly predicted classes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers, evenly_spaced
from sightunseen.analysis.contributions import Mistake, explained_mistakes, pair_contributions
from sightunseen.analysis.occlusion import DescriptionOcclusion
from sightunseen.analysis.pairs import shortened, speaking_attributes
from sightunseen.analysis.reasons import Explainer
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import BLUE, RED, ROWS, Figure, Panel, columns_of
from sightunseen.report.page import Block, DataTable, Note

STEP = 22  # pixels per bar
MOST_CLASSES = 100  # in the table, evenly spaced; each takes a tenth of a second or more
SAMPLE = 50  # images per class


def reasons_blocks(model: ZeroShotClassifier, answers: Answers, X: Any, names: Names) -> list[Block]:
    """Explain predictions for images of unseen classes by attributes or words, if the model has them.

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

    Returns
    -------
    list of Block
        A table of the classes and a figure of the mistakes, or a note that says why there are none.
    """
    silence = Explainer(model).silence
    if silence is not None:
        return [Note(f"Predictions are not explained: {silence}.")]
    if speaking_attributes(model.table_) and model.table_.attribute_names is None:
        return [Note("The class vectors have no attribute names, so contributions of attributes are not shown.")]
    if len(answers.labels) < 2:
        return [Note("Predictions are not explained: there is only one unseen class.")]
    blocks: list[Block] = [attributes_table(model, answers, X, names)]
    mistakes = [found for found in explained_mistakes(model, answers, X) if found.contributions.names.size]
    return [*blocks, mistakes_figure(mistakes, names)] if mistakes else blocks


def mistakes_figure(mistakes: Sequence[Mistake], names: Names) -> Figure:
    """Draw, per frequent mistake, the attributes and words that contributed most to it.

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
    heads = ("panel", "reason", "contribution", "value of the predicted class", "value of the true class")
    columns = columns_of(heads, rows)
    chart = (
        alt.Chart(ROWS)
        .mark_bar()
        .encode(
            y=alt.Y("reason:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
            x=alt.X("contribution:Q", title="contribution"),
            color=alt.condition("datum.contribution > 0", alt.value(RED), alt.value(BLUE)),
            opacity=alt.condition(f"isValid(datum['{heads[3]}'])", alt.value(1), alt.value(0.55)),
            tooltip=["reason:N", *(alt.Tooltip(f"{head}:Q", format=".3") for head in heads[2:])],
        )
    )
    panels = [
        Panel(chart.transform_filter(alt.FieldEqualPredicate(field="panel", equal=title)), title, STEP * bars)
        for title, bars in Counter(row[0] for row in rows).items()
    ]
    caption = (
        "Mean contribution to score(predicted class) - score(true class) in the images of the most frequent confusions among "
        "unseen classes. “not jungle” is what the predicted class lacks and the true class has. Words in quotation marks are "
        "from the descriptions, with the change of the score difference when they are left out. Red bars favour the mistake, "
        "blue bars the true class; together they sum to the score difference."
    )
    return Figure("mistakes", "Reasons for the mistakes", caption, columns, panels)


def _bars(mistake: Mistake, names: Names) -> list[tuple[Any, ...]]:
    """Rows (panel, reason, contribution, both values): the strongest reasons, the sum of the others, the total."""
    found, parts = mistake.confusion, mistake.contributions
    title = f"{names[found.truth]} predicted as {names[found.predicted]}: {found.images} image{'s' * (found.images != 1)}"
    values = zip(parts.phrases, parts.mean.tolist(), parts.own.tolist(), parts.others.tolist(), strict=True)
    rows: list[tuple[Any, ...]] = [(title, *row) for row in values]
    total = float(parts.totals.mean())
    rest = total - float(parts.mean.sum())
    return [*rows, (title, "all others", rest, None, None), (title, "score difference", total, None, None)]


def attributes_table(model: ZeroShotClassifier, answers: Answers, X: Any, names: Names, strongest: int = 4) -> DataTable:
    """List, per class, what speaks for it and against it in its own images, compared with its closest rival.

    The closest rival is the class that most often has the highest score after the true class, or instead of it.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    answers : Answers
        Predictions for ``X``, with true labels, among at least two classes.
    X : array of shape (n, d)
        Features of the images.
    names : mapping of label to str
        Readable class names.
    strongest : int, default=4
        Maximum number of attributes and words of either sign.

    Returns
    -------
    DataTable
        The table.
    """
    heads = ("class", "closest rival", "speaks for the class", "speaks for the rival")
    labels, occlusion = np.unique(answers.known_truth), DescriptionOcclusion(model.table_)
    rows = []
    for label in labels[evenly_spaced(len(labels), MOST_CLASSES)].tolist():
        images = np.flatnonzero(answers.known_truth == label)
        rival = _rival(answers, images, label)
        found = pair_contributions(model, X[images[:SAMPLE]], label, rival, occlusion)
        mean, phrases = found.mean, [shortened(one) for one in found.phrases]
        order = np.argsort(-mean, kind="stable")
        positive = [phrases[k] for k in order[:strongest] if mean[k] > 0]
        negative = [phrases[k] for k in order[::-1][:strongest] if mean[k] < 0]
        rows.append((names[label], names[rival], " · ".join(positive) or "-", " · ".join(negative) or "-"))
    caption = (
        "Attributes and words of descriptions with the largest positive and the most negative mean contribution to score(true "
        "class) - score(closest rival), over the test images of each unseen class. “not jungle” is what the class lacks and "
        "its rival has. What speaks for the rival marks where the images do not match the description of their class."
    )
    if len(labels) > MOST_CLASSES:
        caption += f" Shown are {MOST_CLASSES} of {len(labels)} classes."
    return DataTable("attributes-of-classes", "What sets each unseen class apart", caption, columns_of(heads, rows))


def _rival(answers: Answers, images: Any, label: Any) -> Any:
    """The class with the highest score besides the true one, in most of the images."""
    scores = answers.scores[images].astype(np.float64)
    scores[:, answers.labels == label] = -np.inf
    return answers.labels[np.bincount(scores.argmax(axis=1)).argmax()].item()
