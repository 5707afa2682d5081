"""Figures of attributes: what pulls images to their class, and what to the wrong one."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analyses.answers import Answers, evenly
from sightunseen.analyses.attributes import Mistake, pulls
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.classes import Names
from sightunseen.report.figures import BLUE, RED, ROWS, Figure, Panel, columns_of
from sightunseen.report.names import readable_attribute
from sightunseen.report.page import DataTable

STEP = 22  # pixels a bar
MOST_CLASSES = 100  # that are asked about, taken evenly: each takes a tenth of a second or more
SAMPLE = 50  # images of a class that its attributes are asked about


def mistakes_figure(mistakes: Sequence[Mistake], names: Names) -> Figure:
    """For each frequent mistake, the attributes that spoke for the wrong class and against it."""
    rows = []
    for mistake in mistakes:
        found, pulled = mistake.confusion, mistake.pulls
        title = f"{names[found.truth]} taken for {names[found.predicted]}: {found.images} images"
        for name, value, own, other in zip(pulled.names, pulled.values, pulled.own, pulled.others, strict=True):
            more = "↑" if own > other else "↓"
            rows.append((title, f"{readable_attribute(str(name))} {more}", float(value), float(own), float(other)))
    heads = ("panel", "attribute", "pull", "value of the wrong class", "value of the right class")
    columns = columns_of(heads, rows)
    chart = (
        alt.Chart(ROWS)
        .mark_bar()
        .encode(
            y=alt.Y("attribute:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
            x=alt.X("pull:Q", title="pull to the wrong class"),
            color=alt.condition("datum.pull > 0", alt.value(RED), alt.value(BLUE)),
            tooltip=["attribute:N", *(alt.Tooltip(f"{head}:Q", format=".3") for head in heads[2:])],
        )
    )
    bars = Counter(row[0] for row in rows)
    panels = [
        Panel(
            chart.transform_filter(alt.FieldEqualPredicate(field="panel", equal=title)).properties(
                width="container", height=STEP * count
            ),
            title,
        )
        for title, count in bars.items()
    ]
    see = (
        "For the most frequent mistakes among unseen classes: by how much each attribute raises the score of the wrong class "
        "over what it would be if the wrong class had the right one's value, of which it has more (↑) or less (↓). Red pulls "
        "to the mistake, blue away from it."
    )
    return Figure("mistakes", "Attributes behind the mistakes", see, columns, panels)


def attributes_table(model: ZeroShotClassifier, answers: Answers, X: Any, names: Names, strongest: int = 4) -> DataTable:
    """For every class of the images, the attributes that pull its own images to it most, and those that keep them away."""
    columns: dict[str, list[str]] = {"class": [], "pulled by": [], "kept away by": []}
    labels = np.unique(answers.known_truth)
    for label in labels[evenly(len(labels), MOST_CLASSES)].tolist():
        found = pulls(model, X[np.flatnonzero(answers.known_truth == label)[:SAMPLE]], label)
        order = np.argsort(-found.values, kind="stable")
        words = {
            "pulled by": [k for k in order[:strongest] if found.values[k] > 0],
            "kept away by": [k for k in order[::-1][:strongest] if found.values[k] < 0],
        }
        columns["class"].append(names[label])
        for head, places in words.items():
            columns[head].append(" · ".join(readable_attribute(str(found.names[k])) for k in places) or "-")
    see = (
        "For the images of each unseen class: the attributes whose value raises the score of the right class most over that "
        "of an average class, and those whose value lowers it: what the description says and the photos do not show."
    )
    if len(labels) > MOST_CLASSES:
        see += f" {MOST_CLASSES} of the {len(labels)} classes are shown."
    return DataTable("attributes-of-classes", "Attributes that find a class, or miss it", see, columns)
