"""What speaks for and against the classes that images were given: their strongest attributes, and all others in one sum."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.analysis.contributions import attribute_names, mean_of_seen
from sightunseen.analysis.path_attribution import Doubles, Walk
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.semantics.class_vectors import attribute_count

KEPT = 2**28  # bytes of walks, those used last


@dataclass(frozen=True)
class Reason:
    """An attribute of a class: what it contributes to the score, its value, and the mean value of the seen classes."""

    attribute: str
    contribution: float
    value: float
    usual: float


@dataclass(frozen=True)
class Reasons:
    """For one image and its class. All contributions, with those of the ``others``, sum to ``total``.

    ``total`` is the score of the class over that of the mean of the seen classes, penalties aside.
    """

    speaks_for: tuple[Reason, ...]
    speaks_against: tuple[Reason, ...]
    others: float
    total: float


class Explainer:
    """Gives the reasons for any class of a model, at most so many each way; it keeps what asking takes for the last classes."""

    def __init__(self, model: ZeroShotClassifier, most: int = 3) -> None:
        self._model, self._most = model, most
        self._usual = mean_of_seen(model)
        self._names = attribute_names(model.table_)[: speaking_attributes(model.table_)]
        # By the vector, not the label: a class that is only tried out has no place in the model.
        # A walk has at most four points an attribute, for each of which a method keeps a vector or two of a feature's size.
        size = 4 * len(self._usual) * 2 * int(model.n_features_in_) * 4
        self._walk_to = lru_cache(max(KEPT // size, 1))(lambda vector: Walk(model, self._usual, np.frombuffer(vector)))

    @property
    def speaks(self) -> bool:
        """Whether there are attributes to give as reasons; the dimensions of a text's vector mean nothing to people."""
        return len(self._names) > 0

    def __call__(self, X: Any, labels: ArrayLike, table: ClassTable | None = None) -> list[Reasons]:
        """The reasons for giving images (n, d) these labels (n,), whose vectors stand in ``table``, or else in the model's."""
        images = np.asarray(X)
        wanted, places = np.unique(np.asarray(labels), return_inverse=True)
        found: list[Reasons | None] = [None] * len(places)
        for place, vector in enumerate((table or self._model.table_).vectors_of(wanted)):
            rows = np.flatnonzero(places == place)
            for row, values, total in zip(rows, *self._walk_to(vector.tobytes())(images[rows]), strict=True):
                found[row] = self._strongest(values, float(total), vector)
        return [reasons for reasons in found if reasons is not None]

    def _strongest(self, values: Doubles, total: float, vector: Doubles) -> Reasons:
        """The reasons in the contributions (a,) of one image."""
        order = np.argsort(values[: len(self._names)], kind="stable")
        speaking_for = [k for k in order[::-1][: self._most].tolist() if values[k] > 0]
        speaking_against = [k for k in order[: self._most].tolist() if values[k] < 0]
        rest = total - float(values[speaking_for + speaking_against].sum())

        def named(places: list[int]) -> tuple[Reason, ...]:
            parts = (values[places], vector[places], self._usual[places])
            return tuple(
                Reason(self._names[k], *numbers) for k, *numbers in zip(places, *(p.tolist() for p in parts), strict=True)
            )

        return Reasons(named(speaking_for), named(speaking_against), rest, total)


def speaking_attributes(table: ClassTable) -> int:
    """How many attributes of a table, the first ones, mean something to people: dimensions of texts and one-hot do not."""
    return 0 if table.use == "one-hot" else attribute_count(table)
