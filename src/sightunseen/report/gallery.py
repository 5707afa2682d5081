"""The best-scored images of each class, as in the paper's appendix: photos, or their names."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sightunseen.analysis.best_images import BestImage
from sightunseen.report.class_figures import Names
from sightunseen.report.figures import columns_of
from sightunseen.report.page import Gallery, Photo
from sightunseen.report.thumbnails import Photos

MOST_PHOTOS = 1200  # of a page, which would grow too large; of very many classes fewer are shown of each


def best_images_gallery(found: Mapping[Any, tuple[BestImage, ...]], names: Names, photos: Photos | None = None) -> Gallery:
    """A row of images for each class; those of another class are marked wrong."""
    groups, rows = {}, []
    most = max(1, MOST_PHOTOS // max(1, len(found))) if photos else None
    for label, ranked in found.items():
        images = ranked[:most]
        right = sum(bool(image.right) for image in images)
        labelled = all(image.right is not None for image in images)
        heading = f"{names[label]} · {right} of {len(images)} right" if labelled else names[label]
        groups[heading] = [_photo(image, names, photos) for image in images]
        for rank, image in enumerate(ranked, start=1):
            truth = "" if image.truth is None else names[image.truth]
            rows.append((names[label], rank, image.name, image.score, truth))
    heads = ("class", "rank", "image", "score", "true class")
    columns = columns_of(heads, rows)
    shown = [photo for group in groups.values() for photo in group]
    missing = sum(not photo.picture for photo in shown) if photos else 0
    see = "The images that score highest for each unseen class, best first"
    see += "; a red frame means that the image shows another class." if any(truth for *_, truth in rows) else "."
    if missing:
        see += f" {missing} of {len(shown)} have no photo in the folder and are shown by name."
    return Gallery("best-images", "Best images of each unseen class", see, groups, columns)


def _photo(image: BestImage, names: Names, photos: Photos | None) -> Photo:
    mark = "" if image.right is None else "right" if image.right else "wrong"
    caption = names[image.truth] if mark == "wrong" else f"score {image.score:.2f}"
    picture = photos.picture(image.name) if photos else ""
    return Photo(PurePosixPath(image.name).name or image.name, caption, mark, picture)
