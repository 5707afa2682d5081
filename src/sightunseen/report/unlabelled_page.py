"""Page on a model's predictions for unlabelled images."""

from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers, ask, evenly_spaced
from sightunseen.analysis.hubness import hubness
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.names import readable_names
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.class_figures import Names, hubness_figure
from sightunseen.report.curve_figures import confidence_figure
from sightunseen.report.gallery import best_images_gallery
from sightunseen.report.page import Block, DataTable, Note, Page, Section, Tile
from sightunseen.report.run_sections import record_section, trust_section
from sightunseen.report.space_figures import Embed, images_figure, space_of
from sightunseen.report.thumbnails import Photos

MOST_IMAGES = 50_000  # per page


def unlabelled_page(
    title: str, model: ZeroShotClassifier, X: Any, names: Any, photos: Photos | None = None, embed: Embed | None = None
) -> Page:
    """Create the page on a model's predictions for unlabelled images.

    Parameters
    ----------
    title : str
        Title of the page.
    model : ZeroShotClassifier
        A fitted model.
    X : array of shape (n, d)
        Features of the images; at most 50,000 evenly spaced ones are used.
    names : array of shape (n,) or None
        Names of the images; row numbers if None.
    photos : Photos, default=None
        Photos of the images; by default images are shown by name.
    embed : callable, default=None
        Function that embeds images and classes in the plane; None leaves this figure out.

    Returns
    -------
    Page
        The page.
    """
    total, rows = len(X), evenly_spaced(len(X), MOST_IMAGES)
    X, names = np.asarray(X[rows]), rows.astype(str) if names is None else names[rows]
    answers = ask(model, X, None, names)
    shown = readable_names(model.classes_.tolist())
    unseen = model.unseen_classes_ if len(model.unseen_classes_) else model.classes_
    gallery = best_images_gallery(ask(model, X, unseen, names), shown, photos)
    sections = [
        Section("answers", "Predictions", _predictions(model, answers, shown)),
        trust_section(model),
        Section("spaces", "Spaces", [] if embed is None else [_space(model, X, unseen, embed, names, shown)]),
        Section("images", "Images", [gallery]),
        record_section(model),
    ]
    part = f", {len(rows):,} of which are shown here" if len(rows) < total else ""
    subtitle = f"{type(model).__name__} on {total:,} images without labels{part}, among {len(model.classes_)} classes."
    return Page(title, subtitle, _tiles(model, answers), [section for section in sections if section.blocks])


def _tiles(model: ZeroShotClassifier, answers: Answers) -> list[Tile]:
    to_unseen = float(np.isin(answers.predicted, model.unseen_classes_).mean())
    return [
        Tile("images", f"{len(answers.names):,}"),
        Tile("unseen classes", f"{100 * to_unseen:.1f}%", "of the predictions"),
        Tile("median confidence", f"{100 * float(np.median(answers.confidence)):.0f}%", "probability of the predicted class"),
    ]


def _predictions(model: ZeroShotClassifier, answers: Answers, names: Names) -> list[Block]:
    found = hubness(answers)
    order = np.argsort(-found.counts, kind="stable")
    columns: dict[str, list[Any]] = {
        "class": [names[label] for label in found.labels[order].tolist()],
        "images": found.counts[order].tolist(),
        "kind": np.where(np.isin(found.labels[order], model.seen_classes_), "seen", "unseen").tolist(),
    }
    caption = "Number of images for which each class is predicted, with all classes as candidates."
    return [
        Note("These images have no labels, so the accuracy of the predictions is unknown."),
        DataTable("classes", "Predictions by class", caption, columns),
        confidence_figure(answers.confidence),
        hubness_figure({"this model": found}, len(answers.names), names),
    ]


def _space(model: ZeroShotClassifier, X: Any, unseen: Labels, embed: Embed, image_names: Any, names: Names) -> Block:
    try:
        return images_figure([space_of(type(model).__name__, model, X, unseen, embed, image_names)], names)
    except SettingsError as error:  # the method has no joint embedding space
        return Note(str(error))
