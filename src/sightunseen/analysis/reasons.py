"""Reasons for single predictions: the attributes with the largest contributions, and the sum of all others."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.analysis.contributions import attribute_names, mean_of_seen
from sightunseen.analysis.path_attribution import PathAttribution
from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.semantics.class_vectors import attribute_count

CACHE_BYTES = 2**28  # approximate size of the attributions that an Explainer keeps


@dataclass(frozen=True)
class Reason:
    """Contribution of one attribute to the score of a class.

    Parameters
    ----------
    attribute : str
        Name of the attribute.
    contribution : float
        Its contribution to the score.
    value : float
        Value of the attribute for the class.
    usual : float
        Mean value of the attribute over the seen classes.
    """

    attribute: str
    contribution: float
    value: float
    usual: float


@dataclass(frozen=True)
class Reasons:
    """Reasons for one image and its class; all contributions and ``others`` sum to ``total``.

    Parameters
    ----------
    speaks_for, speaks_against : tuple of Reason
        Attributes with the largest positive and the most negative contributions.
    others : float
        Sum of the contributions of all other attributes.
    total : float
        Score of the class minus score of the mean vector of the seen classes, without seen-class bias.
    """

    speaks_for: tuple[Reason, ...]
    speaks_against: tuple[Reason, ...]
    others: float
    total: float


class Explainer:
    """Reasons for the classes of a model, relative to the mean vector of the seen classes.

    The path attributions of the most recently used classes are cached.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    top : int, default=3
        Maximum number of reasons for and of reasons against a class.

    Examples
    --------
    >>> from sightunseen.methods import ESZSL
    >>> table = ClassTable(["owl", "emu"], [[1.0, 0.2], [0.0, 0.4]], ["wings", "legs"])
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    >>> model = ESZSL().fit(X, ["owl", "emu", "owl", "emu"], table)
    >>> (reasons,) = Explainer(model, top=1)(X[:1], ["owl"])
    >>> [reason.attribute for reason in reasons.speaks_for]
    ['wings']
    """

    def __init__(self, model: ZeroShotClassifier, top: int = 3) -> None:
        self._model, self._top = model, top
        self._usual = mean_of_seen(model)
        self._names = attribute_names(model.table_)[: speaking_attributes(model.table_)]
        # A path has at most four points per attribute; per point a method keeps one or two vectors of a feature's size.
        size = 4 * len(self._usual) * 2 * int(model.n_features_in_) * 4
        # The key is the vector, not the label: a class that is only tried out is not part of the model.
        self._attribution_of = lru_cache(max(CACHE_BYTES // size, 1))(
            lambda vector: PathAttribution(model, self._usual, np.frombuffer(vector))
        )

    @property
    def speaks(self) -> bool:
        """Whether the model has interpretable attributes; dimensions of text embeddings are not."""
        return len(self._names) > 0

    def __call__(self, X: Any, labels: ArrayLike, table: ClassTable | None = None) -> list[Reasons]:
        """Explain the classes of images.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of shape (n,)
            The class to explain for each image.
        table : ClassTable, default=None
            Vectors of the classes; by default the model's class table.

        Returns
        -------
        list of Reasons
            One per image.

        Raises
        ------
        DataError
            If a class is not in the table.
        """
        images = np.asarray(X)
        wanted, index_of = np.unique(np.asarray(labels), return_inverse=True)
        found: dict[int, Reasons] = {}
        for index, vector in enumerate((table or self._model.table_).vectors_of(wanted)):
            rows = np.flatnonzero(index_of == index)
            for row, values, total in zip(rows.tolist(), *self._attribution_of(vector.tobytes())(images[rows]), strict=True):
                found[row] = self._strongest(values, float(total), vector)
        return [found[row] for row in range(len(index_of))]

    def _strongest(self, values: Doubles, total: float, vector: Doubles) -> Reasons:
        """Select the reasons from the contributions (a,) of one image."""
        order = np.argsort(values[: len(self._names)], kind="stable")
        positive = [k for k in order[::-1][: self._top].tolist() if values[k] > 0]
        negative = [k for k in order[: self._top].tolist() if values[k] < 0]
        rest = total - float(values[positive + negative].sum())

        def named(indices: list[int]) -> tuple[Reason, ...]:
            return tuple(Reason(self._names[k], float(values[k]), float(vector[k]), float(self._usual[k])) for k in indices)

        return Reasons(named(positive), named(negative), rest, total)


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
