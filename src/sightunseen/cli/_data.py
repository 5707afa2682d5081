"""Opening data for a command."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.cli._photo_progress import PhotoProgress
from sightunseen.core.errors import DataError
from sightunseen.data.source import DataSource
from sightunseen.data.table_files import load_features, open_features
from sightunseen.features.feature_files import backbone_of
from sightunseen.pipeline.data import Progress, check_backbone, open_for_model, open_for_training, open_source

if TYPE_CHECKING:
    from sightunseen.core.dataset import ZeroShotDataset
    from sightunseen.pipeline.data import Opened


def source_of(args: argparse.Namespace) -> DataSource:
    """What the data arguments say."""
    classes = None if args.classes is None else str(args.classes)
    return DataSource(str(args.data), args.features, args.splits, args.semantics, classes, args.backbone)


def open_unexamined(args: argparse.Namespace) -> "ZeroShotDataset":
    """Open data that the split doctor has not examined yet."""
    with PhotoProgress() as progress:
        return open_source(source_of(args), progress=_shown(progress))


def open_to_train(args: argparse.Namespace, semantics: str | None = None) -> "Opened":
    """Open data to train on, with the split doctor's findings and the progress of photos on stderr."""
    with PhotoProgress() as progress:
        return open_for_training(source_of(args), semantics, getattr(args, "allow", ()), _shown(progress))


def open_to_test(args: argparse.Namespace, model: Any) -> "Opened":
    """Open data to test or adapt a model on; files that it was not trained on are told."""
    with PhotoProgress() as progress:
        opened = open_for_model(source_of(args), model, getattr(args, "allow", ()), _shown(progress))
    if opened.differing:
        print(
            f"note: these differ from what the model was trained on: {', '.join(opened.differing)}. Make sure that no test "
            "image was a training image.",
            file=sys.stderr,
        )
    return opened


def load_images(path: Path, model: Any, streamed: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features of images for this model, and their names where the file has them; ``streamed``: read as they are sliced."""
    features, names = (open_features if streamed else load_features)(path)
    check_backbone(model, backbone_of(path), str(path))
    if not len(features):
        raise DataError(f"{path} holds no image.")
    if features.shape[1] != model.n_features_in_:
        raise DataError(f"{path} has {features.shape[1]} features an image; the model needs {model.n_features_in_}.")
    return features, names


def load_unlabelled(path: Path, model: Any) -> NDArray[Any]:
    """Features of unlabelled images to adapt to."""
    features = np.asarray(load_images(path, model)[0])
    bad = int((~np.isfinite(features).all(axis=1)).sum())
    if bad:
        raise DataError(f"{path}: images with NaN or infinite features: {bad}. Extract them again, or drop them.")
    return features


def candidates_of(wanted: str, model: Any) -> Any:
    """The word ``all``, ``seen`` or ``unseen`` itself, or the labels in the file it names."""
    if wanted in ("all", "seen", "unseen"):
        return wanted
    path = Path(wanted)
    if not path.is_file():
        raise DataError(f"candidates must be all, seen, unseen or a file with one label a line; there is no file {path}.")
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text with one label a line; it is not readable as UTF-8.") from error
    unknown = [label for label in lines if label not in model.table_]
    if unknown or not lines:
        what = f"'{unknown[0]}' is not a class of the model" if unknown else "it is empty"
        raise DataError(f"{path}: {what}. It must hold one label of the model a line, such as '{model.classes_[0]}'.")
    return np.array(list(dict.fromkeys(lines)))


def _shown(progress: PhotoProgress) -> Progress:
    return Progress(progress.say, progress.watched)
