"""Attribution of the score difference of two classes to attributes and to words of their descriptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.analysis.occlusion import NOTHING, DescriptionOcclusion, Occluded
from sightunseen.analysis.path_attribution import PathAttribution, with_points
from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.names import readable_attribute
from sightunseen.methods import ZeroShotClassifier
from sightunseen.semantics.class_vectors import attribute_count


@dataclass(frozen=True)
class Part:
    """An attribute, or words of a description, in the comparison of a class with another one.

    Parameters
    ----------
    name : str
        Name of the attribute, or the words.
    value, other : float
        Value of the attribute for the class and for the other class. Of words: 1 if they are in the description, 0 if not.
    usual : float or None
        Mean value of the attribute over the seen classes; None for words.
    """

    name: str
    value: float
    other: float
    usual: float | None = None

    @property
    def phrase(self) -> str:
        """What the class has or lacks, in words: ``jungle`` or ``not jungle``; see :func:`phrase`."""
        name = f"“{self.name}”" if self.usual is None else self.name
        return phrase(name, self.value, self.other, self.usual)


class PairAttribution:
    """Attribution of score(class) - score(other class) to attributes and to words of both descriptions.

    Attributes are attributed along a path between the two class vectors, see
    :class:`~sightunseen.analysis.path_attribution.PathAttribution`: their contributions, with those of the dimensions of a text
    embedding, sum to the score difference. Words are attributed by occlusion: the contribution of a word is the change of the
    score difference when the word is left out of both descriptions. The contributions of words need not sum to the difference.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    own, others : ndarray of shape (a,)
        Class vectors of the class and of the other class.
    own_words, other_words : Occluded, optional
        Occluded descriptions of both classes. By default, no words are attributed.

    Attributes
    ----------
    parts : list of Part
        The p attributes and words.
    """

    def __init__(
        self,
        model: ZeroShotClassifier,
        own: Vectors,
        others: Vectors,
        own_words: Occluded = NOTHING,
        other_words: Occluded = NOTHING,
    ) -> None:
        count, usual = speaking_attributes(model.table_), mean_of_seen(model)
        self._columns = np.flatnonzero(own[:count] != others[:count])
        self._path = PathAttribution(model, others, own) if count else None
        rows = zip(self._columns.tolist(), *(array[self._columns].tolist() for array in (own, others, usual)), strict=True)
        names = attribute_names(model.table_)
        self.parts = [Part(names[k], *values) for k, *values in rows]
        both = (own_words, other_words)
        described = [{unit.casefold(): unit for unit in found.units} for found in both]
        words = {**described[1], **described[0]}
        self.parts += [Part(unit, float(key in described[0]), float(key in described[1])) for key, unit in words.items()]
        # Rows of the points: the class, the other class, then each occluded description.
        index = {key: k for k, key in enumerate(words)}
        self._changed = np.array([index[unit.casefold()] for found in both for unit in found.units], dtype=np.intp)
        self._first_words = len(own_words.units)
        texts = [found.vectors for found in both if found.units]
        self._scorer: Any = None
        if texts or self._path is None:
            scored, labels = with_points(model, np.concatenate([own[None], others[None], *texts]))
            self._scorer = scored.scorer(labels)

    def __call__(self, X: ArrayLike) -> tuple[Doubles, Doubles]:
        """Compute the contributions for images.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.

        Returns
        -------
        values : ndarray of shape (n, p)
            Contribution of each attribute and word.
        totals : ndarray of shape (n,)
            Score of the class minus score of the other class, by their vectors alone: without seen-class bias and without what
            the method learned about a single class.
        """
        images = np.asarray(X)
        values = np.zeros((len(images), len(self.parts)))
        totals = np.zeros(len(images))
        if self._path is not None:
            found, totals = self._path(images)
            values[:, : len(self._columns)] = found[:, self._columns]
        if self._scorer is not None:
            scores = np.asarray(self._scorer(images), dtype=np.float64)
            totals = scores[:, 0] - scores[:, 1] if self._path is None else totals
            own = slice(2, 2 + self._first_words)
            effects = np.hstack([scores[:, :1] - scores[:, own], scores[:, own.stop :] - scores[:, 1:2]])
            np.add.at(values[:, len(self._columns) :].T, self._changed, effects.T)
        return values, totals


def phrase(name: str, value: float, other: float, usual: float | None = None) -> str:
    """Say whether a class has or lacks an attribute, compared with another class.

    A class lacks an attribute if its value is below that of the other class. It does "not" have it if the value is not above
    the mean of the seen classes either; otherwise it has "less" of it. Likewise a class has "more" of an attribute if its value
    is above that of the other class and below the mean. With a positive contribution, the phrase speaks for the class.

    Parameters
    ----------
    name : str
        Name of the attribute.
    value, other : float
        Its value for the class, and for the other class.
    usual : float, optional
        Its mean over the seen classes.

    Returns
    -------
    str
        The name, or "not", "less" or "more" and the name.

    Examples
    --------
    >>> phrase("jungle", 0.1, 0.9, 0.3), phrase("jungle", 0.5, 0.9, 0.3), phrase("has_stripes", 0.9, 0.1, 0.3)
    ('not jungle', 'less jungle', 'stripes')
    """
    if value < other:
        sign = "not " if usual is None or value <= usual else "less "
    else:
        sign = "" if usual is None or value >= usual else "more "
    return sign + readable_attribute(name)


def shortened(phrase: str, most: int = 60) -> str:
    """Cut a phrase, which can be a long sentence of a description.

    Parameters
    ----------
    phrase : str
        The phrase.
    most : int, default=60
        Largest number of characters.

    Returns
    -------
    str
        The phrase, or its beginning and an ellipsis.

    Examples
    --------
    >>> shortened("not “an animal with striped legs”", 21)
    'not “an animal with…”'
    """
    if len(phrase) <= most:
        return phrase
    end = "…”" if phrase.endswith("”") else "…"
    return phrase[: most - len(end)].rstrip() + end


def pair_attribution(
    model: ZeroShotClassifier, label: Any, other: Any, occlusion: DescriptionOcclusion | None = None
) -> PairAttribution:
    """Attribution of the score difference of two classes of a model.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    label, other : label
        The class and the other class.
    occlusion : DescriptionOcclusion, optional
        Occlusion of the descriptions of this model. By default a new one.

    Returns
    -------
    PairAttribution
        The attribution.

    Raises
    ------
    DataError
        If a class is not in the model's class table.
    """
    occluded = DescriptionOcclusion(model.table_) if occlusion is None else occlusion
    own, others = model.table_.vectors_of([label, other])
    return PairAttribution(model, own, others, *(occluded(model.table_, one) for one in (label, other)))


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


def attribute_names(table: ClassTable) -> Sequence[str]:
    """Names of the attributes in use, shape (a,); ``attribute 1``, ``attribute 2`` ... if they have no names."""
    return table.attribute_names or tuple(f"attribute {number + 1}" for number in range(table.vectors.shape[1]))


def speaking_attributes(table: ClassTable) -> int:
    """Number of interpretable attributes of a table.

    They come first among the columns. Dimensions of text embeddings and of one-hot vectors are not interpretable.

    Parameters
    ----------
    table : ClassTable
        A class table.

    Returns
    -------
    int
        Number of leading columns that are attributes.
    """
    return 0 if table.use == "one-hot" else attribute_count(table)
