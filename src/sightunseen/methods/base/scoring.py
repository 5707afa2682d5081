"""Scores and predictions of an estimator for any candidate classes."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from sightunseen.core.arrays import Floats
from sightunseen.core.blocks import row_blocks
from sightunseen.core.calibration import Calibration, probabilities, temperature_of
from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import ModelError
from sightunseen.core.frames import as_features, as_targets
from sightunseen.core.metrics import per_class_accuracy
from sightunseen.core.warnings import UncalibratedWarning, warn_once
from sightunseen.methods.base.feature_scaling import FeatureScaling
from sightunseen.methods.base.known_classes import KnownClasses
from sightunseen.methods.base.top_classes import ClassRanking


class CandidateScoring(ClassifierMixin, KnownClasses):  # type: ignore[misc]
    """Base class that predicts among candidate classes.

    A subclass implements :meth:`_scorer`. Many candidates are scored in blocks: a method can compute what all classes share
    once, in :meth:`_prepare_images`, and then implements :meth:`_block_scorer` and :attr:`_scorer_width` as well.

    Attributes
    ----------
    scaling_ : FeatureScaling
        Fitted feature scaling.
    calibration_ : Calibration or None
        Softmax temperature and rejection threshold, if the model is calibrated.

    Notes
    -----
    The class attribute ``scores_jointly`` is whether the score of a class depends on the other candidates, so that they
    cannot be scored in blocks.
    """

    scores_jointly: ClassVar[bool] = False

    n_features_in_: int
    scaling_: FeatureScaling
    seen_penalty: float = 0.0
    calibration_: Calibration | None = None

    @abstractmethod
    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        """Return a function from scaled features (n, d) to scores (n, c) for these classes, before calibrated stacking.

        Computations that depend only on the classes belong here, since they are done once for all images.
        """

    def _prepare_images(self, X: Floats) -> Floats:
        """Compute what the scores of all classes share, of scaled features (n, d); only if candidates are scored in blocks."""
        return X

    def _block_scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        """Return a function from the result of :meth:`_prepare_images` to scores (n, c), as :meth:`_scorer` does."""
        return self._scorer(labels)

    @property
    def _scorer_width(self) -> int:
        """Number of single-precision numbers that a block scorer keeps per class."""
        return int(self.n_features_in_) * self.scaling_.views

    @abstractmethod
    def _features(self, X: Any, first_row: int = 0) -> Floats:
        """Validate features (n, d) and scale them as in training."""

    @property
    def temperature_(self) -> float:
        """Softmax temperature: the divisor of the scores in ``predict_proba``; 1 if the model is not calibrated."""
        return temperature_of(self.calibration_)

    def calibration_for(self, labels: Labels) -> Calibration | None:
        """Return the calibration of the scores among these candidates.

        Parameters
        ----------
        labels : ndarray of shape (c,)
            Labels of the candidates.

        Returns
        -------
        Calibration or None
            ``calibration_``; None if it was not fitted to such scores.
        """
        return self.calibration_

    def predict(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Labels:
        """Predict the class of each image.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Classes to choose from. ``"all"`` (the same as None) is generalized zero-shot learning, ``"unseen"`` conventional
            zero-shot learning.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels.

        Raises
        ------
        DataError
            If the features are invalid or a candidate is unknown.
        """
        labels = self.candidates(candidates)
        return np.asarray(labels[self._best(X, labels, 1)[0][:, 0]])

    def top_classes(self, X: ArrayLike, k: int = 5, candidates: ArrayLike | str | None = None) -> tuple[Labels, Floats]:
        """Find the classes with the best scores.

        Candidates are scored in blocks, so that memory does not grow with the number of images times the number of candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        k : int, default=5
            Number of classes per image; all candidates if there are fewer.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        labels : ndarray of shape (n, k)
            Labels of the best classes, best first. Of equal scores, the first candidate is the best.
        scores : ndarray of shape (n, k)
            Their scores.

        Raises
        ------
        SettingsError
            If ``k`` is not a positive whole number.
        DataError
            If the features are invalid or a candidate is unknown.
        """
        check_whole("k", k, 1)
        labels = self.candidates(candidates)
        columns, scores = self._best(X, labels, k)
        return np.asarray(labels[columns]), scores

    def decision_function(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Compute the scores of the candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, c)
            One column per candidate. Without ``candidates``, a model of two classes returns the difference of their scores, of
            shape (n,), as scikit-learn requires.

        Raises
        ------
        DataError
            If the features are invalid or a candidate is unknown.
        """
        labels = self.candidates(candidates)
        scores = np.concatenate(list(self._score_blocks(X, labels)))
        return scores[:, 1] - scores[:, 0] if candidates is None and len(labels) == 2 else scores

    def scorer(self, candidates: ArrayLike | str | None = None) -> Callable[[ArrayLike], Floats]:
        """Return a function that scores images for fixed candidates, for repeated use.

        Computations that depend only on the candidates are done once. Later changes of the model's classes have no effect on
        the returned function.

        Parameters
        ----------
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        callable
            Function from features of shape (n, d) to scores of shape (n, c).
        """
        labels = self.candidates(candidates)
        scorer = self._scorer(labels)
        return lambda X: np.concatenate(list(self._score_blocks(X, labels, scorer)))

    def predict_proba(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Compute class probabilities: the softmax of the scores divided by the temperature (Eq. 2).

        If the model is not calibrated, the temperature is 1 and the probabilities say little about how often a prediction is
        right; ``UncalibratedWarning`` says so. :class:`~sightunseen.ZeroShotSearchCV` calibrates the model that it fits.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, c)
            Probabilities; every row sums to one.
        """
        labels = self.candidates(candidates)
        calibration = self.calibration_for(labels)
        if self.calibration_ is None:
            warn_once(
                self,
                f"the probabilities of this {type(self).__name__} are not calibrated: they are a softmax of its scores. "
                "Calibrate it by ZeroShotSearchCV(model).fit(X, y, classes), or silence sightunseen.UncalibratedWarning.",
                UncalibratedWarning,
            )
        elif calibration is None:
            warn_once(
                self,
                f"this {type(self).__name__} has another classifier among unseen classes alone, and only the one among all "
                "classes is calibrated: these probabilities are a softmax of its scores. Leave candidates out for calibrated "
                "ones, or silence sightunseen.UncalibratedWarning.",
                UncalibratedWarning,
            )
        temperature = temperature_of(calibration)
        return np.concatenate([probabilities(scores, temperature) for scores in self._score_blocks(X, labels)])

    def is_none(self, scores: Floats, labels: Labels) -> NDArray[np.bool_]:
        """Open-set rejection: decide which images belong to none of the candidates.

        Parameters
        ----------
        scores : ndarray of shape (n, c)
            Scores of the candidates.
        labels : ndarray of shape (c,)
            Labels of the candidates.

        Returns
        -------
        ndarray of bool of shape (n,)
            Whether the image is rejected; all False if the model is not calibrated for these candidates.
        """
        calibration = self.calibration_for(labels)
        if calibration is None:
            return np.zeros(len(scores), dtype=bool)
        # If all candidates are seen classes, their common bias is undone before the comparison with the threshold.
        penalty = self.seen_penalty if self.is_seen(labels).all() else 0.0
        return calibration.is_none(scores + penalty)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        candidates: ArrayLike | str | None = None,
    ) -> float:
        """Compute the per-class top-1 accuracy: the mean of the accuracies of all classes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        y : array-like of shape (n,)
            True labels.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        float
            Accuracy between 0 and 1.
        """
        return per_class_accuracy(as_targets(y), self.predict(X, candidates))

    def _score_blocks(self, X: Any, labels: Labels, scorer: Callable[[Floats], Floats] | None = None) -> Iterator[Floats]:
        penalty = self.seen_penalty * self.is_seen(labels).astype(np.float32)
        scorer = self._scorer(labels) if scorer is None else scorer
        first_row = 0
        for block in row_blocks(as_features(X)):
            scores = scorer(self._features(block, first_row))
            first_row += len(block)
            if scores.shape != (len(block), len(labels)):  # of a plug-in
                raise ModelError(
                    f"{type(self).__name__} returned scores of shape {scores.shape} for {len(block)} images and {len(labels)} "
                    "candidates. Its _scorer must return one row per image and one column per candidate."
                )
            yield scores - penalty

    def _best(self, X: Any, labels: Labels, k: int) -> tuple[NDArray[np.intp], Floats]:
        """Indices (n, k) of the best candidates, and their scores (n, k)."""
        blocks = ((block, None) for block in row_blocks(as_features(X)))
        found = [best for _, _, best in ClassRanking(self, labels).over(blocks, k)]
        return np.concatenate([best.columns for best in found]), np.concatenate([best.scores for best in found])
