"""Seen-unseen curve: accuracy on seen and unseen classes as a function of the seen-class bias, and its area (AUSUC)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import class_weights

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

    def predicted(self, bonus: float) -> NDArray[Any]:
        """Predictions of shape (n,) if a bonus is added to the scores of all unseen classes."""
        return np.where(self.seen_scores - self.unseen_scores < bonus, self.unseen, self.seen)

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
