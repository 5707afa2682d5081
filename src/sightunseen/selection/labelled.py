"""Images to evaluate on: a data set, or features with their labels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Fold, Split, ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.frames import as_features, as_targets, frame_of
from sightunseen.core.rows import Rows
from sightunseen.methods import ZeroShotClassifier
from sightunseen.selection.pipelines import PipelineMethod


class LabelledImages(Protocol):
    """What an evaluation needs: test images of unseen and of seen classes, and the unseen classes."""

    @property
    def test_unseen(self) -> Split:
        """Test images of unseen classes."""

    @property
    def test_seen(self) -> Split:
        """Test images of seen classes."""

    @property
    def unseen(self) -> Labels:
        """Unseen candidate classes, sorted."""


@dataclass(frozen=True)
class _Arrays:
    """Images with labels that were given as arrays."""

    test_unseen: Split
    test_seen: Split
    unseen: Labels


class _FrameSplit(Split):
    """Some rows of a DataFrame, which keeps the names of its columns."""

    @cached_property
    def X(self) -> Any:  # noqa: N802 - scikit-learn's name for it
        """Features of the subset: a DataFrame of n rows."""
        return frame_of(self.features)[self.rows].to_native()


def as_method(model: Any) -> Any:
    """Check that a model can be evaluated; a pipeline or a search is replaced by the fitted method in it.

    Parameters
    ----------
    model : object
        What the user gave as a model.

    Returns
    -------
    ZeroShotClassifier or PipelineMethod
        The fitted model.

    Raises
    ------
    SettingsError
        If it is not a zero-shot model.
    """
    model = getattr(model, "best_estimator_", model)
    model = PipelineMethod(model) if isinstance(model, Pipeline) else model
    method = model.method if isinstance(model, PipelineMethod) else model
    if not isinstance(method, ZeroShotClassifier):
        raise SettingsError(
            f"only a zero-shot model can be evaluated; got {quoted(type(model).__name__)}. Give a fitted model, such as "
            "that of load_model, or a search with refit=True."
        )
    check_is_fitted(method)
    return model


def labelled_images(model: Any, data: Any, y: Any = None) -> LabelledImages:
    """Resolve what a model is evaluated on.

    Parameters
    ----------
    model : ZeroShotClassifier or PipelineMethod
        A fitted model.
    data : ZeroShotDataset, Fold or array-like of shape (n, d)
        Data with test images, or features.
    y : array-like of shape (n,), default=None
        Labels, if ``data`` are features.

    Returns
    -------
    LabelledImages
        The data; or the features, as images of seen classes and images of unseen classes of the model.

    Raises
    ------
    DataError
        If labels are missing or unknown to the model, or if there are not as many as images.
    """
    if isinstance(data, ZeroShotDataset | Fold):
        if y is not None:
            raise DataError(
                "a data set has labels of its own; got further labels y. Give evaluate(model, data) or (model, X, y)."
            )
        return data
    if y is None:
        raise DataError(
            f"the labels of the images are missing: got {quoted(type(data).__name__)} and no y. Give evaluate(model, X, y), or "
            "a data set of open_data."
        )
    features, labels = as_features(data), as_targets(y)
    framed = frame_of(features) is not None
    if not framed and not isinstance(features, Rows):
        features = np.asarray(features)
    if len(features.shape) != 2 or labels.ndim != 1 or features.shape[0] != len(labels) or not len(labels):
        raise DataError(
            f"X must have one row per image and y one label per image; got shapes {tuple(features.shape)} and {labels.shape}."
        )
    known = set(model.classes_.tolist())
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in known]
    if unknown:
        raise DataError(
            f"{len(unknown)} of the labels are not classes of the model (first: {quoted(repr(unknown[0]))}); it knows "
            f"{len(known)} classes, such as {quoted(repr(model.classes_.tolist()[0]))}. Add the class with add_classes, or "
            "drop its images."
        )
    labels = labels.astype(model.classes_.dtype)  # texts may be objects, and whole numbers have a fraction of 0
    seen = np.isin(labels, model.seen_classes_)
    kind = _FrameSplit if framed else Split
    test_unseen, test_seen = (kind(features, labels, np.flatnonzero(rows)) for rows in (~seen, seen))
    return _Arrays(test_unseen, test_seen, np.setdiff1d(model.classes_, model.seen_classes_))
