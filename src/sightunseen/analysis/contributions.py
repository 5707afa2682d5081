"""What each attribute contributes to the score of a class: shares that add up, for every image and for every method."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Confusion, most_confused
from sightunseen.analysis.path_attribution import Doubles, Walk
from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError
from sightunseen.methods import ZeroShotClassifier

MOST_IMAGES = 200  # looked at for one mistake


@dataclass(frozen=True)
class Contributions:
    """What the value of each attribute adds to the score of ``label``, counted from the score of ``other``.

    Above zero the value speaks for the class, below against it. The values of an image sum to its total.
    """

    label: Any
    other: Any  # a label; None: the mean of the seen classes
    names: NDArray[np.str_] = field(repr=False)  # (a,) of the attributes
    values: Doubles = field(repr=False)  # (n, a)
    totals: Doubles = field(repr=False)  # (n,) score of label - score of other, penalties aside
    own: Doubles = field(repr=False)  # (a,) the attributes of ``label``
    others: Doubles = field(repr=False)  # (a,) and of ``other``

    @property
    def mean(self) -> Doubles:
        """Of each attribute over the images, (a,)."""
        return np.asarray(self.values.mean(axis=0))

    def strongest(self, most: int) -> NDArray[np.intp]:
        """The places of the attributes that contribute most on average, strongest first; none that makes no difference."""
        mean = self.mean
        order = np.argsort(-np.abs(mean), kind="stable")[:most]
        return np.asarray(order[mean[order] != 0])

    def only(self, places: NDArray[np.intp]) -> "Contributions":
        """Some of the attributes; the totals stay those of all."""
        parts = {name: getattr(self, name)[..., places] for name in ("names", "values", "own", "others")}
        return replace(self, **parts)


@dataclass(frozen=True)
class Mistake:
    """A frequent confusion and the attributes behind it: their ``label`` is the wrong class, their ``other`` the right one."""

    confusion: Confusion
    contributions: Contributions


def contributions(
    model: ZeroShotClassifier, X: ArrayLike, label: Any, other: Any = None, names: Sequence[str] | None = None
) -> Contributions:
    """What each attribute of the class ``label`` contributes to its score for images (n, d), counted from ``other``.

    The contributions of an image sum to score(label) - score(other) exactly; an attribute in which the two agree has none.
    ``other`` is a label, or None for the mean vector of the seen classes.
    :class:`~sightunseen.analysis.path_attribution.Walk` says how they are found, and that the scores are of the vectors
    alone, without any penalty. A method whose classifiers are trained against each other answers with some noise.
    """
    images = np.asarray(X)
    if not len(images):
        raise DataError(f"there are no images to see what speaks for '{label}'. Give at least one.")
    table = model.table_
    own = table.vectors_of([label])[0]
    others = mean_of_seen(model) if other is None else table.vectors_of([other])[0]
    values, totals = Walk(model, others, own)(images)
    called = np.array(attribute_names(table) if names is None else names, dtype=str)
    return Contributions(label, other, called, values, totals, own, others)


def mean_of_seen(model: ZeroShotClassifier) -> Vectors:
    """The mean vector of the seen classes, (a,); attributes that cancel out but for rounding are zero."""
    vectors = model.table_.vectors_of(model.seen_classes_)
    mean = vectors.mean(axis=0)
    return np.where(np.abs(mean) > 1e-12 * np.abs(vectors).max(axis=0), mean, 0.0)


def explained_mistakes(model: ZeroShotClassifier, answers: Answers, X: Any, most: int = 6, strongest: int = 5) -> list[Mistake]:
    """For the most frequent confusions, what attributes contributed to the wrong class's lead in just those images of X (n, d).

    Every one comes with its ``strongest`` attributes, strongest first.
    """
    found = []
    for confusion in most_confused(answers, most):
        rows = np.flatnonzero((answers.known_truth == confusion.truth) & (answers.best == confusion.predicted))
        parts = contributions(model, X[rows[:MOST_IMAGES]], confusion.predicted, confusion.truth)
        found.append(Mistake(confusion, parts.only(parts.strongest(strongest))))
    return found


def has_names(table: ClassTable) -> bool:
    """Whether the attributes have names of their own."""
    return table.attribute_names is not None


def attribute_names(table: ClassTable) -> tuple[str, ...]:
    """The names of the a attributes; ``attribute 1`` and so on where they have none."""
    return table.attribute_names or tuple(f"attribute {number + 1}" for number in range(table.vectors.shape[1]))
