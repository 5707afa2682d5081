"""Data of a command."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.cli._photo_progress import PhotoProgress
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.data.opening import read_lines
from sightunseen.data.source import DataSource
from sightunseen.data.table_files import load_features, open_features
from sightunseen.features.feature_files import backbone_of
from sightunseen.pipeline.data import Progress, check_backbone, open_for_model, open_for_training, open_source

if TYPE_CHECKING:
    from sightunseen.core.dataset import ZeroShotDataset
    from sightunseen.pipeline.data import Opened


def source_of(args: argparse.Namespace) -> DataSource:
    """Build the data source from the data arguments.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.

    Returns
    -------
    DataSource
        Paths and options of the data set.
    """
    classes = None if args.classes is None else str(args.classes)
    return DataSource(str(args.data), args.features, args.splits, args.semantics, classes, args.backbone)


def open_unexamined(args: argparse.Namespace) -> "ZeroShotDataset":
    """Open a data set without running the split doctor.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.

    Returns
    -------
    ZeroShotDataset
        The data set.
    """
    with PhotoProgress() as progress:
        return open_source(source_of(args), progress=_shown(progress))


def open_to_train(args: argparse.Namespace, semantics: str | None = None) -> "Opened":
    """Open a data set to train on and run the split doctor; print the progress of photos to stderr.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.
    semantics : str, optional
        Class vectors to use unless the arguments name others.

    Returns
    -------
    Opened
        The data set and the findings.

    Raises
    ------
    DataError
        If the data cannot be read or fail a check that is not allowed.
    """
    with PhotoProgress() as progress:
        return open_for_training(source_of(args), semantics, getattr(args, "allow", ()), _shown(progress))


def open_to_test(args: argparse.Namespace, model: Any) -> "Opened":
    """Open a data set to evaluate or adapt a model on; warn about files that differ from those of training.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.
    model : ZeroShotClassifier
        Fitted model.

    Returns
    -------
    Opened
        The data set and the findings.

    Raises
    ------
    DataError
        If the data cannot be read, do not fit the model, or fail a check that is not allowed.
    """
    with PhotoProgress() as progress:
        opened = open_for_model(source_of(args), model, getattr(args, "allow", ()), _shown(progress))
    if opened.differing:
        print(
            f"note: these files differ from those the model was trained on: {', '.join(opened.differing)}. Make sure that no "
            "test image was used for training.",
            file=sys.stderr,
        )
    return opened


def load_images(path: Path, model: Any, streamed: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Load features of images and check that they fit the model.

    Parameters
    ----------
    path : Path
        Table of features.
    model : ZeroShotClassifier
        Fitted model.
    streamed : bool, default=False
        Read rows from disk when they are sliced.

    Returns
    -------
    features : array-like of shape (n, d)
        Features.
    names : ndarray of shape (n,) or None
        Names of the images, if the file has them.

    Raises
    ------
    DataError
        If the file has no image, another number of features, or features of another backbone.
    """
    features, names = (open_features if streamed else load_features)(path)
    check_backbone(model, backbone_of(path), str(path))
    if not len(features):
        raise DataError(f"{path} has no images; expected at least one.")
    if features.shape[1] != model.n_features_in_:
        raise DataError(f"{path} has {features.shape[1]} features per image; the model expects {model.n_features_in_}.")
    return features, names


def load_unlabelled(path: Path, model: Any) -> NDArray[Any]:
    """Load features of unlabelled images to adapt to.

    Parameters
    ----------
    path : Path
        Table of features.
    model : ZeroShotClassifier
        Fitted model.

    Returns
    -------
    ndarray of shape (n, d)
        Features.

    Raises
    ------
    DataError
        If the features do not fit the model, or are not finite.
    """
    features = np.asarray(load_images(path, model)[0])
    bad = int((~np.isfinite(features).all(axis=1)).sum())
    if bad:
        raise DataError(
            f"{path}: {bad} of {len(features)} rows have NaN or infinite features. Extract them again, or remove them."
        )
    return features


def candidates_of(wanted: str, model: Any) -> Any:
    """Parse the candidate classes of ``--candidates``.

    Parameters
    ----------
    wanted : str
        "all", "seen", "unseen", or a text file with one label per line.
    model : ZeroShotClassifier
        Fitted model.

    Returns
    -------
    str or ndarray of shape (c,)
        The word, or the labels.

    Raises
    ------
    DataError
        If there is no such file, it is empty, or a label is not a class of the model.
    """
    if wanted in ("all", "seen", "unseen"):
        return wanted
    path = Path(wanted)
    if not path.is_file():
        raise DataError(
            f"there is no file {path}; --candidates must be all, seen, unseen or a text file with one label per line."
        )
    lines = read_lines(path)
    unknown = [label for label in lines if label not in model.table_]
    if unknown or not lines:
        what = f"'{quoted(unknown[0])}' is not a class of the model" if unknown else "the file is empty"
        raise DataError(f"{path}: {what}; expected one class of the model per line, such as '{model.classes_[0]}'.")
    return np.array(list(dict.fromkeys(lines)))


def _shown(progress: PhotoProgress) -> Progress:
    return Progress(progress.say, progress.watched)
