"""The page of a model on images whose classes nobody knows yet: what it says of them, and how sure it is."""

from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers, ask, evenly
from sightunseen.analysis.best_images import best_images
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
from sightunseen.report.space_figures import Draw, images_figure, space_of
from sightunseen.report.thumbnails import Photos

MOST_IMAGES = 50_000  # that a page is made of


def unlabelled_page(
    title: str, model: ZeroShotClassifier, X: Any, names: Any, photos: Photos | None = None, draw: Draw | None = None
) -> Page:
    """Make the page of images (n, d) or, of very many, of some taken evenly.

    ``draw`` places images and classes in the plane; None leaves that out.
    """
    total, rows = len(X), evenly(len(X), MOST_IMAGES)
    X, names = np.asarray(X[rows]), rows.astype(str) if names is None else names[rows]
    answers = ask(model, X, None, names)
    shown = readable_names(model.classes_.tolist())
    unseen = model.unseen_classes_ if len(model.unseen_classes_) else model.classes_
    gallery = best_images_gallery(best_images(ask(model, X, unseen, names)), shown, photos)
    sections = [
        Section("answers", "Answers", _answers(model, answers, shown)),
        trust_section(model),
        Section("spaces", "Spaces", [] if draw is None else [_space(model, X, unseen, draw, names, shown)]),
        Section("images", "Best images", [gallery]),
        record_section(model),
    ]
    part = f", {len(rows):,} of which are shown here" if len(rows) < total else ""
    subtitle = f"{type(model).__name__} on {total:,} images without labels{part}, among {len(model.classes_)} classes."
    return Page(title, subtitle, _tiles(model, answers), [section for section in sections if section.blocks])


def _tiles(model: ZeroShotClassifier, answers: Answers) -> list[Tile]:
    to_unseen = float(np.isin(answers.best, model.unseen_classes_).mean())
    return [
        Tile("images", f"{len(answers.names):,}"),
        Tile("to unseen classes", f"{100 * to_unseen:.1f}%", "of the answers"),
        Tile("median confidence", f"{100 * float(np.median(answers.confidence)):.0f}%"),
    ]


def _answers(model: ZeroShotClassifier, answers: Answers, names: Names) -> list[Block]:
    found = hubness(answers)
    order = np.argsort(-found.chosen, kind="stable")
    labels = found.labels[order].tolist()
    columns: dict[str, list[Any]] = {
        "class": [names[label] for label in labels],
        "images": found.chosen[order].tolist(),
        "kind": np.where(np.isin(found.labels[order], model.seen_classes_), "seen", "unseen").tolist(),
    }
    return [
        Note("Nobody has said what these images show, so nothing here says how many answers are right."),
        DataTable("classes", "Answers", "How many images each class is the answer for, among all classes.", columns),
        confidence_figure(answers.confidence),
        hubness_figure({"among all classes": found}, len(answers.names), names),
    ]


def _space(model: ZeroShotClassifier, X: Any, unseen: Labels, draw: Draw, image_names: Any, names: Names) -> Block:
    try:
        return images_figure([space_of(type(model).__name__, model, X, unseen, draw, image_names)], names)
    except SettingsError as error:  # not every method has a space
        return Note(str(error))
