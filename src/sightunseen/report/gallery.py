"""Gallery of the highest-scoring images of each class, as in the paper's appendix: photos, or their names."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sightunseen.analysis.best_images import BestImage
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import columns_of
from sightunseen.report.page import Gallery, Photo
from sightunseen.report.thumbnails import Photos

MOST_PHOTOS = 1200  # per page, to limit its size; with very many classes, each shows fewer


def best_images_gallery(found: Mapping[Any, tuple[BestImage, ...]], names: Names, photos: Photos | None = None) -> Gallery:
    """Show the highest-scoring images of each class; images of another class are marked as wrong.

    Parameters
    ----------
    found : mapping of label to tuple of BestImage
        Images of each class, best first.
    names : mapping of label to str
        Readable class names.
    photos : Photos, default=None
        The photos; by default images are shown by name.

    Returns
    -------
    Gallery
        One group per class.
    """
    groups, rows = {}, []
    limit = max(1, MOST_PHOTOS // max(1, len(found))) if photos else None
    for label, ranked in found.items():
        images = ranked[:limit]
        correct = sum(bool(image.correct) for image in images)
        labelled = all(image.correct is not None for image in images)
        heading = f"{names[label]} · {correct} of {len(images)} correct" if labelled else names[label]
        groups[heading] = [_photo(image, names, photos) for image in images]
        for rank, image in enumerate(ranked, start=1):
            truth = "" if image.truth is None else names[image.truth]
            rows.append((names[label], rank, image.name, image.score, truth))
    columns = columns_of(("class", "rank", "image", "score", "true class"), rows)
    shown = [photo for group in groups.values() for photo in group]
    missing = sum(not photo.picture for photo in shown) if photos else 0
    caption = "Images with the highest scores for each unseen class, best first"
    caption += "; a red frame marks an image of another class, which is named below it." if any(columns["true class"]) else "."
    if missing:
        caption += f" {missing} of {len(shown)} have no photo in the folder and are shown by name."
    return Gallery("best-images", "Best images of each unseen class", caption, groups, columns)


def _photo(image: BestImage, names: Names, photos: Photos | None) -> Photo:
    mark = "" if image.correct is None else "correct" if image.correct else "wrong"
    caption = names[image.truth] if mark == "wrong" else f"score {image.score:.2f}"
    picture = photos.picture(image.name) if photos else ""
    return Photo(PurePosixPath(image.name).name or image.name, caption, mark, picture)
