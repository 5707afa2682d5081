"""Figures of the space in which a method compares images and classes: t-SNE pictures, as in the paper's figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers, ask, evenly
from sightunseen.analysis.tsne import Picture
from sightunseen.core.class_table import Labels
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import GREY, ORANGE, ROWS, Figure, Panel, columns_of

STAR = "M0,-1L0.26,-0.36L0.95,-0.31L0.42,0.14L0.59,0.81L0,0.45L-0.59,0.81L-0.42,0.14L-0.95,-0.31L-0.26,-0.36Z"
HEIGHT = 320
MOST_IMAGES = 6000  # of a picture
Draw = Callable[[Any, Any], Picture]  # images (n, k), classes (c, k) -> where they lie in the plane


@dataclass(frozen=True)
class Space:
    """The pictures of one method: all its classes, and its images around the classes they may be of."""

    name: str
    classes: Picture
    labels: Labels  # of the points of ``classes``
    images: Picture
    answers: Answers  # on the images, among the classes of that picture


def space_of(
    name: str, model: ZeroShotClassifier, X: Any, around: Labels, draw: Draw, names: Any = None, truth: Any = None
) -> Space:
    """The pictures of a model: of all its classes, and of images (n, d) with the classes that they lie ``around``.

    Of more images than a picture can show, some are taken evenly.
    """
    rows = evenly(len(X), MOST_IMAGES)
    answers = ask(model, X[rows], around, *(None if given is None else np.asarray(given)[rows] for given in (names, truth)))
    images, classes = model.compared(X[rows], model.classes_)
    near = np.isin(model.classes_, around)
    ordered = answers.among(model.classes_[near])
    return Space(name, draw(images[:0], classes), model.classes_, draw(images, classes[near]), ordered)


def classes_figure(spaces: Sequence[Space], seen: Labels, names: Names) -> Figure:
    """Where each method puts the classes."""
    known = set(seen.tolist())
    rows = [
        (space.name, names[label], "seen" if label in known else "unseen", *point)
        for space in spaces
        for label, point in zip(space.labels.tolist(), space.classes.classes.tolist(), strict=True)
    ]
    columns = columns_of(("panel", "class", "kind", "x", "y"), rows)
    kinds = ["seen", "unseen"]
    chart = _plane().encode(
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[GREY, ORANGE])),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", STAR])),
        size=alt.condition(alt.datum.kind == "unseen", alt.value(150), alt.value(40)),
        tooltip=["class:N", "kind:N"],
    )
    see = (
        "Every class where the method puts it (t-SNE of the vectors it compares images with). Classes that lie spread out are "
        "easier to tell apart than classes in clumps."
    )
    panels = [_panel(chart, space.name) for space in spaces]
    return Figure("classes-in-space", "Classes as each method sees them", see, columns, panels)


def images_figure(spaces: Sequence[Space], names: Names) -> Figure:
    """Images around the classes they may be of, each in its class's colour; without labels, in its answer's."""
    rows = [row for space in spaces for row in _image_rows(space, names)]
    heads = ("panel", "point", "class", "answer", "image", "x", "y")
    columns = columns_of(heads, rows)
    labelled = all(space.answers.truth is not None for space in spaces)
    near = alt.selection_point(name="near", fields=["class"], on="pointerover", clear="pointerout", empty=True)
    base = _plane().encode(
        color=alt.Color("class:N", scale=alt.Scale(scheme="tableau20"), legend=None),
        tooltip=["point:N", alt.Tooltip("class:N", title="true class" if labelled else "class"), "answer:N", "image:N"],
    )
    images = base.transform_filter(alt.datum.point == "image").encode(
        opacity=alt.condition(near, alt.value(0.75), alt.value(0.08)), size=alt.value(18)
    )
    classes = base.transform_filter(alt.datum.point == "class").encode(
        shape=alt.value(STAR), size=alt.value(230), stroke=alt.value("#333333"), strokeWidth=alt.value(1)
    )
    dot = (
        "an image of an unseen class, in the colour of its true class" if labelled else "an image, in the colour of its answer"
    )
    see = (
        f"Each dot is {dot}; stars are the unseen classes. Best are dots around the "
        "star of their colour; stars in a clump of their own are classes that images are all far from. Point at a dot to "
        "see its class alone; hold Shift and scroll to zoom, or drag to move."
    )
    panels = []
    for space in spaces:
        drawn = alt.layer(images.add_params(near), classes).transform_filter(alt.datum.panel == space.name)
        panels.append(Panel(_zoomable(drawn.properties(width="container", height=HEIGHT)), space.name, crowded=True))
    return Figure("images-in-space", "Images of unseen classes around their classes", see, columns, panels)


def _image_rows(space: Space, names: Names) -> list[tuple[Any, ...]]:
    answers = space.answers
    classes = zip(answers.labels.tolist(), space.images.classes.tolist(), strict=True)
    of = answers.best if answers.truth is None else answers.truth
    images = zip(of.tolist(), answers.best.tolist(), answers.names.tolist(), space.images.images.tolist(), strict=True)
    return [
        *((space.name, "image", names[label], names[best], image, *point) for label, best, image, point in images),
        *((space.name, "class", names[label], "", "", *point) for label, point in classes),
    ]


def _plane() -> alt.Chart:
    scale = alt.Scale(zero=False, padding=12)
    place = {"x": alt.X("x:Q", axis=None, scale=scale), "y": alt.Y("y:Q", axis=None, scale=scale)}
    chart: alt.Chart = alt.Chart(ROWS).mark_point(filled=True, opacity=0.85).encode(**place)
    return chart


def _panel(chart: alt.Chart, name: str) -> Panel:
    drawn = chart.transform_filter(alt.datum.panel == name).properties(width="container", height=HEIGHT)
    return Panel(_zoomable(drawn), name)


def _zoomable(chart: Any) -> Any:
    """The chart, to be zoomed and moved with Shift held: a page that scrolls must not stop at a chart."""
    move = "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!"
    return chart.add_params(alt.selection_interval(bind="scales", zoom="wheel![event.shiftKey]", translate=move))
