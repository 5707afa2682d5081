"""Contribution of each attribute to the score of a class, for every method; contributions sum to a score difference."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Confusion, most_confused
from sightunseen.analysis.path_attribution import PathAttribution
from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError
from sightunseen.methods import ZeroShotClassifier

MOST_IMAGES = 200  # images per explained mistake


@dataclass(frozen=True)
class Contributions:
    """Contributions of the attributes to the score of ``label`` relative to ``other``.

    A positive contribution raises the score of ``label``, a negative one lowers it. Those of one image sum to its total.

    Parameters
    ----------
    label : label
        The class that is explained.
    other : label or None
        The reference class; None for the mean of the seen classes.
    names : ndarray of shape (a,)
        Names of the attributes.
    values : ndarray of shape (n, a)
        Contributions per image and attribute.
    totals : ndarray of shape (n,)
        Score of ``label`` minus score of ``other``, without seen-class bias.
    own, others : ndarray of shape (a,)
        Class vectors of ``label`` and ``other``.
    """

    label: Any
    other: Any
    names: NDArray[np.str_] = field(repr=False)
    values: Doubles = field(repr=False)
    totals: Doubles = field(repr=False)
    own: Doubles = field(repr=False)
    others: Doubles = field(repr=False)

    @property
    def mean(self) -> Doubles:
        """Mean contribution of each attribute over the images, shape (a,)."""
        return np.asarray(self.values.mean(axis=0))

    def strongest(self, top: int) -> NDArray[np.intp]:
        """Indices of at most ``top`` attributes by descending absolute mean contribution, without zero contributions."""
        mean = self.mean
        order = np.argsort(-np.abs(mean), kind="stable")[:top]
        return np.asarray(order[mean[order] != 0])

    def only(self, indices: NDArray[np.intp]) -> "Contributions":
        """Restrict to some attributes, by index; ``totals`` still include all attributes."""
        parts = {name: getattr(self, name)[..., indices] for name in ("names", "values", "own", "others")}
        return replace(self, **parts)


@dataclass(frozen=True)
class Mistake:
    """A frequent confusion and the attributes that explain it.

    Parameters
    ----------
    confusion : Confusion
        True class, predicted class and number of images.
    contributions : Contributions
        Contributions in these images to the score of the predicted class relative to the true class.
    """

    confusion: Confusion
    contributions: Contributions


def contributions(
    model: ZeroShotClassifier, X: ArrayLike, label: Any, other: Any = None, names: Sequence[str] | None = None
) -> Contributions:
    """Compute the contribution of each attribute to the score of a class.

    For each image the contributions sum to score(label) - score(other), without seen-class bias; an attribute with the same
    value in both vectors contributes zero. See :class:`~sightunseen.analysis.path_attribution.PathAttribution` for the
    algorithm. Methods that train the classifiers of all classes jointly give slightly noisy contributions.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    X : array-like of shape (n, d)
        Features of the images.
    label : label
        The class to explain.
    other : label, default=None
        The reference class; by default the mean vector of the seen classes.
    names : sequence of str, default=None
        Names of the attributes; by default those of the model's class table.

    Returns
    -------
    Contributions
        Contributions per image and attribute.

    Raises
    ------
    DataError
        If there are no images, or a class is not in the model's class table.

    Examples
    --------
    >>> from sightunseen.methods import ESZSL
    >>> X, y = np.eye(4), ["owl", "emu", "owl", "emu"]
    >>> model = ESZSL().fit(X, y, {"owl": [1, 0, 1], "emu": [0, 1, 1], "kea": [1, 1, 0]})
    >>> found = contributions(model, X, "kea", "owl", names=["wings", "legs", "beak"])
    >>> found.values.shape, np.allclose(found.values.sum(axis=1), found.totals)
    ((4, 3), True)
    """
    images = np.asarray(X)
    if not len(images):
        raise DataError(
            f"the contributions to the score of '{label}' need images, and there are no images in X. Give at least one."
        )
    table = model.table_
    own = table.vectors_of([label])[0]
    others = mean_of_seen(model) if other is None else table.vectors_of([other])[0]
    values, totals = PathAttribution(model, others, own)(images)
    attributes = np.array(attribute_names(table) if names is None else names, dtype=str)
    return Contributions(label, other, attributes, values, totals, own, others)


def mean_of_seen(model: ZeroShotClassifier) -> Vectors:
    """Mean vector of the seen classes, shape (a,).

    Means that are zero up to rounding are set to zero.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.

    Returns
    -------
    ndarray of shape (a,)
        The mean vector.
    """
    vectors = model.table_.vectors_of(model.seen_classes_)
    mean = vectors.mean(axis=0)
    return np.where(np.abs(mean) > 1e-12 * np.abs(vectors).max(axis=0), mean, 0.0)


def explained_mistakes(model: ZeroShotClassifier, answers: Answers, X: Any, top: int = 6, strongest: int = 5) -> list[Mistake]:
    """Explain the most frequent confusions by attributes.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    answers : Answers
        Its predictions for ``X``, with true labels.
    X : array of shape (n, d)
        Features of the images.
    top : int, default=6
        Maximum number of confusions.
    strongest : int, default=5
        Maximum number of attributes per confusion.

    Returns
    -------
    list of Mistake
        The most frequent confusions first. Contributions are those of the confused images only, for the attributes with the
        largest absolute mean.

    Raises
    ------
    DataError
        If the true labels are not known.
    """
    found = []
    for confusion in most_confused(answers, top):
        rows = np.flatnonzero((answers.known_truth == confusion.truth) & (answers.predicted == confusion.predicted))
        parts = contributions(model, X[rows[:MOST_IMAGES]], confusion.predicted, confusion.truth)
        found.append(Mistake(confusion, parts.only(parts.strongest(strongest))))
    return found


def attribute_names(table: ClassTable) -> tuple[str, ...]:
    """Names of the attributes in use, shape (a,); ``attribute 1``, ``attribute 2`` ... if they have no names."""
    return table.attribute_names or tuple(f"attribute {number + 1}" for number in range(table.vectors.shape[1]))
