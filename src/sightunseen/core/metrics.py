"""The field's metrics: per-class accuracy, harmonic mean, the seen-unseen curve with its area, and calibration error."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.errors import DataError

Floats = NDArray[np.float64]


def accuracy_by_class(y_true: ArrayLike, y_pred: ArrayLike) -> dict[Any, float]:
    """The part of each true class's samples that was predicted right, by label."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.shape != y_pred.shape or y_true.ndim != 1 or y_true.size == 0:
        raise DataError(
            f"accuracy needs as many predictions as labels, and at least one; got {y_pred.shape} and {y_true.shape}."
        )
    labels, position = np.unique(y_true, return_inverse=True)
    right = np.bincount(position, weights=y_true == y_pred, minlength=len(labels))
    return dict(zip(labels.tolist(), (right / np.bincount(position)).tolist(), strict=True))


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean class accuracy: every class counts the same, however many images it has.

    >>> per_class_accuracy(["a", "a", "a", "b"], ["a", "a", "a", "a"])
    0.5
    """
    return float(np.mean(list(accuracy_by_class(y_true, y_pred).values())))


def harmonic_mean(unseen: float, seen: float) -> float:
    """H = 2US / (U + S), zero where both are."""
    total = unseen + seen
    return 2 * unseen * seen / total if total > 0 else 0.0


@dataclass(frozen=True)
class SeenUnseenCurve:
    """Accuracy on seen and unseen classes as ``bonus`` is added to the scores of all unseen classes.

    Point k holds for every bonus between ``bonus[k]`` and ``bonus[k + 1]``; ``bonus[0]`` is minus infinity.
    """

    bonus: Floats  # (k,)
    unseen: Floats  # (k,) U, rising
    seen: Floats  # (k,) S, falling

    @property
    def area(self) -> float:
        """AUSUC: the area under S as a function of U, by trapezoids."""
        return float(np.trapezoid(self.seen, self.unseen))

    def at(self, bonus: float) -> tuple[float, float]:
        """(U, S) at this bonus."""
        point = int(np.searchsorted(self.bonus, bonus, side="left")) - 1
        return float(self.unseen[max(point, 0)]), float(self.seen[max(point, 0)])

    def best_bonus(self) -> float:
        """The middle of the interval of bonuses in which H is highest."""
        total = self.unseen + self.seen
        h = np.divide(2 * self.unseen * self.seen, total, out=np.zeros_like(total), where=total > 0)
        k = int(h.argmax())
        left, right = self.bonus[k], self.bonus[min(k + 1, len(self.bonus) - 1)]
        return float(right if np.isinf(left) else (left + right) / 2)


def seen_unseen_curve(scores: ArrayLike, y_true: ArrayLike, candidates: ArrayLike, seen: ArrayLike) -> SeenUnseenCurve:
    """Sweep the bonus of the unseen classes exactly, through every value at which a prediction changes.

    Parameters
    ----------
    scores : (n, c) scores of the images of seen and unseen classes together.
    y_true : (n,) their labels.
    candidates : (c,) the label of each column.
    seen : the labels of the seen classes.
    """
    scores = np.asarray(scores, dtype=np.float64)
    y_true, candidates = np.asarray(y_true), np.asarray(candidates)
    if scores.shape != (len(y_true), len(candidates)) or not np.isfinite(scores).all():
        raise DataError(
            f"the seen-unseen curve needs a finite score for each of {len(y_true)} images and {len(candidates)} candidates; "
            f"got shape {scores.shape}, with {int((~np.isfinite(scores)).sum())} scores NaN or infinite."
        )
    column_seen, image_seen = np.isin(candidates, seen), np.isin(y_true, seen)
    if not (column_seen.any() and (~column_seen).any() and image_seen.any() and (~image_seen).any()):
        raise DataError("the seen-unseen curve needs candidates and images of both seen and unseen classes.")

    best_seen, seen_right = _best(scores[:, column_seen], candidates[column_seen], y_true)
    best_unseen, unseen_right = _best(scores[:, ~column_seen], candidates[~column_seen], y_true)
    # An image goes over to the unseen classes once the bonus exceeds its margin.
    margin = best_seen - best_unseen
    weight = _class_balanced_weights(y_true, image_seen)

    order = np.argsort(margin, kind="stable")
    gained = np.where(unseen_right & ~image_seen, weight, 0.0)[order]
    lost = np.where(seen_right & image_seen, weight, 0.0)[order]
    last_of_ties = np.append(np.diff(margin[order]) > 0, True)
    unseen = np.concatenate([[0.0], np.cumsum(gained)[last_of_ties]])
    total_lost = np.cumsum(lost)
    seen_part = total_lost[-1] - np.concatenate([[0.0], total_lost[last_of_ties]])
    bonus = np.concatenate([[-np.inf], margin[order][last_of_ties]])
    return SeenUnseenCurve(bonus, unseen, seen_part)


def ausuc(scores: ArrayLike, y_true: ArrayLike, candidates: ArrayLike, seen: ArrayLike) -> float:
    """The area under the seen-unseen curve."""
    return seen_unseen_curve(scores, y_true, candidates, seen).area


@dataclass(frozen=True)
class Bin:
    """The images whose confidence is above ``lower`` and at most ``upper``."""

    lower: float
    upper: float
    images: int
    confidence: float  # their mean
    accuracy: float  # the share of them that is right


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy, for the bins that hold images."""

    bins: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """The expected calibration error (Guo et al., ICML 2017, Eq. 3): the mean gap of the bins, weighted by images."""
        gaps = sum(part.images * abs(part.accuracy - part.confidence) for part in self.bins)
        return gaps / sum(part.images for part in self.bins)


def reliability(confidence: ArrayLike, right: ArrayLike, n_bins: int = 10) -> Reliability:
    """Sort images into ``n_bins`` bins of confidence, equally wide between 0 and 1.

    ``confidence`` (n,) is that of the answers, ``right`` (n,) says which of them are.
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right)
    if not len(confidence):
        raise DataError("there are no images to measure confidence on. Ask the model about at least one.")
    edges = np.arange(n_bins + 1) / n_bins
    place = np.digitize(confidence, edges[1:-1], right=True)  # (n,)
    bins = []
    for number in np.unique(place).tolist():
        inside = place == number
        numbers = float(confidence[inside].mean()), float(right[inside].mean())
        bins.append(Bin(float(edges[number]), float(edges[number + 1]), int(inside.sum()), *numbers))
    return Reliability(tuple(bins))


def _best(scores: Floats, labels: NDArray[Any], y_true: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    column = scores.argmax(axis=1)
    return scores[np.arange(len(scores)), column], labels[column] == y_true


def _class_balanced_weights(y_true: NDArray[Any], image_seen: NDArray[np.bool_]) -> Floats:
    """Weights under which a sum over images is a mean over classes, on each side of the seen-unseen divide."""
    labels, position, counts = np.unique(y_true, return_inverse=True, return_counts=True)
    class_seen = np.zeros(len(labels), dtype=bool)
    class_seen[position] = image_seen
    classes_on_side = np.where(class_seen, class_seen.sum(), (~class_seen).sum())
    return np.asarray(1.0 / (counts * classes_on_side)[position])
