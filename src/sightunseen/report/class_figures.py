"""Figures of classes: how well each is recognised, what it is taken for, how often it is chosen."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Destination, alike_side_by_side, confusion_matrix
from sightunseen.analysis.hubness import Hubness
from sightunseen.report.figures import BLUE, GREEN, GREY, ORANGE, RED, ROWS, Figure, Panel, columns_of

MOST_BARS = 60  # of a bar chart that a person can still read
MOST_CELLS = 60  # rows and columns of a confusion matrix
STEP = 15  # pixels a bar
Names = Mapping[Any, str]


def accuracy_figure(zsl: Mapping[Any, float], gzsl: Mapping[Any, float], names: Names) -> Figure:
    """Accuracy of every unseen class, among unseen classes and among all."""
    ordered = sorted(zsl, key=lambda label: (-zsl[label], names[label]))
    shown, said = _ends(ordered)
    asked = {"among unseen classes": zsl, "among all classes": gzsl}
    rows = [(names[label], asked_for, 100 * found[label]) for label in ordered for asked_for, found in asked.items()]
    columns = columns_of(("class", "candidates", "accuracy"), rows)
    kept = [names[label] for label in shown]
    base = alt.Chart(ROWS).transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=kept))
    place = alt.Y("class:N", sort=kept, title=None)
    chart = alt.layer(
        base.mark_line(color=GREY, strokeWidth=2).encode(y=place, x="accuracy:Q", detail="class:N"),
        base.mark_circle(size=70, opacity=1).encode(
            y=place,
            x=alt.X("accuracy:Q", title="images that are right (%)", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("candidates:N", scale=alt.Scale(domain=list(asked), range=[BLUE, ORANGE])),
            tooltip=["class:N", "candidates:N", alt.Tooltip("accuracy:Q", format=".1f")],
        ),
    ).properties(width="container", height=STEP * len(kept))
    see = (
        f"Best first{said}. A long line between the dots is a class whose images go to seen classes once these are candidates."
    )
    return Figure("accuracy-by-class", "Accuracy of each unseen class", see, columns, [Panel(chart)])


def confusion_figure(answers: Answers, vectors: Any, names: Names) -> Figure:
    """Which unseen class is taken for which; ``vectors`` (c, a) are those of the candidates, to set like beside like."""
    counts = confusion_matrix(answers, answers.labels)
    wrong = counts.sum(axis=1) + counts.sum(axis=0) - 2 * counts.diagonal()
    kept = np.sort(np.argsort(-wrong, kind="stable")[:MOST_CELLS])
    order = kept[alike_side_by_side(np.asarray(vectors)[kept])]
    totals = np.maximum(counts.sum(axis=1), 1)
    cells = [(i, j) for i in order for j in order if counts[i, j]]
    shown = [names[label] for label in answers.labels.tolist()]
    columns = {
        "true class": [shown[i] for i, _ in cells],
        "answer": [shown[j] for _, j in cells],
        "images": [int(counts[i, j]) for i, j in cells],
        "share": [100 * float(counts[i, j] / totals[i]) for i, j in cells],
    }
    sort = [shown[k] for k in order]
    labels = alt.Axis(labelLimit=110, labelFontSize=8 if len(order) > 30 else 10, labelOverlap=True)
    scale = alt.Scale(domain=sort)
    chart = (
        alt.Chart(ROWS)
        .mark_rect(color=BLUE)
        .encode(
            x=alt.X("answer:N", scale=scale, title="answer", axis=labels),
            y=alt.Y("true class:N", scale=scale, title="true class", axis=labels),
            opacity=alt.Opacity("share:Q", title="% of the true class", scale=alt.Scale(domain=[0, 100], range=[0.12, 1])),
            tooltip=["true class:N", "answer:N", "images:Q", alt.Tooltip("share:Q", format=".1f")],
        )
        .properties(width="container", height=max(120, 11 * len(order)))
    )
    part = f" The {len(order)} classes with most mistakes of {len(shown)} are shown." if len(order) < len(shown) else ""
    see = (
        "Among unseen classes alone. Rows are what the images show, columns what the model says; on the diagonal it is right. "
        f"Classes with similar descriptions stand side by side, so blocks on the diagonal are families that it mixes up.{part}"
    )
    return Figure("confusion", "What unseen classes are taken for", see, columns, [Panel(chart)])


def destinations_figure(found: Sequence[Destination], names: Names) -> Figure:
    """Where the images of each unseen class go once seen classes are candidates."""
    kinds = {"right": "right", "unseen": "another unseen class", "seen": "a seen class"}
    rows = [(names[one.label], word, 100 * getattr(one, kind)) for one in found for kind, word in kinds.items()]
    columns = columns_of(("class", "answer", "share"), rows)
    shown, said = _ends([names[one.label] for one in found])
    chart = (
        alt.Chart(ROWS)
        .transform_filter(alt.FieldOneOfPredicate(field="class", oneOf=shown))
        .transform_calculate(order="indexof(['right', 'another unseen class', 'a seen class'], datum.answer)")
        .mark_bar()
        .encode(
            y=alt.Y("class:N", sort=shown, title=None),
            x=alt.X("share:Q", title="images (%)", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("answer:N", scale=alt.Scale(domain=list(kinds.values()), range=[GREEN, ORANGE, RED])),
            order="order:Q",
            tooltip=["class:N", "answer:N", alt.Tooltip("share:Q", format=".1f")],
        )
        .properties(width="container", height=STEP * len(shown))
    )
    whole = 100 * float(np.mean([one.seen for one in found]))
    see = (
        f"Among all classes, {whole:.1f}% of an unseen class's images are taken for a seen class on average. The classes that "
        f"leak most come first{said}."
    )
    return Figure("leaks", "Where images of unseen classes go", see, columns, [Panel(chart)])


def hubness_figure(found: Mapping[str, Hubness], images: int, names: Names) -> Figure:
    """How often each class is chosen, most often first; ``found`` by when it was asked."""
    rows = []
    for when, hubs in found.items():
        for rank, k in enumerate(np.argsort(-hubs.chosen, kind="stable"), start=1):
            rows.append((when, rank, names[hubs.labels.tolist()[k]], int(hubs.chosen[k])))
    columns = columns_of(("when", "rank", "class", "images"), rows)
    fair = images / max(1, len(next(iter(found.values())).labels))
    drawn = alt.Chart(ROWS).encode(
        x=alt.X("rank:Q", title="classes, the most chosen first", scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("images:Q", title="images it is chosen for"),
        color=alt.Color("when:N", scale=alt.Scale(domain=list(found), range=[GREY, BLUE] if len(found) > 1 else [BLUE])),
        tooltip=["when:N", "class:N", "images:Q", "rank:Q"],
    )
    level = alt.Chart(alt.InlineData(values=[{"fair": fair}])).mark_rule(strokeDash=[4, 4], color=GREY).encode(y="fair:Q")
    chart = alt.layer(level, drawn.mark_line(interpolate="step"), drawn.mark_circle(size=45, opacity=1))
    skewness = ", ".join(f"{_number(hubs.skewness)} {when}" for when, hubs in found.items())
    see = (
        "A class that is chosen for everything is a hub: a steep beginning of the curve. The dashed line is every class alike. "
        f"Skewness of the counts: {skewness}; 0 is even, above 1 a few classes attract most images."
    )
    return Figure("hubness", "Hubs", see, columns, [Panel(chart.properties(width="container", height=300))])


def _ends(ordered: Sequence[Any]) -> tuple[list[Any], str]:
    """All, or the first and last where they are too many for a chart, and the words that say so."""
    if len(ordered) <= MOST_BARS:
        return list(ordered), ""
    half = MOST_BARS // 2
    return [*ordered[:half], *ordered[-half:]], f" (the first and the last {half} of {len(ordered)}; the CSV has all)"


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
