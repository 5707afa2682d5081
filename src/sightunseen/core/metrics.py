"""Metrics: per-class accuracy, harmonic mean, seen-unseen curve and its area (AUSUC), expected calibration error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError


def accuracy_by_class(y_true: ArrayLike, y_pred: ArrayLike) -> dict[Any, float]:
    """Accuracy of each true class.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,)
        Predicted labels.

    Returns
    -------
    dict of label to float
        Share of the images of each true class that are predicted correctly.

    Raises
    ------
    DataError
        If there are no labels, or if the two differ in shape.

    Examples
    --------
    >>> accuracy_by_class(["a", "a", "b"], ["a", "b", "b"])
    {'a': 0.5, 'b': 1.0}
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.shape != y_pred.shape or y_true.ndim != 1 or y_true.size == 0:
        raise DataError(
            f"accuracy needs as many predictions as labels, and at least one; got {y_pred.shape} and {y_true.shape}."
        )
    labels, position = np.unique(y_true, return_inverse=True)
    right = np.bincount(position, weights=y_true == y_pred, minlength=len(labels))
    return dict(zip(labels.tolist(), (right / np.bincount(position)).tolist(), strict=True))


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean of the accuracies of all true classes; each class has the same weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,)
        Predicted labels.

    Returns
    -------
    float
        The mean, between 0 and 1.

    Raises
    ------
    DataError
        If there are no labels, or if the two differ in shape.

    Examples
    --------
    >>> per_class_accuracy(["a", "a", "a", "b"], ["a", "a", "a", "a"])
    0.5
    """
    return float(np.mean(list(accuracy_by_class(y_true, y_pred).values())))


def harmonic_mean(unseen: float, seen: float) -> float:
    """Harmonic mean H = 2US / (U + S) of two accuracies.

    Parameters
    ----------
    unseen, seen : float
        Accuracy U on unseen and S on seen classes, as fractions or in percent.

    Returns
    -------
    float
        Their harmonic mean; 0 if both are 0.

    Examples
    --------
    >>> harmonic_mean(60, 30)
    40.0
    """
    total = unseen + seen
    return 2 * unseen * seen / total if total > 0 else 0.0


def class_weights(truth: NDArray[Any]) -> Doubles:
    """Weights of images under which all classes have the same total weight.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        Labels of the images.

    Returns
    -------
    ndarray of shape (n,)
        Weights that sum to one.
    """
    labels, position, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (counts[position] * len(labels)))


NOT_BOTH = "the seen-unseen curve needs candidates and images of both seen and unseen classes."


@dataclass(frozen=True)
class SeenUnseenCurve:
    """Accuracy on seen and unseen classes as a function of a bonus on the scores of all unseen classes.

    The bonus is the seen-class bias of calibrated stacking (Chao et al., ECCV 2016): adding it to the unseen classes is the
    same as subtracting it from the seen ones. Point k holds for bonuses above ``bonus[k]`` up to ``bonus[k + 1]``.

    Parameters
    ----------
    bonus : ndarray of shape (k,)
        Rising; the first one is minus infinity.
    unseen : ndarray of shape (k,)
        Per-class accuracy U on unseen classes, never falling.
    seen : ndarray of shape (k,)
        Per-class accuracy S on seen classes, never rising.
    """

    bonus: Doubles
    unseen: Doubles
    seen: Doubles

    @property
    def area(self) -> float:
        """AUSUC: area under S as a function of U, by the trapezoidal rule."""
        return float(np.trapezoid(self.seen, self.unseen))

    def at(self, bonus: float) -> tuple[float, float]:
        """Accuracies at a bonus.

        Parameters
        ----------
        bonus : float
            Added to the scores of all unseen classes.

        Returns
        -------
        (float, float)
            U and S.
        """
        point = int(np.searchsorted(self.bonus, bonus, side="left")) - 1
        return float(self.unseen[max(point, 0)]), float(self.seen[max(point, 0)])

    def best_bonus(self) -> float:
        """Bonus with the highest harmonic mean of U and S.

        Returns
        -------
        float
            The middle of the interval of best bonuses.
        """
        total = self.unseen + self.seen
        h = np.divide(2 * self.unseen * self.seen, total, out=np.zeros_like(total), where=total > 0)
        k = int(h.argmax())
        left, right = self.bonus[k], self.bonus[min(k + 1, len(self.bonus) - 1)]
        return float(right if np.isinf(left) else (left + right) / 2)


def best_common_bonus(curves: Sequence[SeenUnseenCurve]) -> float:
    """Bonus with the highest mean of H over several curves, such as those of class folds.

    It is steadier than the mean of the best bonuses of the curves, each of which has few images.

    Parameters
    ----------
    curves : sequence of SeenUnseenCurve
        The curves.

    Returns
    -------
    float
        The middle of the interval of best bonuses.

    Examples
    --------
    >>> one = seen_unseen_curve([[3, 1], [5, 1]], ["okapi", "cat"], ["cat", "okapi"], seen=["cat"])
    >>> best_common_bonus([one, one]) == one.best_bonus()
    True
    """
    if len(curves) == 1:
        return curves[0].best_bonus()
    ends = np.unique(np.concatenate([curve.bonus[1:] for curve in curves]))  # H is constant between these
    middles = np.concatenate([ends[:1] - 1, (ends[1:] + ends[:-1]) / 2, ends[-1:] + 1])
    total = np.zeros(len(middles))
    for curve in curves:
        point = np.searchsorted(curve.bonus, middles, side="left") - 1
        unseen, seen = curve.unseen[point], curve.seen[point]
        total += np.divide(2 * unseen * seen, unseen + seen, out=np.zeros_like(total), where=unseen + seen > 0)
    best = np.flatnonzero(total >= total.max() * (1 - 1e-12))
    return float(middles[best[len(best) // 2]])


def seen_unseen_curve(scores: ArrayLike, y_true: ArrayLike, candidates: ArrayLike, seen: ArrayLike) -> SeenUnseenCurve:
    """Compute the exact seen-unseen curve, with a point for every bonus at which a prediction changes.

    Parameters
    ----------
    scores : array-like of shape (n, c)
        Scores of images of seen and unseen classes together.
    y_true : array-like of shape (n,)
        Labels of the images.
    candidates : array-like of shape (c,)
        Label of each column.
    seen : array-like of shape (s,)
        Labels of the seen classes.

    Returns
    -------
    SeenUnseenCurve
        The curve.

    Raises
    ------
    DataError
        If the scores are not finite or of another shape, or if images or candidates are all seen or all unseen.

    Examples
    --------
    >>> curve = seen_unseen_curve([[3, 1], [5, 1]], ["okapi", "cat"], ["cat", "okapi"], seen=["cat"])
    >>> curve.area, curve.best_bonus(), curve.at(3)
    (1.0, 3.0, (1.0, 1.0))
    """
    scores, candidates = np.asarray(scores, dtype=np.float64), np.asarray(candidates)
    images = len(np.asarray(y_true))
    if scores.shape != (images, len(candidates)):
        raise DataError(
            f"the seen-unseen curve needs a score for each of {images} images and {len(candidates)} candidates; got shape "
            f"{scores.shape}."
        )
    column_seen = np.isin(candidates, seen)
    if column_seen.all() or not column_seen.any():
        raise DataError(NOT_BOTH)
    return BestScores.of(scores, candidates, column_seen).curve(y_true, seen)


@dataclass(frozen=True)
class BestScores:
    """Best seen and best unseen class of each image, with their scores: all that the seen-unseen curve needs.

    Parameters
    ----------
    seen, unseen : ndarray of shape (n,)
        Labels of the best seen and the best unseen class.
    seen_scores, unseen_scores : ndarray of shape (n,)
        Their scores.
    """

    seen: NDArray[Any]
    seen_scores: Doubles
    unseen: NDArray[Any]
    unseen_scores: Doubles

    @classmethod
    def of(cls, scores: NDArray[Any], candidates: NDArray[Any], column_seen: NDArray[np.bool_]) -> "BestScores":
        """Find the best classes.

        Parameters
        ----------
        scores : ndarray of shape (n, c)
            Scores.
        candidates : ndarray of shape (c,)
            Label of each column.
        column_seen : ndarray of bool of shape (c,)
            Whether the class is seen; there are seen and unseen ones.

        Returns
        -------
        BestScores
            The best classes.
        """
        best = cls.empty(len(scores), candidates.dtype)
        best.fill(np.arange(len(scores)), scores, candidates, column_seen)
        return best

    @classmethod
    def empty(cls, images: int, labels: Any) -> "BestScores":
        """Make room for images whose labels have this type."""
        return cls(np.empty(images, labels), np.empty(images), np.empty(images, labels), np.empty(images))

    def fill(
        self, rows: NDArray[np.intp], scores: NDArray[Any], candidates: NDArray[Any], column_seen: NDArray[np.bool_]
    ) -> None:
        """Find the best classes of some of the images, at ``rows``; see :meth:`of`."""
        self.seen[rows], self.seen_scores[rows] = _best(scores[:, column_seen], candidates[column_seen])
        self.unseen[rows], self.unseen_scores[rows] = _best(scores[:, ~column_seen], candidates[~column_seen])

    def curve(self, y_true: ArrayLike, seen: ArrayLike) -> SeenUnseenCurve:
        """Compute the exact seen-unseen curve; see :func:`seen_unseen_curve`."""
        y_true = np.asarray(y_true)
        wrong = int((~np.isfinite(self.seen_scores) | ~np.isfinite(self.unseen_scores)).sum())
        if wrong:
            raise DataError(f"the seen-unseen curve needs finite scores; {wrong} images have a score that is NaN or infinite.")
        image_seen = np.isin(y_true, seen)
        if image_seen.all() or not image_seen.any():
            raise DataError(NOT_BOTH)
        margin = self.seen_scores - self.unseen_scores  # an unseen class is predicted once the bonus exceeds it
        weight = np.empty(len(y_true))
        for side in (image_seen, ~image_seen):
            weight[side] = class_weights(y_true[side])

        order = np.argsort(margin, kind="stable")
        gained = np.where((self.unseen == y_true) & ~image_seen, weight, 0.0)[order]
        lost = np.where((self.seen == y_true) & image_seen, weight, 0.0)[order]
        last_of_ties = np.append(np.diff(margin[order]) > 0, True)
        unseen_part = np.concatenate([[0.0], np.cumsum(gained)[last_of_ties]])
        total_lost = np.cumsum(lost)
        seen_part = total_lost[-1] - np.concatenate([[0.0], total_lost[last_of_ties]])
        bonus = np.concatenate([[-np.inf], margin[order][last_of_ties]])
        return SeenUnseenCurve(bonus, unseen_part, seen_part)


def _best(scores: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], Doubles]:
    """Label and score of the best class of each image; the score is NaN if one of the scores is."""
    column = scores.argmax(axis=1)  # that of NaN, if there is one
    return labels[column], np.take_along_axis(scores, column[:, None], axis=1)[:, 0].astype(np.float64)


@dataclass(frozen=True)
class Bin:
    """Images whose confidence is above ``lower`` and at most ``upper``.

    Parameters
    ----------
    lower, upper : float
        Bounds of the confidence.
    images : int
        Number of images.
    confidence : float
        Mean confidence.
    accuracy : float
        Share of the images that are predicted correctly.
    """

    lower: float
    upper: float
    images: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """Reliability diagram: accuracy as a function of confidence.

    Parameters
    ----------
    bins : tuple of Bin
        The bins that contain images, by rising confidence.
    """

    bins: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """Expected calibration error (Guo et al., ICML 2017, Eq. 3): mean gap of the bins, weighted by images."""
        gaps = sum(part.images * abs(part.accuracy - part.confidence) for part in self.bins)
        return gaps / sum(part.images for part in self.bins)


def reliability(confidence: ArrayLike, right: ArrayLike, n_bins: int = 10) -> Reliability:
    """Group images by the confidence of their predictions.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability of the predicted class, between 0 and 1.
    right : array-like of bool of shape (n,)
        Whether the prediction is correct.
    n_bins : int, default=10
        Number of bins of equal width between 0 and 1.

    Returns
    -------
    Reliability
        The bins that contain images.

    Raises
    ------
    DataError
        If there are no images.

    Examples
    --------
    >>> round(reliability([0.9, 0.9, 0.6, 0.6], [True, True, True, False]).error, 3)
    0.1
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right)
    if not len(confidence):
        raise DataError("the calibration error needs at least one image; got none. Give images with known labels.")
    edges = np.arange(n_bins + 1) / n_bins
    bin_of = np.digitize(confidence, edges[1:-1], right=True)  # (n,)
    bins = []
    for k in np.unique(bin_of).tolist():
        inside = bin_of == k
        means = float(confidence[inside].mean()), float(right[inside].mean())
        bins.append(Bin(float(edges[k]), float(edges[k + 1]), int(inside.sum()), *means))
    return Reliability(tuple(bins))
