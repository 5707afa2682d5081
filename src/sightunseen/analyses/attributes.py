"""Which attributes pull images to a class, asked of the model itself: what if the class had another value of this one?"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.analyses.answers import Answers
from sightunseen.analyses.confusion import Confusion, most_confused
from sightunseen.classes import ClassTable, Vectors
from sightunseen.errors import DataError
from sightunseen.methods import ZeroShotClassifier

MOST_IMAGES = 200  # looked at for one mean
BLOCK = 512  # altered classes asked about at a time: thousands of text dimensions would fill the memory

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Pulls:
    """How the score of ``label`` changes for its value of each attribute, where it could have that of ``other``.

    Above zero, the value pulls images to the class; below, it keeps them away.
    """

    label: Any
    other: Any  # a label; None: the mean of the seen classes
    names: NDArray[np.str_] = field(repr=False)  # (a,) of the attributes
    values: Doubles = field(repr=False)  # (a,) mean change of the score over the images
    own: Doubles = field(repr=False)  # (a,) the attributes of ``label``
    others: Doubles = field(repr=False)  # (a,) and of ``other``

    def strongest(self, most: int) -> NDArray[np.intp]:
        """The places of the attributes that pull or keep away most, strongest first; none that makes no difference."""
        order = np.argsort(-np.abs(self.values), kind="stable")[:most]
        return np.asarray(order[self.values[order] != 0])

    def only(self, places: NDArray[np.intp]) -> "Pulls":
        """Some of the attributes."""
        parts = {name: getattr(self, name)[places] for name in ("names", "values", "own", "others")}
        return replace(self, **parts)


@dataclass(frozen=True)
class Mistake:
    """A frequent confusion and the attributes behind it: ``label`` of the pulls is the wrong class, ``other`` the right one."""

    confusion: Confusion
    pulls: Pulls


def pulls(model: ZeroShotClassifier, X: ArrayLike, label: Any, other: Any = None, names: Sequence[str] | None = None) -> Pulls:
    """How much each attribute of the class ``label`` pulls images (n, d) to it, where its value differs from ``other``'s.

    For attribute j it is the mean over images of score(label) - score(label with attribute j of ``other``), which is 0 where
    the two agree. ``other`` is a label, or None for the mean vector of the seen classes. Of many images the first
    200 are looked at. A method whose classifiers are trained against each other (FCLSWGAN) answers with some noise.
    """
    images = np.asarray(X)[:MOST_IMAGES]
    if not len(images):
        raise DataError(f"there are no images to see what pulls them to '{label}'. Give at least one.")
    table = model.table_
    own = table.vectors_of([label])[0]
    others = table.vectors_of(model.seen_classes_).mean(axis=0) if other is None else table.vectors_of([other])[0]
    # A class that nothing is left of has no description to score.
    left = np.count_nonzero(own) - (own != 0) + (others != 0)  # (a,)
    asked = np.flatnonzero((own != others) & (left > 0))
    values = np.zeros(len(own))
    for start in range(0, len(asked), BLOCK):
        places = asked[start : start + BLOCK]
        altered = np.tile(own, (len(places), 1))  # (k, a), a class each, another in one attribute
        altered[np.arange(len(places)), places] = others[places]
        values[places] = _mean_changes(model, images, own, altered)
    called = np.array(attribute_names(table) if names is None else names, dtype=str)
    return Pulls(label, other, called, values, own, others)


def explained_mistakes(model: ZeroShotClassifier, answers: Answers, X: Any, most: int = 6, strongest: int = 5) -> list[Mistake]:
    """For the most frequent confusions, the attributes that pulled just those images (of X, (n, d)) to the wrong class.

    Every one comes with its ``strongest`` attributes, strongest first.
    """
    found = []
    for confusion in most_confused(answers, most):
        rows = np.flatnonzero((answers.known_truth == confusion.truth) & (answers.best == confusion.predicted))
        pull = pulls(model, X[rows[:MOST_IMAGES]], confusion.predicted, confusion.truth)
        found.append(Mistake(confusion, pull.only(pull.strongest(strongest))))
    return found


def has_names(table: ClassTable) -> bool:
    """Whether the attributes have names of their own."""
    return table.attribute_names is not None


def attribute_names(table: ClassTable) -> tuple[str, ...]:
    """The names of the a attributes; ``attribute 1`` and so on where they have none."""
    return table.attribute_names or tuple(f"attribute {number + 1}" for number in range(table.vectors.shape[1]))


def _mean_changes(model: ZeroShotClassifier, X: NDArray[Any], own: Vectors, altered: Vectors) -> Doubles:
    """The mean over images of score(class with ``own`` (a,)) - score(class with each of ``altered`` (k, a)): (k,)."""
    labels = model.table_.fresh_labels(len(altered) + 1)
    asked = copy.deepcopy(model).add_classes(ClassTable(labels, np.concatenate([own[None], altered])))
    # The class itself is asked as an added one, too: no penalty on seen classes, and nothing that a method has learned of
    # just this class besides its vector, is then part of the difference.
    scores = asked.decision_function(X, labels).astype(np.float64)  # (n, k + 1)
    return np.asarray((scores[:, :1] - scores[:, 1:]).mean(axis=0))
