"""Contributions of attributes and words to a score difference, over several images, for every method."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Confusion, most_confused
from sightunseen.analysis.occlusion import DescriptionOcclusion
from sightunseen.analysis.pairs import attribute_names, mean_of_seen, pair_attribution, phrase
from sightunseen.analysis.path_attribution import PathAttribution
from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError
from sightunseen.methods import ZeroShotClassifier

MOST_IMAGES = 200  # images per explained mistake


@dataclass(frozen=True)
class Contributions:
    """Contributions of attributes, or of words of descriptions, to the score of ``label`` relative to ``other``.

    A positive contribution raises the score of ``label``, a negative one lowers it. Those of all attributes of an image sum to
    its total; those of words need not.

    Parameters
    ----------
    label : label
        The class that is explained.
    other : label or None
        The reference class; None for the mean of the seen classes.
    names : ndarray of shape (a,)
        Names of the attributes; words in quotation marks.
    values : ndarray of shape (n, a)
        Contributions per image and attribute.
    totals : ndarray of shape (n,)
        Score of ``label`` minus score of ``other``, without seen-class bias.
    own, others : ndarray of shape (a,)
        Values of the attributes for ``label`` and ``other``; 1 or 0 for words that a description has or lacks.
    usual : ndarray of shape (a,), default=None
        Means over the seen classes; NaN for words.
    """

    label: Any
    other: Any
    names: NDArray[np.str_] = field(repr=False)
    values: Doubles = field(repr=False)
    totals: Doubles = field(repr=False)
    own: Doubles = field(repr=False)
    others: Doubles = field(repr=False)
    usual: Doubles | None = field(default=None, repr=False)

    @property
    def phrases(self) -> list[str]:
        """What ``label`` has or lacks, compared with ``other``; see :func:`~sightunseen.analysis.pairs.phrase`."""
        usual = [None] * len(self.names) if self.usual is None else [None if np.isnan(u) else u for u in self.usual.tolist()]
        rows = zip(self.names.tolist(), self.own.tolist(), self.others.tolist(), usual, strict=True)
        return [phrase(*row) for row in rows]

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
        wanted = [name for name in ("names", "values", "own", "others", "usual") if getattr(self, name) is not None]
        parts = {name: getattr(self, name)[..., indices] for name in wanted}
        return replace(self, **parts)


@dataclass(frozen=True)
class Mistake:
    """A frequent confusion and the attributes or words that explain it.

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
    own, usual = table.vectors_of([label])[0], mean_of_seen(model)
    others = usual if other is None else table.vectors_of([other])[0]
    values, totals = PathAttribution(model, others, own)(images)
    attributes = np.array(attribute_names(table) if names is None else names, dtype=str)
    return Contributions(label, other, attributes, values, totals, own, others, usual)


def pair_contributions(
    model: ZeroShotClassifier, X: ArrayLike, label: Any, other: Any, occlusion: DescriptionOcclusion | None = None
) -> Contributions:
    """Compute the contributions of attributes and words to the score of a class relative to another one.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    X : array-like of shape (n, d)
        Features of the images.
    label, other : label
        The class to explain and the reference class.
    occlusion : DescriptionOcclusion, default=None
        Occlusion of the descriptions of this model, which caches them.

    Returns
    -------
    Contributions
        Contributions of the attributes that differ, and of the words of both descriptions.

    Raises
    ------
    DataError
        If a class is not in the model's class table.
    """
    attribution = pair_attribution(model, label, other, occlusion)
    values, totals = attribution(X)
    rows = [(part.value, part.other, np.nan if part.usual is None else part.usual) for part in attribution.parts]
    own, others, usual = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    names = [f"“{part.name}”" if part.usual is None else part.name for part in attribution.parts]
    return Contributions(label, other, np.array(names, dtype=str), values, totals, own, others, usual)


def explained_mistakes(model: ZeroShotClassifier, answers: Answers, X: Any, top: int = 6, strongest: int = 5) -> list[Mistake]:
    """Explain the most frequent confusions by attributes, and by words of the descriptions if they are stored with the model.

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
        Maximum number of attributes and words per confusion.

    Returns
    -------
    list of Mistake
        The most frequent confusions first. Contributions are those of the confused images only, for the attributes and words
        with the largest absolute mean.

    Raises
    ------
    DataError
        If the true labels are not known.
    """
    found, occlusion = [], DescriptionOcclusion(model.table_)
    for confusion in most_confused(answers, top):
        rows = np.flatnonzero((answers.known_truth == confusion.truth) & (answers.predicted == confusion.predicted))
        parts = pair_contributions(model, X[rows[:MOST_IMAGES]], confusion.predicted, confusion.truth, occlusion)
        found.append(Mistake(confusion, parts.only(parts.strongest(strongest))))
    return found
