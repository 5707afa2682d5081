"""Figures of attributes: what they contribute to the right class, and what to the wrong one."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers, evenly
from sightunseen.analysis.contributions import Mistake, contributions
from sightunseen.core.names import readable_attribute
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import BLUE, RED, ROWS, Figure, Panel, columns_of
from sightunseen.report.page import DataTable

STEP = 22  # pixels a bar
MOST_CLASSES = 100  # that are asked about, taken evenly: each takes a tenth of a second or more
SAMPLE = 50  # images of a class that its attributes are asked about


def mistakes_figure(mistakes: Sequence[Mistake], names: Names) -> Figure:
    """For each frequent mistake, the attributes that spoke for the wrong class and against it."""
    rows = [row for mistake in mistakes for row in _bars(mistake, names)]
    heads = ("panel", "attribute", "contribution", "value of the wrong class", "value of the right class")
    columns = columns_of(heads, rows)
    chart = (
        alt.Chart(ROWS)
        .mark_bar()
        .encode(
            y=alt.Y("attribute:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
            x=alt.X("contribution:Q", title="contribution to the lead of the wrong class"),
            color=alt.condition("datum.contribution > 0", alt.value(RED), alt.value(BLUE)),
            opacity=alt.condition("isValid(datum['value of the wrong class'])", alt.value(1), alt.value(0.55)),
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
        "For the most frequent mistakes among unseen classes: what each attribute, of which the wrong class has more (↑) or "
        "less (↓) than the right one, contributes to the wrong class's lead in these images. Red speaks for the mistake, blue "
        "against it. With all other attributes the contributions add up to the lead: the mean of score(wrong) - score(right)."
    )
    return Figure("mistakes", "Attributes behind the mistakes", see, columns, panels)


def _bars(mistake: Mistake, names: Names) -> list[tuple[Any, ...]]:
    """The strongest attributes, all others, and their sum: title, name, contribution, and both values of an attribute."""
    found, parts = mistake.confusion, mistake.contributions
    title = f"{names[found.truth]} taken for {names[found.predicted]}: {found.images} images"
    rows: list[tuple[Any, ...]] = []
    for name, *numbers in zip(parts.names, parts.mean.tolist(), parts.own.tolist(), parts.others.tolist(), strict=True):
        more = "↑" if numbers[1] > numbers[2] else "↓"
        rows.append((title, f"{readable_attribute(str(name))} {more}", *numbers))
    total = float(parts.totals.mean())
    rest = total - float(parts.mean.sum())
    return [*rows, (title, "all other attributes", rest, None, None), (title, "lead of the wrong class", total, None, None)]


def attributes_table(model: ZeroShotClassifier, answers: Answers, X: Any, names: Names, strongest: int = 4) -> DataTable:
    """For every class of the images, the attributes that speak most for it in its own images, and most against it."""
    columns: dict[str, list[str]] = {"class": [], "speaks for it": [], "speaks against it": []}
    labels = np.unique(answers.known_truth)
    for label in labels[evenly(len(labels), MOST_CLASSES)].tolist():
        found = contributions(model, X[np.flatnonzero(answers.known_truth == label)[:SAMPLE]], label)
        mean = found.mean
        order = np.argsort(-mean, kind="stable")
        words = {
            "speaks for it": [k for k in order[:strongest] if mean[k] > 0],
            "speaks against it": [k for k in order[::-1][:strongest] if mean[k] < 0],
        }
        columns["class"].append(names[label])
        for head, places in words.items():
            columns[head].append(" · ".join(readable_attribute(str(found.names[k])) for k in places) or "-")
    see = (
        "For the images of each unseen class: the attributes that contribute most to the score of the right class over that of "
        "an average class, and those that take most from it: what the description says and the photos do not show."
    )
    if len(labels) > MOST_CLASSES:
        see += f" {MOST_CLASSES} of the {len(labels)} classes are shown."
    return DataTable("attributes-of-classes", "Attributes that find a class, or miss it", see, columns)
