"""Which classes a model takes for which, and where the images of unseen classes go."""

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
    """Images of one class that were taken for another."""

    truth: Any
    predicted: Any
    images: int
    share: float  # of the true class's images


@dataclass(frozen=True)
class Destination:
    """Where the images of an unseen class went: three shares that sum to one."""

    label: Any
    images: int
    right: float
    unseen: float  # to another unseen class
    seen: float  # leaked into seen classes


def confusion_matrix(answers: Answers, labels: ArrayLike) -> NDArray[np.int64]:
    """Numbers of images (t, c), by true label (rows: ``labels``) and predicted label (columns: ``answers.labels``)."""
    found = _pairs(answers)
    truths, predictions = np.asarray(labels).tolist(), answers.labels.tolist()
    counts = [found[truth, predicted] for truth in truths for predicted in predictions]
    return np.array(counts, dtype=np.int64).reshape(len(truths), len(predictions))


def alike_side_by_side(vectors: ArrayLike) -> NDArray[np.intp]:
    """An order (c,) of classes in which those with similar vectors (c, a) stand side by side.

    The leaves of a hierarchical clustering by cosine, ordered so that the distances of neighbours sum to the least.
    """
    directions = normalize(np.asarray(vectors, dtype=np.float64))
    if len(directions) == 1:
        return np.zeros(1, dtype=np.intp)
    # Between unit vectors it is 1 - cosine; unlike that, it is also defined for a vector of zeros.
    distances = pdist(directions, "sqeuclidean") / 2
    return leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances)).astype(np.intp)


def most_confused(answers: Answers, most: int = 15) -> list[Confusion]:
    """The pairs of classes that most images were confused between, by number of images, then share, then label."""
    return _confusions(answers, most, lambda truth, predicted: truth != predicted)


def leaks(answers: Answers, seen: ArrayLike, most: int = 15) -> list[Confusion]:
    """The pairs of an unseen and a seen class through which most images leak, in the order of ``most_confused``."""
    known = set(np.asarray(seen).tolist())
    return _confusions(answers, most, lambda truth, predicted: truth not in known and predicted in known)


def destinations(answers: Answers, seen: ArrayLike) -> list[Destination]:
    """Where the images of each unseen class among the true labels went; the class that leaks most comes first."""
    known = set(np.asarray(seen).tolist())
    total = _totals(answers)
    right, leaked = Counter[Any](), Counter[Any]()
    for (truth, predicted), images in _pairs(answers).items():
        right[truth] += images * (truth == predicted)
        leaked[truth] += images * (predicted in known)
    found = [
        Destination(
            label, images, right[label] / images, (images - right[label] - leaked[label]) / images, leaked[label] / images
        )
        for label, images in total.items()
        if label not in known
    ]
    return sorted(found, key=lambda destination: (-destination.seen, destination.label))


def _confusions(answers: Answers, most: int, wanted: Callable[[Any, Any], bool]) -> list[Confusion]:
    total = _totals(answers)
    found = [
        Confusion(truth, predicted, images, images / total[truth])
        for (truth, predicted), images in _pairs(answers).items()
        if wanted(truth, predicted)
    ]
    return sorted(found, key=lambda pair: (-pair.images, -pair.share, pair.truth, pair.predicted))[:most]


def _pairs(answers: Answers) -> Counter[tuple[Any, Any]]:
    """Numbers of images by true and predicted label."""
    return Counter(zip(answers.known_truth.tolist(), answers.best.tolist(), strict=True))


def _totals(answers: Answers) -> Counter[Any]:
    return Counter(answers.known_truth.tolist())
