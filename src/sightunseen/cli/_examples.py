"""Examples of a class, from photos or a table of features."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.cli._data import load_images
from sightunseen.cli._photo_progress import PhotoProgress
from sightunseen.core.arrays import Floats
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.photo_lists import list_photos
from sightunseen.features.extract import extract
from sightunseen.pipeline.data import known_backbone, open_for_photos


def load_examples(model: Any, photos: Sequence[Path], table: Path | None) -> Floats:
    """Load the features of examples of one class.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    photos : sequence of Path
        Photos, folders of photos, or CSV files that list them; empty if ``table`` is given.
    table : Path or None
        Table of features.

    Returns
    -------
    ndarray of shape (n, d)
        Features.

    Raises
    ------
    DataError
        If there are no photos, none can be read, they are of several classes, or features do not fit the model.
    SettingsError
        If photos are given and the backbone of the model is unknown.
    """
    if table is not None:
        return np.asarray(load_images(table, model)[0], dtype=np.float32)
    if known_backbone(model) is None:
        raise SettingsError("the model was trained on features of an unknown backbone. Give --features FILE, not --photos.")
    lists = [list_photos(path) for path in photos]
    for path, found in zip(photos, lists, strict=True):
        labels = sorted(set(found.labels or ()))
        if len(labels) > 1:
            raise DataError(
                f"{path} has photos of {len(labels)} classes ('{labels[0]}', '{labels[1]}'). Give those of one class."
            )
    paths = [path for found in lists for path in found.paths]
    backbone = open_for_photos(None, model)
    with PhotoProgress(backbone.name) as progress:
        batches = progress.watched(extract(paths, backbone, tell=progress.say), len(paths))
        features = np.concatenate([batch.features for batch in batches])
    if not len(features):
        raise DataError(f"none of the {len(paths)} photos could be read; expected at least one.")
    return np.asarray(features, dtype=np.float32)


def label_of(model: Any, name: str) -> Any:
    """Return the label of the class with a name, which is a number in some models; None if there is no such class."""
    return next((label for label in model.classes_.tolist() if str(label) == name), None)
