"""Figures of joint embedding spaces: t-SNE of images and classes, as in the paper's t-SNE figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import Answers, ask, evenly_spaced
from sightunseen.analysis.tsne import TsneEmbedding
from sightunseen.core.class_table import Labels
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import MOST_NAMES, Names
from sightunseen.report.figures import GREY, ORANGE, ROWS, Figure, Panel, columns_of
from sightunseen.report.label_placement import MOST, placed

STAR = "M0,-1L0.26,-0.36L0.95,-0.31L0.42,0.14L0.59,0.81L0,0.45L-0.59,0.81L-0.42,0.14L-0.95,-0.31L-0.26,-0.36Z"
HEIGHT = 320
MOST_OBSTACLES = 300  # points that names should not cover
NARROWEST = 330  # pixels: width of a panel on a phone, for which names are placed
EDGE = 14  # pixels around the points
LABELS = ("label", "align", "dx", "dy")  # columns of the names beside points
UNLABELLED = ("", "left", 0, 0)
MOST_IMAGES = 6000  # per panel
Embed = Callable[[Any, Any], TsneEmbedding]  # images (n, k), classes (c, k) -> coordinates in the plane


@dataclass(frozen=True)
class Space:
    """Embeddings of one model's joint embedding space.

    Parameters
    ----------
    name : str
        Title of the panel.
    classes : TsneEmbedding
        Embedding of all classes.
    labels : ndarray of shape (c,)
        Labels of these classes.
    images : TsneEmbedding
        Embedding of images and their candidate classes.
    answers : Answers
        Predictions for these images; ``answers.labels`` are the candidate classes.
    """

    name: str
    classes: TsneEmbedding
    labels: Labels
    images: TsneEmbedding
    answers: Answers


def space_of(
    name: str, model: ZeroShotClassifier, X: Any, around: Labels, embed: Embed, names: Any = None, truth: Any = None
) -> Space:
    """Embed the joint embedding space of a model in the plane: all classes, and images with their candidate classes.

    Parameters
    ----------
    name : str
        Title of the panel.
    model : ZeroShotClassifier
        A fitted model with a joint embedding space.
    X : array of shape (n, d)
        Features of the images; at most 6,000 evenly spaced ones are used.
    around : ndarray of shape (k,)
        Candidate classes to draw with the images.
    embed : callable
        Function that embeds images and classes, such as :func:`~sightunseen.analysis.tsne.tsne_embedding`.
    names, truth : array-like of shape (n,), default=None
        Names and true labels of the images.

    Returns
    -------
    Space
        The embeddings.

    Raises
    ------
    SettingsError
        If the method has no joint embedding space.
    """
    rows = evenly_spaced(len(X), MOST_IMAGES)
    answers = ask(model, X[rows], around, *(None if given is None else np.asarray(given)[rows] for given in (names, truth)))
    images, classes = model.compared(X[rows], model.classes_)
    near = np.isin(model.classes_, around)
    ordered = answers.among(model.classes_[near])
    return Space(name, embed(images[:0], classes), model.classes_, embed(images, classes[near]), ordered)


def classes_figure(spaces: Sequence[Space], seen: Labels, names: Names) -> Figure:
    """Draw all classes in the joint embedding space of each model, with the names of at most 30.

    Parameters
    ----------
    spaces : sequence of Space
        One panel each.
    seen : ndarray
        Seen classes.
    names : mapping of label to str
        Readable class names.

    Returns
    -------
    Figure
        The figure.
    """
    known = set(seen.tolist())
    rows = [row for space in spaces for row in _class_rows(space, known, names)]
    columns = columns_of(("panel", "class", "kind", "x", "y", *LABELS), rows)
    kinds = ["seen", "unseen"]
    points = _plane().encode(
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[GREY, ORANGE])),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", STAR])),
        size=alt.condition(alt.datum.kind == "unseen", alt.value(150), alt.value(40)),
        tooltip=["class:N", "kind:N"],
    )
    named = {row[2] for row in rows if row[5]}
    which = "" if not named else " All classes are named." if named == set(kinds) else " Unseen classes are named."
    caption = (
        "t-SNE of all classes in the joint embedding space of each model, L2-normalised. Neighbouring classes are hard to "
        f"distinguish; directions and distances between groups have no meaning.{which}"
    )
    panels = [Panel(_panel(space.name, points), space.name, HEIGHT) for space in spaces]
    return Figure("classes-in-space", "Classes in the joint embedding space", caption, columns, panels)


def _class_rows(space: Space, seen: set[Any], names: Names) -> list[tuple[Any, ...]]:
    points, labels = space.classes.classes, space.labels.tolist()
    unseen = [label not in seen for label in labels]
    shown = unseen if sum(unseen) <= MOST_NAMES else [False] * len(labels)
    if len(labels) <= MOST_NAMES:
        shown = [True] * len(labels)
    texts = _texts(points, points, [names[label] if wanted else "" for label, wanted in zip(labels, shown, strict=True)])
    return [
        (space.name, names[label], "unseen" if new else "seen", *point, *text)
        for label, new, point, text in zip(labels, unseen, points.tolist(), texts, strict=True)
    ]


def images_figure(spaces: Sequence[Space], names: Names) -> Figure:
    """Draw images and their candidate classes, coloured by true class or, without labels, by predicted class.

    Parameters
    ----------
    spaces : sequence of Space
        One panel each.
    names : mapping of label to str
        Readable class names; at most 30 are shown.

    Returns
    -------
    Figure
        The figure.
    """
    rows = [row for space in spaces for row in _image_rows(space, names)]
    columns = columns_of(("panel", "point", "class", "predicted class", "image", "x", "y", *LABELS), rows)
    labelled = all(space.answers.truth is not None for space in spaces)
    near = alt.selection_point(name="near", fields=["class"], on="pointerover", clear="pointerout", empty=True)
    title = alt.Tooltip("class:N", title="true class" if labelled else "class")
    base = _plane().encode(
        color=alt.Color("class:N", scale=alt.Scale(scheme="tableau20"), legend=None),
        tooltip=["point:N", title, "predicted class:N", "image:N"],
    )
    largest = max((len(space.answers.names) for space in spaces), default=0)
    images = base.transform_filter(alt.datum.point == "image").encode(
        opacity=alt.condition(near, alt.value(0.75), alt.value(0.08)),
        size=alt.value(18 if largest > 1000 else 30 if largest > 200 else 55),
    )
    classes = base.transform_filter(alt.datum.point == "class").encode(
        shape=alt.value(STAR), size=alt.value(230), stroke=alt.value("#333333"), strokeWidth=alt.value(1)
    )
    colour = "the true class" if labelled else "the predicted class"
    caption = (
        f"t-SNE of images (dots, in the colour of {colour}) and unseen classes (stars) in the joint embedding space of each "
        "model, L2-normalised. Point at a dot to highlight its class; hold Shift to zoom with the wheel or to pan."
    )
    layers = images.add_params(near), classes
    panels = [Panel(_panel(space.name, *layers), space.name, HEIGHT, crowded=True) for space in spaces]
    return Figure("images-in-space", "Images and unseen classes in the joint embedding space", caption, columns, panels)


def _image_rows(space: Space, names: Names) -> list[tuple[Any, ...]]:
    answers, labels = space.answers, space.answers.labels.tolist()
    shown = answers.predicted if answers.truth is None else answers.truth
    images = zip(shown.tolist(), answers.predicted.tolist(), answers.names.tolist(), space.images.images.tolist(), strict=True)
    points = space.images.classes
    everything = np.concatenate([np.asarray(space.images.images).reshape(-1, 2), points])
    texts = _texts(points, everything, [names[label] if len(labels) <= MOST_NAMES else "" for label in labels])
    return [
        *((space.name, "image", names[label], names[best], image, *point, *UNLABELLED) for label, best, image, point in images),
        *(
            (space.name, "class", names[label], "", "", *point, *text)
            for label, point, text in zip(labels, points.tolist(), texts, strict=True)
        ),
    ]


def _texts(points: Any, drawn: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Name of each point with its alignment and offsets; empty names are not placed."""
    kept = [k for k, name in enumerate(names) if name]
    if not kept:
        return [UNLABELLED] * len(names)
    extent = np.min(drawn, axis=0), np.max(drawn, axis=0)
    size = NARROWEST - 2 * EDGE, HEIGHT - 2 * EDGE
    others = np.asarray(drawn)[evenly_spaced(len(drawn), MOST_OBSTACLES)]
    positions = placed(np.asarray(points)[kept], [names[k] for k in kept], extent, *size, others)
    found = {k: (names[k], one.align, one.dx, one.dy) for k, one in zip(kept, positions, strict=True)}
    return [found.get(k, UNLABELLED) for k in range(len(names))]


