"""The class table: labels with their semantic vectors, looked up by label and never by position."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.conversion import as_labels, as_matrix, as_text
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.limits import DESCRIPTION_LENGTH

Labels = NDArray[Any]
Vectors = NDArray[np.float64]


class ClassTable:
    """Class labels with one or more kinds of semantic vectors.

    Parameters
    ----------
    labels : array-like of shape (c,)
        Unique labels, all strings or all numbers.
    vectors : array-like of shape (c, a), or mapping of str to array-like of shape (c, a)
        Semantic vectors, or several kinds of them by name. The name of a single array is ``attributes``.
    attribute_names : sequence of a str, or mapping of str to such a sequence, default=None
        Names of the dimensions: of the semantics in use, or of each kind by name.
    use : str, default=None
        Name of the semantics in use, the one that ``vectors`` and ``vectors_of`` return. ``text`` stands for
        ``text:ENCODER`` if there is only one of that kind. None: the first one.
    texts : mapping of label to str, default=None
        Descriptions that the vectors of a text encoder were made from, if they are known; those of other labels are left out.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        The labels, read-only.
    semantics : dict of str to ndarray of shape (c, a)
        All semantic vectors by name, read-only.
    use : str
        Name of the semantics in use.
    names : dict of str to tuple of str
        The known attribute names, by the name of the semantics.
    texts : dict of label to str
        The known descriptions.

    Raises
    ------
    DataError
        If labels repeat or mix text and numbers, or if labels, vectors and attribute names differ in number.

    Examples
    --------
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
        texts: Mapping[Any, str] | None = None,
    ) -> None:
        self.labels: Labels = _checked_labels(labels)
        self.labels.flags.writeable = False
        if self.labels.ndim != 1 or self.labels.size == 0:
            raise DataError(f"a class table needs a list of labels; got an array of shape {self.labels.shape}.")
        if len({isinstance(label, str) for label in np.asarray(labels, dtype=object).tolist()}) > 1:
            raise DataError("the labels of a class table must be all text or all numbers; got both.")
        kinds = vectors if isinstance(vectors, Mapping) else {"attributes": vectors}
        if not kinds:
            raise DataError("a class table needs at least one kind of semantic vectors; got none.")
        self.semantics: dict[str, Vectors] = {name: self._checked(name, array) for name, array in kinds.items()}
        self.use: str = next(iter(self.semantics)) if use is None else self._resolved(use)
        names = attribute_names if isinstance(attribute_names, Mapping) else {self.use: attribute_names}
        self.names: dict[str, tuple[str, ...]] = {
            kind: self._checked_names(kind, given) for kind, given in names.items() if given is not None
        }
        self._row: dict[Any, int] = {label: row for row, label in enumerate(self.labels.tolist())}
        known = ((label, text) for label, text in (texts or {}).items() if label in self._row)
        self.texts: dict[Any, str] = {label: as_text(text, "a description", DESCRIPTION_LENGTH) for label, text in known}
        if len(self._row) != len(self.labels):
            values, counts = np.unique(self.labels, return_counts=True)
            raise DataError(f"labels of a class table must be unique; repeated: {_some(values[counts > 1].tolist())}.")

    @classmethod
    def of(cls, classes: "ClassTable | Mapping[Any, ArrayLike]") -> "ClassTable":
        """Convert a mapping of labels to vectors; return a class table unchanged.

        Parameters
        ----------
        classes : ClassTable or mapping of label to array-like of shape (a,)
            The classes.

        Returns
        -------
        ClassTable
            The classes as a table.

        Raises
        ------
        DataError
            If it is neither, if the mapping is empty, or if its vectors differ in length.

        Examples
        --------
        >>> ClassTable.of({"zebra": [1, 1], "okapi": [0, 1]})
        ClassTable(2 classes; attributes (2); using attributes)
        """
        if isinstance(classes, ClassTable):
            return classes
        if not isinstance(classes, Mapping):
            raise DataError(
                "a class table is made of labels and vectors, or of a mapping of label to vector; got "
                f"{quoted(type(classes).__name__)}. For texts, DataFrames and arrays use sightunseen.as_class_table."
            )
        if not classes:
            raise DataError("no classes given: the mapping of labels to vectors is empty.")
        sizes = {np.size(vector) for vector in classes.values()}
        if len(sizes) > 1:
            raise DataError(f"all class vectors must have one length; found lengths {sorted(sizes)}.")
        vectors = list(classes.values())
        if all(isinstance(vector, np.ndarray) and vector.ndim == 1 and vector.dtype.kind in "iuf" for vector in vectors):
            return cls(list(classes), np.stack(vectors))
        return cls(list(classes), np.array(vectors, dtype=object))

    @classmethod
    def one_hot(cls, labels: Iterable[Any]) -> "ClassTable":
        """Class table of one-hot vectors: ordinary supervised classification.

        Parameters
        ----------
        labels : iterable
            Labels; repeated ones count once.

        Returns
        -------
        ClassTable
            Sorted labels with the rows of the identity matrix.
        """
        labels = np.unique(np.asarray(list(labels)))
        return cls(labels, {"one-hot": np.eye(len(labels))})

    @property
    def vectors(self) -> Vectors:
        """Vectors of the semantics in use, shape (c, a), in the order of ``labels``."""
        return self.semantics[self.use]

    @property
    def attribute_names(self) -> tuple[str, ...] | None:
        """Names of the dimensions of the semantics in use; None if unknown."""
        return self.names.get(self.use)

    def __contains__(self, label: object) -> bool:
        return label in self._row

    def rows_of(self, labels: ArrayLike) -> NDArray[np.intp]:
        """Row indices of labels.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels, in any order; they may repeat.

        Returns
        -------
        ndarray of int of shape (n,)
            The row of each label.

        Raises
        ------
        DataError
            If a label is not in the table; the message names it.
        """
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
        """Semantic vectors of labels, in the semantics in use.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels, in any order; they may repeat.

        Returns
        -------
        ndarray of shape (n, a)
            The vector of each label.

        Raises
        ------
        DataError
            If a label is not in the table.
        """
        return self.vectors[self.rows_of(labels)]

    def using(self, semantics: str) -> "ClassTable":
        """Return the same classes with another of their semantics in use.

        Parameters
        ----------
        semantics : str
            Name of the semantics; ``text`` stands for the only ``text:ENCODER``.

        Returns
        -------
        ClassTable
            A new table.

        Raises
        ------
        DataError
            If the table has no such semantics.
        """
        return ClassTable(self.labels, self.semantics, self.names, use=semantics, texts=self.texts)

    def only(self, labels: ArrayLike) -> "ClassTable":
        """Return the table of some of the classes.

        Parameters
        ----------
        labels : array-like of shape (n,)
            The labels to keep; the new table has their order.

        Returns
        -------
        ClassTable
            A new table with all semantics.

        Raises
        ------
        DataError
            If a label is not in the table or is repeated, or if no label is left.
        """
        rows = self.rows_of(labels)
        chosen = {kind: _read_only(array[rows]) for kind, array in self.semantics.items()}
        return ClassTable(self.labels[rows], chosen, self.names, use=self.use, texts=self.texts)

    def extended(self, other: "ClassTable") -> "ClassTable":
        """Return this table with further classes appended, in the semantics in use.

        Parameters
        ----------
        other : ClassTable
            New classes. If both tables name their attributes, the columns are matched by name.

        Returns
        -------
        ClassTable
            A new table with the semantics in use only.

        Raises
        ------
        DataError
            If a label is already in the table, or if the vectors have another length or other attributes.
        """
        known = [label for label in other.labels.tolist() if label in self]
        if known:
            verb = "is" if len(known) == 1 else "are"
            raise DataError(f"{_some(known)} {verb} already in the class table. Give new classes other names.")
        if other.vectors.shape[1] != self.vectors.shape[1]:
            raise DataError(
                f"new classes need vectors of length {self.vectors.shape[1]} ('{self.use}'); got {other.vectors.shape[1]}."
            )
        labels = self.labels.tolist() + other.labels.tolist()
        vectors = _read_only(np.concatenate([self.vectors, self._in_own_order(other)]))
        return ClassTable(labels, {self.use: vectors}, self.attribute_names, texts={**self.texts, **other.texts})

    def without(self, labels: ArrayLike) -> "ClassTable":
        """Return this table without some of its classes.

        Parameters
        ----------
        labels : array-like of shape (n,)
            The labels to remove.

        Returns
        -------
        ClassTable
            A new table.

        Raises
        ------
        DataError
            If a label is not in the table, or if no class is left.
        """
        removed = set(self.labels[self.rows_of(labels)].tolist())
        return self.only([label for label in self.labels.tolist() if label not in removed])

    def fresh_labels(self, count: int) -> Labels:
        """Make labels of this table's type that are not in it.

        Parameters
        ----------
        count : int
            Number of labels.

        Returns
        -------
        ndarray of shape (count,)
            New labels.
        """
        numbers = np.arange(1, count + 1)
        if self.labels.dtype.kind not in "UO":
            return np.asarray(self.labels.max() + numbers)
        longest = max(len(label) for label in self.labels.tolist())
        # Longer than every label of the table, so different from each.
        return np.char.add("+" * (longest + 1), numbers.astype(str))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{kind} ({array.shape[1]})" for kind, array in self.semantics.items())
        return f"ClassTable({len(self.labels)} classes; {kinds}; using {self.use})"

    def _resolved(self, name: str) -> str:
        fitting = [kind for kind in self.semantics if kind.partition(":")[0] == name]
        if name not in self.semantics and len(fitting) != 1:
            raise DataError(f"no semantics called '{name}' in the class table; it has {', '.join(self.semantics)}.")
        return name if name in self.semantics else fitting[0]

    def _in_own_order(self, other: "ClassTable") -> Vectors:
        """Return the vectors of another table with its columns in this table's order, if both name them."""
        own, others = self.attribute_names, other.attribute_names
        if own is None or others is None or own == others:
            return other.vectors
        if sorted(own) != sorted(others):
            differing = _some(sorted({*own} ^ {*others}))
            raise DataError(f"new classes must have the attributes of the class table; only one of the two has {differing}.")
        column = {name: k for k, name in enumerate(others)}
        return other.vectors[:, [column[name] for name in own]]

    def _checked(self, name: str, array: ArrayLike) -> Vectors:
        given = np.asarray(array) if isinstance(array, np.ndarray) else array
        if isinstance(given, np.ndarray) and given.dtype.kind == "b":
            given = np.asarray(given, dtype=np.float64)
        matrix = as_matrix(given, f"semantics '{quoted(name)}'")
        # Only an array that nobody can change is shared with another table: with a million classes, a copy has gigabytes.
        shared = matrix.dtype == np.float64 and matrix.base is None and not matrix.flags.writeable
        vectors = _read_only(matrix if shared else np.array(matrix, dtype=np.float64))
        if len(vectors) != len(self.labels):
            raise DataError(
                f"semantics '{name}' must have one row for each of the {len(self.labels)} labels; got shape {vectors.shape}."
            )
        return vectors

    def _checked_names(self, kind: str, names: Sequence[str]) -> tuple[str, ...]:
        if kind not in self.semantics:
            raise DataError(f"attribute names are given for '{kind}'; the class table has {', '.join(self.semantics)}.")
        size = self.semantics[kind].shape[1]
        if len(names) != size:
            raise DataError(f"semantics '{kind}' has {size} dimensions but {len(names)} attribute names.")
        return tuple(as_text(str(name), "the name of an attribute") for name in names)


def _checked_labels(labels: ArrayLike) -> Labels:
    """A copy of the labels; raises ``DataError`` unless they are a list of texts, or of finite numbers."""
    try:
        array = np.array(labels)
    except ValueError as error:  # lists of several lengths
        raise DataError(f"a class table needs a list of labels; got {quoted(error, 100)}.") from error
    if array.ndim == 1:
        as_labels(array, "the labels of a class table")
    return array


def _read_only(array: Vectors) -> Vectors:
    array.flags.writeable = False
    return array


def _some(items: Sequence[Any], most: int = 3) -> str:
    """Format the first items of a list: 'a', 'b', 'c' and 7 more."""
    shown = ", ".join(f"'{quoted(item)}'" for item in list(items)[:most])
    rest = len(items) - most
    return shown if rest <= 0 else f"{shown} and {rest} more"
