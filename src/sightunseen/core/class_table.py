"""The class table: labels with their semantic vectors, found by label and never by position."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.errors import DataError

Labels = NDArray[Any]
Vectors = NDArray[np.float64]


class ClassTable:
    """Labels, one or more kinds of semantic vectors for each, and the names of their dimensions.

    Parameters
    ----------
    labels : sequence of c unique labels, all strings or all numbers.
    vectors : array (c, a), or a mapping from a semantics' name to such an array.
    attribute_names : the a names of the dimensions, or a mapping from a semantics' name to its names.
    use : the name of the semantics that ``vectors_of`` reads, ``text`` for the only ``text:ENCODER``; the first one unless
        told otherwise.

    >>> table = ClassTable(["zebra", "okapi"], [[1, 1], [0, 1]], attribute_names=["stripes", "hooves"])
    >>> table.vectors_of(["okapi", "zebra"])
    array([[0., 1.],
           [1., 1.]])
    """

    def __init__(
        self,
        labels: ArrayLike,
        vectors: ArrayLike | Mapping[str, ArrayLike],
        attribute_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        use: str | None = None,
    ) -> None:
        self.labels: Labels = np.array(labels)
        self.labels.flags.writeable = False
        if self.labels.ndim != 1 or self.labels.size == 0:
            raise DataError(f"a class table needs a list of labels; got an array of shape {self.labels.shape}.")
        if len({isinstance(label, str) for label in np.asarray(labels, dtype=object).tolist()}) > 1:
            raise DataError("the labels of a class table must be all text or all numbers; got both.")
        kinds = vectors if isinstance(vectors, Mapping) else {"attributes": vectors}
        if not kinds:
            raise DataError("a class table needs at least one kind of semantic vectors; got none.")
        self.semantics: dict[str, Vectors] = {name: self._checked(name, array) for name, array in kinds.items()}
        self.use: str = next(iter(self.semantics)) if use is None else self._called(use)
        names = attribute_names if isinstance(attribute_names, Mapping) else {self.use: attribute_names}
        self.names: dict[str, tuple[str, ...]] = {
            kind: self._checked_names(kind, given) for kind, given in names.items() if given is not None
        }
        self._row: dict[Any, int] = {label: row for row, label in enumerate(self.labels.tolist())}
        if len(self._row) != len(self.labels):
            repeated = _repeated(self.labels)
            raise DataError(f"a label must appear once in a class table; {_some(repeated)} stands there more often.")

    @classmethod
    def of(cls, classes: "ClassTable | Mapping[Any, ArrayLike]") -> "ClassTable":
        """The class table itself, or one of ``{label: vector}``."""
        return classes if isinstance(classes, ClassTable) else cls.from_mapping(classes)

    @classmethod
    def from_mapping(cls, vectors: Mapping[Any, ArrayLike], attribute_names: Sequence[str] | None = None) -> "ClassTable":
        """A table of ``{label: vector}``."""
        if not vectors:
            raise DataError("no classes given: the mapping of labels to vectors is empty.")
        sizes = {np.size(vector) for vector in vectors.values()}
        if len(sizes) > 1:
            raise DataError(f"all class vectors must have one length; found lengths {sorted(sizes)}.")
        return cls(list(vectors), np.array(list(vectors.values()), dtype=object), attribute_names)

    @classmethod
    def one_hot(cls, labels: Iterable[Any]) -> "ClassTable":
        """Semantics that say nothing but which class it is: ordinary supervised classification."""
        labels = np.unique(np.asarray(list(labels)))
        return cls(labels, {"one-hot": np.eye(len(labels))})

    @property
    def vectors(self) -> Vectors:
        """All vectors of the semantics in use, (c, a), in the order of ``labels``."""
        return self.semantics[self.use]

    @property
    def attribute_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions of the semantics in use, where they are known."""
        return self.names.get(self.use)

    def __contains__(self, label: object) -> bool:
        return label in self._row

    def rows_of(self, labels: ArrayLike) -> NDArray[np.intp]:
        """The rows that hold these labels; an unknown label is an error that names it."""
        wanted = np.asarray(labels).tolist()
        missing = sorted({str(label) for label in wanted if label not in self._row})
        if missing:
            raise DataError(
                f"{_some(missing)} {'has' if len(missing) == 1 else 'have'} no semantic vector; "
                f"{len(self.labels)} classes do ({_some(self.labels.tolist())}). Add the missing classes to the class table "
                "or drop their images."
            )
        return np.array([self._row[label] for label in wanted], dtype=np.intp)

    def vectors_of(self, labels: ArrayLike) -> Vectors:
        """The semantic vectors of these labels, in their order: (len(labels), a)."""
        return self.vectors[self.rows_of(labels)]

    def using(self, semantics: str) -> "ClassTable":
        """The same table, read through another of its semantics."""
        return ClassTable(self.labels, self.semantics, self.names, use=semantics)

    def only(self, labels: ArrayLike) -> "ClassTable":
        """The table of these labels alone, in their order."""
        rows = self.rows_of(labels)
        return ClassTable(
            self.labels[rows], {kind: array[rows] for kind, array in self.semantics.items()}, self.names, use=self.use
        )

    def extended(self, other: "ClassTable") -> "ClassTable":
        """This table with the classes of ``other`` after it, in the semantics in use; a known label is an error."""
        known = [label for label in other.labels.tolist() if label in self]
        if known:
            raise DataError(f"{_some(known)} already stand in the class table. Give the new classes other names.")
        if other.vectors.shape[1] != self.vectors.shape[1]:
            raise DataError(
                f"new classes need vectors of length {self.vectors.shape[1]} ('{self.use}'); got {other.vectors.shape[1]}."
            )
        labels = self.labels.tolist() + other.labels.tolist()
        vectors = np.concatenate([self.vectors, self._in_own_order(other)])
        return ClassTable(labels, {self.use: vectors}, self.attribute_names)

    def without(self, labels: ArrayLike) -> "ClassTable":
        """This table without these labels; an unknown label is an error, and so is an empty table."""
        removed = set(self.labels[self.rows_of(labels)].tolist())
        return self.only([label for label in self.labels.tolist() if label not in removed])

    def fresh_labels(self, count: int) -> Labels:
        """So many labels of this table's kind that do not stand in it."""
        numbers = np.arange(1, count + 1)
        if self.labels.dtype.kind not in "UO":
            return np.asarray(self.labels.max() + numbers)
        longest = max(len(label) for label in self.labels.tolist())
        # Longer than every label, so none of them.
        return np.char.add("+" * (longest + 1), numbers.astype(str))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{kind} ({array.shape[1]})" for kind, array in self.semantics.items())
        return f"ClassTable({len(self.labels)} classes; {kinds}; using {self.use})"

    def _called(self, name: str) -> str:
        fitting = [kind for kind in self.semantics if kind.partition(":")[0] == name]
        if name not in self.semantics and len(fitting) != 1:
            raise DataError(f"no semantics called '{name}' in the class table; it has {', '.join(self.semantics)}.")
        return name if name in self.semantics else fitting[0]

    def _in_own_order(self, other: "ClassTable") -> Vectors:
        """The vectors of another table with their columns in this table's order, where both name them."""
        own, others = self.attribute_names, other.attribute_names
        if own is None or others is None or own == others:
            return other.vectors
        if sorted(own) != sorted(others):
            strange = sorted(set(others) - set(own)) or sorted(set(own) - set(others))
            raise DataError(f"the new classes are described by other attributes than the table's: {_some(strange)}.")
        return other.vectors[:, [others.index(name) for name in own]]

    def _checked(self, name: str, array: ArrayLike) -> Vectors:
        try:
            vectors = np.array(array, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"semantics '{name}' must be a table of numbers, one row a class: {error}") from error
        if vectors.ndim != 2 or len(vectors) != len(self.labels):
            raise DataError(
                f"semantics '{name}' must have one row for each of the {len(self.labels)} labels; got shape {vectors.shape}."
            )
        vectors.flags.writeable = False
        return vectors

    def _checked_names(self, kind: str, names: Sequence[str]) -> tuple[str, ...]:
        if kind not in self.semantics:
            raise DataError(f"attribute names are given for '{kind}'; the class table has {', '.join(self.semantics)}.")
        size = self.semantics[kind].shape[1]
        if len(names) != size:
            raise DataError(f"semantics '{kind}' has {size} dimensions but {len(names)} attribute names.")
        return tuple(str(name) for name in names)


def _repeated(labels: Labels) -> list[Any]:
    values, counts = np.unique(labels, return_counts=True)
    return list(values[counts > 1].tolist())


def _some(items: Sequence[Any], most: int = 3) -> str:
    """'a', 'b', 'c' and 7 more: enough of a list to recognise it."""
    shown = ", ".join(f"'{item}'" for item in list(items)[:most])
    rest = len(items) - most
    return shown if rest <= 0 else f"{shown} and {rest} more"
