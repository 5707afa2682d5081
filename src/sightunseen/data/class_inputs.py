"""Classes as Python objects: mappings, DataFrames, arrays and lists, as ``fit`` and ``add_classes`` take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.frames import as_array, as_targets, frame_of, index_of, is_missing
from sightunseen.data.class_files import DESCRIPTION_COLUMNS, describe_columns, read_class_file
from sightunseen.semantics.additions import describe_like
from sightunseen.semantics.describe import ClassDescriptions, describe_classes
from sightunseen.semantics.text import Encoder

LABEL_COLUMNS = ("class", "label", "name")
FORMS = (
    "a ClassTable, a mapping of label to vector or to text, a DataFrame with one row per class, a list of names, a pair "
    "(labels, array), or an array with one row per label of y, in sorted order"
)


@dataclass(frozen=True)
class Described:
    """Descriptions of classes, with their labels as the user gave them: text or numbers.

    Parameters
    ----------
    labels : sequence of c objects
        The labels.
    raw : ClassDescriptions
        Attributes and descriptions; its labels are texts.
    """

    labels: Sequence[Any]
    raw: ClassDescriptions

    def relabelled(self, table: ClassTable) -> ClassTable:
        """Return a class table made of ``raw`` with the labels that the user gave."""
        texts = {own: table.texts[text] for own, text in zip(self.labels, self.raw.labels, strict=True) if text in table.texts}
        return ClassTable(self.labels, table.semantics, table.names, table.use, texts)


def as_class_table(
    classes: Any, y: ArrayLike | None = None, semantics: str = "auto", encoder: Encoder | str | None = None
) -> ClassTable:
    """Convert any description of classes to a class table; ``fit`` of all methods calls this.

    Parameters
    ----------
    classes : ClassTable, mapping, DataFrame, array-like or path
        One of:

        - a :class:`~sightunseen.ClassTable`, which is returned unchanged;
        - a mapping of label to vector (a,);
        - a mapping of label to text, or a list of names: the texts are encoded;
        - a mapping of label to ``{attribute: number}``, also with a ``"description"``;
        - a DataFrame of pandas or polars or a table of Arrow with one row per class. The labels are the column ``class``,
          ``label`` or ``name``, else the index of pandas, else a first column of text. Numeric columns are attributes; a text
          column ``description`` (or ``text``) describes the classes;
        - a pair ``(labels, array)`` of c labels and vectors (c, a), or of c labels and texts;
        - an array (c, a) in class order: one row per label of ``y`` in sorted order, or row k for label k if the labels are
          whole numbers from 0;
        - the path of a class file, see :func:`~sightunseen.load_classes`.
    y : array-like of shape (n,), default=None
        Labels of the training images. They give the order of an array, and must be of the type of the classes.
    semantics : str, default="auto"
        Class vectors to use if attributes, descriptions or names are given: ``attributes``, ``text``, ``names`` or ``both``.
        ``auto``: attributes if there are any, else descriptions, else names.
    encoder : Encoder or str, default=None
        Text encoder or its name; None: all-MiniLM-L6-v2.

    Returns
    -------
    ClassTable
        The classes. Its ``use`` names the text encoder, so that classes described by text can be added later.

    Raises
    ------
    DataError
        If the classes cannot be read in any of these forms.
    MissingDependencyError
        If texts are to be encoded and the encoder's package is not installed.

    Examples
    --------
    >>> as_class_table({"zebra": {"stripes": 1, "legs": 4}, "owl": {"stripes": 0, "legs": 2}})
    ClassTable(2 classes; attributes (2); using attributes)
    >>> as_class_table([[1, 0], [0, 1]], y=["owl", "zebra", "owl"]).labels.tolist()
    ['owl', 'zebra']
    """
    seen = None if y is None else np.unique(as_targets(y))
    found = _read(classes, seen)
    if isinstance(found, Described):
        raw = found.raw
        if semantics == "auto" and raw.values is not None:  # as in class files; nothing is encoded in vain
            raw = ClassDescriptions(raw.labels, raw.attribute_names, raw.values)
        found = found.relabelled(describe_classes(raw, semantics, encoder))
    if seen is not None:
        _check_same_type(found.labels, seen)
    return found


def as_new_classes(classes: Any, table: ClassTable) -> ClassTable:
    """Convert a description of new classes to class vectors of the kind that an existing table uses.

    Parameters
    ----------
    classes : ClassTable, mapping, DataFrame, pair or path
        The new classes, in any form of :func:`as_class_table` that has labels. Texts are encoded by the encoder of the table.
    table : ClassTable
        The existing table.

    Returns
    -------
    ClassTable
        The new classes.

    Raises
    ------
    DataError
        If the classes cannot be read, or lack the attributes or descriptions that the table uses.

    Examples
    --------
    >>> table = ClassTable(["owl", "horse"], [[2, 2], [4, 0]], attribute_names=["legs", "wings"])
    >>> as_new_classes({"bee": {"wings": 4, "legs": 6}}, table).vectors
    array([[6., 4.]])
    """
    found = _read(classes, None)
    if isinstance(found, Described):
        found = found.relabelled(describe_like(table, found.raw))
    _check_same_type(found.labels, table.labels)
    return found


def _read(classes: Any, seen: Labels | None) -> ClassTable | Described:
    """Read classes of any form; the seen labels (s,), sorted, are those of the rows of an array."""
    if isinstance(classes, ClassTable):
        return classes
    if isinstance(classes, str | Path):
        raw = read_class_file(classes)
        return Described(raw.labels, raw)
    if index_of(classes) is not None and classes.ndim == 1:  # a pandas series
        return _of_mapping(dict(zip(classes.index.tolist(), classes.tolist(), strict=True)))
    if isinstance(classes, Mapping):
        return _of_mapping(classes)
    frame = frame_of(classes)
    if frame is not None:
        return _of_frame(frame, index_of(classes))
    if isinstance(classes, tuple) and len(classes) == 2 and _ndim(classes[0]) == 1:
        pair = _of_pair(*classes)
        if pair is not None:
            return pair
    return _of_array(classes, seen)


def _of_mapping(classes: Mapping[Any, Any]) -> ClassTable | Described:
    if not classes:
        raise DataError("no classes given: the mapping of labels is empty.")
    kinds = {"a text" if isinstance(value, str) else "attributes" if isinstance(value, Mapping) else "a vector": label
             for label, value in classes.items() if not is_missing(value)}  # fmt: skip
    if len(kinds) > 1:
        one, other = sorted(kinds)[:2]
        raise DataError(
            f"all classes must be described in one way; found {one} for '{quoted(kinds[one])}' and {other} for "
            f"'{quoted(kinds[other])}'."
        )
    if "a text" in kinds:
        return _of_columns(list(classes), {"description": _objects(classes.values())})
    if "attributes" in kinds:
        names = dict.fromkeys(name for row in classes.values() for name in row or ())
        rows = list(classes.values())
        return _of_columns(list(classes), {str(name): _objects((row or {}).get(name) for row in rows) for name in names})
    vectors = {label: as_array(vector, f"the vector of '{quoted(label)}'") for label, vector in classes.items()}
    wrong = next((label for label, vector in vectors.items() if vector.ndim != 1), None)
    if wrong is not None:
        raise DataError(
            f"'{quoted(wrong)}' must have a vector, a list of numbers, or a text; got {quoted(repr(classes[wrong]), 60)}."
        )
    return ClassTable.of(vectors)


def _of_frame(frame: Any, index: Any) -> Described:
    columns = {name: _column(frame.get_column(name)) for name in frame.columns}
    labelled = next((name for name in LABEL_COLUMNS if name in columns), None)
    numbered = index is None or (index.name is None and index.tolist() == list(range(len(index))))
    first = next(iter(columns), None)
    if labelled is None and numbered and first not in (None, *DESCRIPTION_COLUMNS) and _has_texts(columns[first]):
        labelled = first
    if labelled is not None:
        labels = columns.pop(labelled).tolist()
    elif index is not None:
        labels = index.tolist()
    else:
        raise DataError(
            "the DataFrame of classes has no column with the labels: neither 'class', 'label' or 'name', nor a first column of "
            f"text. It has {quoted(', '.join(map(str, columns)), 100)}. Rename the column of the labels to 'class'."
        )
    found = _of_columns(labels, {str(name): column for name, column in columns.items()})
    if any(isinstance(name, str) for name in columns):
        return found
    return Described(found.labels, replace(found.raw, attribute_names=None))  # numbered columns: a frame made of an array


def _of_columns(labels: Sequence[Any], columns: Mapping[str, NDArray[Any]]) -> Described:
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    raw = describe_columns({"class": _objects(labels), **columns}, "the table of classes")
    return Described(labels, raw)


def _of_pair(labels: Any, values: Any) -> ClassTable | Described | None:
    """Classes of a pair (labels, array) or (labels, texts); None if it is neither."""
    names, vectors = as_array(labels, "the labels of the classes"), as_array(values, "the vectors of the classes")
    if vectors.ndim not in (1, 2) or (vectors.ndim == 1 and not _has_texts(vectors)):
        return None
    if len(names) != len(vectors):
        raise DataError(f"classes are a pair of {len(names)} labels and {len(vectors)} descriptions. Give one for each label.")
    if vectors.ndim == 1:
        return _of_columns(names.tolist(), {"description": _objects(vectors.tolist())})
    return ClassTable(names, vectors)


def _of_array(classes: Any, seen: Labels | None) -> ClassTable | Described:
    if not hasattr(classes, "__array__") and not isinstance(classes, list | tuple):
        raise DataError(f"classes must be {FORMS}; got {quoted(type(classes).__name__)}.")
    array = as_array(classes, "classes")
    if array.ndim == 1 and len(array) and _has_texts(array):
        return _of_columns(array.tolist(), {})
    if array.ndim != 2:
        raise DataError(f"classes must be {FORMS}; got an array of shape {array.shape}.")
    if seen is None:
        raise DataError(
            f"an array of shape {array.shape} does not say which classes its rows are. Give a pair (labels, array) or a "
            "mapping of label to vector."
        )
    if len(array) == len(seen):
        return ClassTable(seen, array)
    # Row k is label k only if the labels surely count from 0: those from 1 would be off by one row.
    if seen.dtype.kind in "iu" and seen[0] == 0 and seen[-1] < len(array):
        return ClassTable(np.arange(len(array)), array)
    raise DataError(
        f"classes have {len(array)} rows, but y has {len(seen)} labels (first: '{quoted(seen[0])}'), so it is not known which "
        "class each row is. Give a pair (labels, array) or a mapping of label to vector, with seen and unseen classes."
    )


def _check_same_type(labels: Labels, others: Labels) -> None:
    """Raise ``DataError`` if some labels are text and the others are numbers."""
    if _has_texts(labels) != _has_texts(others):
        one, other = (f"{'text' if _has_texts(each) else 'numbers'} ({quoted(repr(each.tolist()[0]))}, ...)"
                      for each in (labels, others))  # fmt: skip
        raise DataError(
            f"the labels of the classes are {one}, but those of y or of the model are {other}. Use one type for both."
        )


def _column(series: Any) -> NDArray[Any]:
    """Column of a frame: numbers, or objects with None for missing values and arrays for lists."""
    import narwhals.stable.v2 as nw

    if series.dtype.is_numeric() and series.dtype != nw.Decimal:
        return np.asarray(series.to_numpy())
    return _objects(series.to_list())


def _objects(values: Any) -> NDArray[Any]:
    listed = [
        np.asarray(value) if isinstance(value, list | tuple) else None if is_missing(value) else value for value in values
    ]
    array = np.empty(len(listed), dtype=object)
    for row, value in enumerate(listed):
        array[row] = value
    return array


def _has_texts(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "U" or (array.dtype == object and any(isinstance(value, str) for value in array.tolist()))


def _ndim(values: Any) -> int:
    return 1 if isinstance(values, list | tuple) else len(getattr(values, "shape", ()))