def _plane() -> alt.Chart:
    scale = alt.Scale(zero=False, padding=EDGE)
    axes = {"x": alt.X("x:Q", axis=None, scale=scale), "y": alt.Y("y:Q", axis=None, scale=scale)}
    chart: alt.Chart = alt.Chart(ROWS).mark_point(filled=True, opacity=0.85).encode(**axes)
    return chart


def _panel(space: str, *layers: alt.Chart) -> Any:
    """Points of one space and their names; the chart can be zoomed."""
    ink = alt.param(name="ink", value="#1c2127")  # set by the page, according to its theme
    limit = alt.ExprRef(f"{MOST / NARROWEST} * width")  # names may be as long in proportion as those that were placed
    names = _plane().transform_filter(alt.datum.label != "")
    names = names.mark_text(
        align=alt.ExprRef("datum.align"),
        dx=alt.ExprRef("datum.dx"),
        dy=alt.ExprRef("datum.dy"),
        baseline="middle",
        limit=limit,
        color=alt.ExprRef("ink"),
        fontSize=11,
    )
    drawn = alt.layer(*layers, names.encode(text="label:N")).transform_filter(alt.datum.panel == space)
    return _zoomable(drawn).add_params(ink)


def _zoomable(chart: Any) -> Any:
    """Zoom and pan the chart while Shift is held; without Shift the wheel scrolls the page."""
    move = "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!"
    return chart.add_params(alt.selection_interval(bind="scales", zoom="wheel![event.shiftKey]", translate=move))
