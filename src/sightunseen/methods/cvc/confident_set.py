"""Confident set of Algorithm 2: unlabelled images whose pseudo-labels are used for training (Eq. 5)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PEAKINESS = ("probability", "score", "magnitude")


@dataclass(frozen=True)
class Pool:
    """Confident set: unlabelled images with their pseudo-labels.

    Parameters
    ----------
    rows : ndarray of shape (p,)
        Indices of unlabelled images.
    labels : ndarray of shape (p,)
        Pseudo-labels: indices of unseen classes.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]


def trusted_pool(
    scores: NDArray[Any], peakiness: str, threshold: float, best_per_class: int = 0, concatenated: bool = False
) -> Pool:
    """Select the confident set: images that pass the ratio test of Eq. 5, and the highest-scoring images of every class.

    Parameters
    ----------
    scores : ndarray of shape (n, u)
        Scores of the unlabelled images for the unseen classes (Eq. 2, before the softmax).
    peakiness : {"probability", "score", "magnitude"}
        Quantity whose ratio is tested; see :class:`~sightunseen.methods.cvc.transductive.Adaptation`.
    threshold : float
        Ratio that has to be exceeded (γ).
    best_per_class : int, default=0
        Number of images with the highest scores of every class that are added.
    concatenated : bool, default=False
        Whether the images that pass the test and the best of every class are concatenated. An image is then in the set once
        for each time it was selected, also with different labels. Otherwise an image has one label: its best class if it
        passes the test, else the one with the highest score among the classes that selected it.

    Returns
    -------
    Pool
        The confident set.

    Examples
    --------
    >>> scores = np.array([[3.0, 1.0], [1.2, 1.1], [0.0, 0.9]])
    >>> pool = trusted_pool(scores, "score", 1.5, best_per_class=1)
    >>> pool.rows.tolist(), pool.labels.tolist()
    ([0, 1, 2], [0, 1, 1])
    >>> pool = trusted_pool(scores, "score", 1.5, best_per_class=1, concatenated=True)
    >>> pool.rows.tolist(), pool.labels.tolist()
    ([0, 2, 0, 1], [0, 1, 0, 1])
    """
    passed, labels = _passes_ratio(scores, peakiness, threshold), scores.argmax(axis=1)
    k = min(best_per_class, len(scores))
    best = np.argpartition(-scores, k - 1, axis=0)[:k] if k else np.empty((0, scores.shape[1]), dtype=np.int64)  # (k, u)
    if concatenated:
        rows = np.flatnonzero(passed)
        classes = np.repeat(np.arange(scores.shape[1]), k)
        return Pool(np.concatenate([rows, best.T.ravel()]), np.concatenate([labels[rows], classes]))
    selecting = np.full(scores.shape, -np.inf)  # scores for the classes that selected an image
    np.put_along_axis(selecting, best, np.take_along_axis(scores, best, axis=0), axis=0)
    selected = np.isfinite(selecting).any(axis=1)
    added = selected & ~passed
    labels[added] = selecting[added].argmax(axis=1)
    rows = np.flatnonzero(passed | selected)
    return Pool(rows, labels[rows])


def _passes_ratio(scores: NDArray[Any], peakiness: str, threshold: float) -> NDArray[np.bool_]:
    """Test whether the ratio of the two largest values exceeds the threshold, for each image; a single class passes."""
    n, unseen = scores.shape
    if unseen == 1:
        return np.ones(n, dtype=bool)
    second, first = np.partition(scores, unseen - 2, axis=1)[:, -2:].T
    if peakiness == "probability":
        # The ratio of probabilities is exp(first - second): the denominator of the softmax cancels.
        return np.asarray(first - second > np.log(threshold))
    if peakiness == "score":
        # A ratio of scores is only meaningful for positive scores; a second score below zero counts as zero.
        return np.asarray((first > 0) & (first > threshold * np.maximum(second, 0)))
    small, large = np.sort(np.abs([first, second]), axis=0)
    return np.asarray(large > threshold * small)
