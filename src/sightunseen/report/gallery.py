"""Galleries: images that are predicted as each class, and the most confident mistakes, as photos or by name."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.best_images import BestImage, best_images, confident_mistakes
from sightunseen.analysis.hubness import hubness
from sightunseen.data.doctor.finding import some
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import columns_of
from sightunseen.report.page import Block, Gallery, Note, Photo
from sightunseen.report.thumbnails import Photos

TOP = 7  # images per class
MOST_PHOTOS = 1200  # per page, to limit its size; with very many classes, each shows fewer


def best_images_gallery(answers: Answers, names: Names, photos: Photos | None = None) -> Gallery:
    """Show the images that are predicted as each class, marked as correct or wrong if their labels are known.

    Parameters
    ----------
    answers : Answers
        Predictions; the candidates are the classes shown.
    names : mapping of label to str
        Readable class names.
    photos : Photos, default=None
        The photos; by default images are shown by name.

    Returns
    -------
    Gallery
        One group per class that is predicted for an image.
    """
    found, totals = best_images(answers, TOP), dict(zip(answers.labels.tolist(), hubness(answers).counts.tolist(), strict=True))
    predicted = {label: images for label, images in found.items() if images}
    limit = max(1, MOST_PHOTOS // max(1, len(predicted))) if photos else None
    groups, rows = {}, []
    for label, ranked in predicted.items():
        images = ranked[:limit]
        groups[_heading(names[label], images, totals[label])] = [_photo(image, names, photos) for image in images]
        for rank, image in enumerate(ranked, start=1):
            truth = "" if image.truth is None else names[image.truth]
            rows.append((names[label], rank, image.name, image.score, image.confidence, truth))
    columns = columns_of(("class", "rank", "image", "score", "confidence", "true class"), rows)
    caption = "Images for which each unseen class is predicted, with only unseen classes as candidates; highest score first."
    if answers.truth is not None:
        caption += " A green frame and ✓ mark a correct prediction, a red frame and ✗ an image of another, named class."
    never = [names[label] for label, images in found.items() if not images]
    if never:
        caption += f" Not predicted for any image: {some(never)}."
    caption += _missing(photos, (photo for group in groups.values() for photo in group))
    return Gallery("best-images", "Images predicted as each unseen class", caption, groups, columns)


def mistakes_gallery(answers: Answers, names: Names, photos: Photos | None = None) -> Block:
    """Show the wrong predictions with the highest confidence.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    names : mapping of label to str
        Readable class names.
    photos : Photos, default=None
        The photos; by default images are shown by name.

    Returns
    -------
    Gallery or Note
        The images, or a note if all predictions are correct.
    """
    title = "Most confident mistakes"
    found = confident_mistakes(answers)
    if not found:
        return Note(f"{title}: none.")
    rows = [(one.name, names[one.truth], names[one.predicted], one.confidence) for one in found]
    columns = columns_of(("image", "true class", "predicted class", "confidence"), rows)
    shown = [
        Photo(_short(name), f"predicted: {predicted} ({100 * confidence:.0f}%)\ntrue: {truth}", "wrong", _picture(name, photos))
        for name, truth, predicted, confidence in rows
    ]
    caption = (
        "Test images that are predicted as a wrong class with the highest confidence, with all classes as candidates: the "
        f"predicted class with its probability, and the true class.{_missing(photos, shown)}"
    )
    return Gallery("confident-mistakes", title, caption, {"": shown}, columns)


def _heading(name: str, images: Sequence[BestImage], total: int) -> str:
    counted = f"{total:,} image{'s' if total != 1 else ''}"
    part = total > len(images)
    if any(image.correct is None for image in images):
        return f"{name} · {counted}" + (f", {len(images)} shown" if part else "")
    correct = sum(bool(image.correct) for image in images)
    return f"{name} · {counted}" + (f", {correct} of the {len(images)} shown correct" if part else f", {correct} correct")


def _photo(image: BestImage, names: Names, photos: Photos | None) -> Photo:
    mark = "" if image.correct is None else "correct" if image.correct else "wrong"
    caption = f"is {names[image.truth]}" if mark == "wrong" else f"{100 * image.confidence:.0f}%"
    return Photo(_short(image.name), caption, mark, _picture(image.name, photos))


def _short(name: str) -> str:
    return PurePosixPath(name).name or name


def _picture(name: str, photos: Photos | None) -> str:
    return photos.picture(name) if photos else ""


def _missing(photos: Photos | None, shown: Iterable[Any]) -> str:
    listed = list(shown)
    missing = sum(not photo.picture for photo in listed) if photos else 0
    return f" {missing} of {len(listed)} have no photo in the folder and are shown by name." if missing else ""
