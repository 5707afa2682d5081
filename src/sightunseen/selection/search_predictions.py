"""Predictions of a fitted search: those of its best estimator, a method or a pipeline that ends in one."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.conversion import as_matrix
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.frames import as_features, frame_of
from sightunseen.core.rows import Rows
from sightunseen.methods import ZeroShotClassifier
from sightunseen.methods.base.frame_output import ConfiguredFrames
from sightunseen.selection.pipelines import PipelineMethod


class SearchPredictions(ConfiguredFrames, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of searches that predict with their best estimator.

    Attributes
    ----------
    best_estimator_ : ZeroShotClassifier or Pipeline
        The fitted estimator.
    n_features_in_ : int
        Number of features (d).
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if the search was fitted to a DataFrame.
    """

    @property
    def classes_(self) -> Labels:
        """All labels that the best estimator can predict, sorted."""
        return self._model.classes_

    def predict(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Labels:
        """Predict the best class of each image with the best estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels, "seen", "unseen", "all" or None, default=None
            The classes to choose among. None: all classes.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels.
        """
        return self._model.predict(self._inputs(X), candidates)

    def predict_proba(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Calibrated probabilities of the candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels or {"all", "seen", "unseen"}, default=None
            Classes to choose among; None: all.

        Returns
        -------
        ndarray of shape (n, c)
            Probabilities, one column per candidate.
        """
        return self._model.predict_proba(self._inputs(X), candidates)

    def decision_function(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Scores of the candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels or {"all", "seen", "unseen"}, default=None
            Classes to choose among; None: all.

        Returns
        -------
        ndarray of shape (n, c)
            Scores, one column per candidate; for two classes and no ``candidates`` of shape (n,), as in scikit-learn.
        """
        return self._model.decision_function(self._inputs(X), candidates)

    def score(self, X: ArrayLike, y: ArrayLike, candidates: ArrayLike | str | None = None) -> float:
        """Per-class accuracy of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        y : array-like of shape (n,)
            True labels.
        candidates : array-like of labels or {"all", "seen", "unseen"}, default=None
            Classes to choose among; None: all.

        Returns
        -------
        float
            The accuracy, between 0 and 1.
        """
        return self._model.score(self._inputs(X), y, candidates)

    def predict_frame(
        self, X: ArrayLike, candidates: ArrayLike | str | None = None, *, top: int = 1, output: str | None = None
    ) -> Any:
        """Predict the best classes of each image as a DataFrame, with the best estimator.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, d)
            Features of the images.
        candidates : array-like of labels or {"all", "seen", "unseen"}, default=None
            Classes to choose among; None: all.
        top : int, default=1
            Number of classes per image.
        output : {"pandas", "polars"}, default=None
            Library of the frame; see :meth:`ZeroShotClassifier.predict_frame`.

        Returns
        -------
        DataFrame of n rows
            Classes and calibrated probabilities; see :meth:`ZeroShotClassifier.predict_frame`.
        """
        model, features = self._model, self._inputs(X)
        method = model
        if isinstance(model, PipelineMethod):
            method = model.method
            features = model.pipeline[:-1].transform(features) if len(model.pipeline) > 1 else features
        configured = self if "_sklearn_output_config" in vars(self) else method
        return method.frame_like(X, features, candidates, top, output or configured._frames_for(X))

    def _inputs(self, X: Any) -> Any:
        """Convert features for the best estimator; the columns of a DataFrame must be those of the fit."""
        check_is_fitted(self, "best_estimator_")
        features = as_features(X)
        if frame_of(features) is not None:
            self._check_names(features)
        return features

    def _learn_features(self, X: Any) -> Any:
        """Store number and names of the features; convert them to an array, unless they are in files."""
        features = as_features(X)
        features = np.asarray(features) if isinstance(features, list | tuple) else features
        self._check_names(features, reset=True)
        if isinstance(features, Rows):
            return features
        array = np.asarray(features)
        return as_matrix(array, "features X") if array.dtype == object else array

    def _check_names(self, features: Any, reset: bool = False) -> None:
        try:
            validate_data(self, features, reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:
            raise DataError(str(error)) from error

    def _pass_names(self) -> None:
        """Give the names of the features to the estimator, which was fitted to arrays; in a pipeline, to its first step."""
        if not hasattr(self, "feature_names_in_"):
            return
        steps = self.best_estimator_ if isinstance(self.best_estimator_, Pipeline) else [self.best_estimator_]
        first = next(step for step in steps if step not in ("passthrough", None))
        first.feature_names_in_ = self.feature_names_in_

    @property
    def _model(self) -> "ZeroShotClassifier | PipelineMethod":
        check_is_fitted(self, "best_estimator_")
        model: ZeroShotClassifier | PipelineMethod = as_model(self.best_estimator_)
        return model


def as_model(estimator: Any) -> Any:
    """Give a method or a pipeline the interface of a method.

    Parameters
    ----------
    estimator : ZeroShotClassifier or Pipeline
        The estimator.

    Returns
    -------
    ZeroShotClassifier or PipelineMethod
        The method itself, or the pipeline with the interface of a method.

    Raises
    ------
    SettingsError
        If it is neither.
    """
    if isinstance(estimator, Pipeline):
        return PipelineMethod(estimator)
    if not isinstance(estimator, ZeroShotClassifier):
        raise SettingsError(
            f"estimator must be a zero-shot method, or a pipeline that ends in one; got {type(estimator).__name__}."
        )
    return estimator
