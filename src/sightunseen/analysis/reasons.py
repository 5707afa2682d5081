"""Reasons for single predictions: why the best class has a higher score than the second-best one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.analysis.occlusion import NOTHING, DescriptionOcclusion, Occluded
from sightunseen.analysis.pairs import PairAttribution, Part, speaking_attributes
from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier

CACHE_BYTES = 2**28  # approximate size of the attributions that an Explainer keeps


@dataclass(frozen=True)
class Reason(Part):
    """Contribution of an attribute, or of words of a description, to the lead of the best class.

    Parameters
    ----------
    name, value, other, usual
        The attribute or the words; see :class:`~sightunseen.analysis.pairs.Part`.
    contribution : float
        Contribution to the score difference: positive if it speaks for the best class.
    """

    contribution: float = 0.0


@dataclass(frozen=True)
class Reasons:
    """Reasons why the best class of an image has a higher score than the second-best one.

    All contributions, ``others`` and ``beyond`` sum to ``total``.

    Parameters
    ----------
    speaks_for, speaks_against : tuple of Reason
        The largest positive and the most negative contributions.
    others : float
        Contribution of all that is not listed: other attributes, dimensions of text embeddings, interactions of words.
    beyond : float
        What the method knows of the two classes beyond their vectors: their training images or examples, and the seen-class
        bias.
    total : float
        Score of the best class minus score of the second-best class. It is not negative.
    """

    speaks_for: tuple[Reason, ...] = ()
    speaks_against: tuple[Reason, ...] = ()
    others: float = 0.0
    beyond: float = 0.0
    total: float = 0.0


class Explainer:
    """Reasons for the predictions of a model: why the best class, and not the second-best one.

    The contributions of attributes are integrated along a path between the two class vectors, those of words are found by
    occlusion; see :class:`~sightunseen.analysis.pairs.PairAttribution`. The attributions of the most recently used pairs of
    classes are cached.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    top : int, default=3
        Maximum number of reasons for and of reasons against a class.
    most_texts : int, optional
        Number of texts that a call may encode, about; images whose descriptions come later have no words among their reasons.
        Encoded texts are cached, so that a repeated call gets further. Default: any number.

    Examples
    --------
    >>> from sightunseen.methods import ESZSL
    >>> table = ClassTable(["owl", "emu"], [[1.0, 0.2], [0.0, 0.4]], ["wings", "legs"])
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    >>> model = ESZSL().fit(X, ["owl", "emu", "owl", "emu"], table)
    >>> labels, scores = model.top_classes(X, k=2)
    >>> reasons = Explainer(model, top=2)(X, labels, scores[:, 0] - scores[:, 1])
    >>> [reason.phrase for reason in reasons[0].speaks_for]
    ['wings', 'not legs']
    """

    def __init__(self, model: ZeroShotClassifier, top: int = 3, most_texts: int | None = None) -> None:
        self._model, self._top, self._most_texts = model, top, most_texts
        self._attributes = speaking_attributes(model.table_)
        self._occlusion = DescriptionOcclusion(model.table_)
        self._attribution_of = lru_cache(self._cached())(self._attribution)

    @property
    def speaks(self) -> bool:
        """Whether the model has reasons: interpretable attributes, or descriptions that are stored with it."""
        return self._attributes > 0 or self._occlusion.silence is None

    @property
    def silence(self) -> str | None:
        """Why the model has no reasons; None if it has."""
        if self.speaks:
            return None
        if self._model.table_.use == "one-hot":
            return "its classes have neither attributes nor descriptions"
        return self._occlusion.silence

    def __call__(self, X: Any, labels: ArrayLike, leads: ArrayLike, table: ClassTable | None = None) -> list[Reasons]:
        """Explain the best classes of images.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of shape (n, 2)
            The best and the second-best class of each image.
        leads : array-like of shape (n,)
            Score of the best class minus score of the second-best class.
        table : ClassTable, default=None
            Vectors and descriptions of the classes; by default the model's class table.

        Returns
        -------
        list of Reasons
            One per image.

        Raises
        ------
        DataError
            If a class is not in the table.
        """
        images, pairs, known = np.asarray(X), np.asarray(labels), table or self._model.table_
        wanted, index_of = np.unique(pairs, return_inverse=True)
        vectors, codes = known.vectors_of(wanted), index_of.reshape(pairs.shape)
        names, started = wanted.tolist(), self._occlusion.encoded
        found = [Reasons()] * len(images)
        for first, second in np.unique(codes, axis=0).tolist():
            words = [self._words(known, names[k], started) for k in (first, second)]
            attribution = self._attribution_of(*(vectors[k].tobytes() for k in (first, second)), *words)
            rows = np.flatnonzero((codes == (first, second)).all(axis=1))
            for row, values, total in zip(rows.tolist(), *attribution(images[rows]), strict=True):
                found[row] = self._strongest(attribution.parts, values, float(total), float(np.asarray(leads)[row]))
        return found

    def _words(self, table: ClassTable, label: Any, started: int) -> Occluded:
        if self._most_texts is not None and self._occlusion.encoded - started >= self._most_texts:
            return NOTHING
        return self._occlusion(table, label)

    # The key is the vector, not the label: a class that is only tried out is not part of the model.
    def _attribution(self, own: bytes, others: bytes, *words: Occluded) -> PairAttribution:
        return PairAttribution(self._model, np.frombuffer(own), np.frombuffer(others), *words)

    def _cached(self) -> int:
        """Number of attributions to keep.

        A path has at most four points per attribute; per point a method keeps one or two vectors of a feature's size.
        """
        size = 4 * self._model.table_.vectors.shape[1] * 2 * int(self._model.n_features_in_) * 4
        return int(max(CACHE_BYTES // size, 1))

    def _strongest(self, parts: list[Part], values: Doubles, by_vectors: float, total: float) -> Reasons:
        """Select the reasons from the contributions (p,) of one image."""
        order = np.argsort(values, kind="stable")
        positive = [k for k in order[::-1][: self._top].tolist() if values[k] > 0]
        negative = [k for k in order[: self._top].tolist() if values[k] < 0]

        def named(indices: list[int]) -> tuple[Reason, ...]:
            return tuple(Reason(**vars(parts[k]), contribution=float(values[k])) for k in indices)

        rest = by_vectors - float(values[positive + negative].sum())
        return Reasons(named(positive), named(negative), rest, total - by_vectors, total)
