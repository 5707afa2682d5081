"""Confusions between classes, and the shares of images of unseen classes that are predicted as seen classes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist
from sklearn.preprocessing import normalize

from sightunseen.analysis.answers import Answers


@dataclass(frozen=True)
class Confusion:
    """Images of one class for which another class is predicted.

    Parameters
    ----------
    truth, predicted : label
        True and predicted class.
    images : int
        Number of images.
    share : float
        Share of the true class's images.
    """

    truth: Any
    predicted: Any
    images: int
    share: float


@dataclass(frozen=True)
class Destination:
    """Predictions for the images of one unseen class, as three shares that sum to one.

    Parameters
    ----------
    label : label
        The unseen class.
    images : int
        Number of its images.
    correct, unseen, seen : float
        Shares predicted correctly, as another unseen class, and as a seen class.
    """

    label: Any
    images: int
    correct: float
    unseen: float
    seen: float


def confusion_matrix(answers: Answers, labels: ArrayLike) -> NDArray[np.int64]:
    """Count images by true and predicted label.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    labels : array-like of shape (t,)
        True labels, one per row of the matrix.

    Returns
    -------
    ndarray of shape (t, c)
        Number of images; the columns are ``answers.labels``.

    Raises
    ------
    DataError
        If the true labels are not known.
    """
    counts = _pairs(answers)
    rows, columns = np.asarray(labels).tolist(), answers.labels.tolist()
    found = [counts[truth, predicted] for truth in rows for predicted in columns]
    return np.array(found, dtype=np.int64).reshape(len(rows), len(columns))


def similarity_order(vectors: ArrayLike) -> NDArray[np.intp]:
    """Order classes so that similar ones are adjacent.

    The order is that of the leaves of an average-linkage clustering by cosine distance, with optimal leaf ordering.

    Parameters
    ----------
    vectors : array-like of shape (c, a)
        Class vectors.

    Returns
    -------
    ndarray of shape (c,)
        Indices of the classes.
    """
    directions = normalize(np.asarray(vectors, dtype=np.float64))
    if len(directions) == 1:
        return np.zeros(1, dtype=np.intp)
    # For unit vectors this equals 1 - cosine; unlike it, it is also defined for a zero vector.
    distances = pdist(directions, "sqeuclidean") / 2
    return leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances)).astype(np.intp)


def most_confused(answers: Answers, top: int = 15) -> list[Confusion]:
    """Find the pairs of classes that are confused most often.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    top : int, default=15
        Maximum number of pairs.

    Returns
    -------
    list of Confusion
        Sorted by number of images, then share, both descending, then by label.

    Raises
    ------
    DataError
        If the true labels are not known.

    Examples
    --------
    >>> scores = np.array([[2, 0], [0, 1], [0, 1]], dtype=np.float32)
    >>> names, truth = np.array(["1", "2", "3"]), np.array(["owl", "owl", "emu"])
    >>> most_confused(Answers(np.array(["owl", "emu"]), scores, names, truth))
    [Confusion(truth='owl', predicted='emu', images=1, share=0.5)]
    """
    return _confusions(answers, top, lambda truth, predicted: truth != predicted)


def leaks(answers: Answers, seen: ArrayLike, top: int = 15) -> list[Confusion]:
    """Find the pairs of an unseen true class and a seen predicted class with most images.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    seen : array-like
        Seen classes.
    top : int, default=15
        Maximum number of pairs.

    Returns
    -------
    list of Confusion
        Sorted as by :func:`most_confused`.

    Raises
    ------
    DataError
        If the true labels are not known.
    """
    known = set(np.asarray(seen).tolist())
    return _confusions(answers, top, lambda truth, predicted: truth not in known and predicted in known)


def destinations(answers: Answers, seen: ArrayLike) -> list[Destination]:
    """Compute, per unseen class, the shares of correct predictions and of seen and other unseen classes.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    seen : array-like
        Seen classes.

    Returns
    -------
    list of Destination
        One per unseen class among the true labels, by descending share of seen classes, then by label.

    Raises
    ------
    DataError
        If the true labels are not known.
    """
    known = set(np.asarray(seen).tolist())
    correct, leaked = Counter[Any](), Counter[Any]()
    for (truth, predicted), images in _pairs(answers).items():
        correct[truth] += images * (truth == predicted)
        leaked[truth] += images * (predicted in known)
    found = []
    for label, images in Counter(answers.known_truth.tolist()).items():
        if label not in known:
            others = images - correct[label] - leaked[label]
            found.append(Destination(label, images, correct[label] / images, others / images, leaked[label] / images))
    return sorted(found, key=lambda destination: (-destination.seen, destination.label))


def _confusions(answers: Answers, top: int, wanted: Callable[[Any, Any], bool]) -> list[Confusion]:
    total = Counter(answers.known_truth.tolist())
    found = [
        Confusion(truth, predicted, images, images / total[truth])
        for (truth, predicted), images in _pairs(answers).items()
        if wanted(truth, predicted)
    ]
    return sorted(found, key=lambda pair: (-pair.images, -pair.share, pair.truth, pair.predicted))[:top]


def _pairs(answers: Answers) -> Counter[tuple[Any, Any]]:
    """Numbers of images by (true label, predicted label)."""
    return Counter(zip(answers.known_truth.tolist(), answers.predicted.tolist(), strict=True))
