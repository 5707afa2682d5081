"""Reader of class files (``.csv``, ``.parquet``, ``.json``) with names and optionally attributes and descriptions."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.conversion import as_labels, as_matrix, as_text
from sightunseen.core.documents import DocumentError, quoted, read_document
from sightunseen.core.errors import DataError
from sightunseen.core.limits import CLASSES, DESCRIPTION_LENGTH
from sightunseen.core.memory import check_memory
from sightunseen.data.columns import Columns, few, read_columns
from sightunseen.data.opening import size_of
from sightunseen.semantics.describe import ClassDescriptions

LABEL_COLUMNS = ("class", "label")
DESCRIPTION_COLUMNS = ("description", "text")
JSON_FORMS = (
    '{label: [numbers]}, {label: "description"}, {label: {attribute: number, "description": "..."}}, '
    'or a list of such objects with "class"'
)


def read_class_file(path: str | Path) -> ClassDescriptions:
    """Read the names, attributes and descriptions of classes.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` or ``.parquet`` with a column ``class``. Every numeric column is an attribute; a text column called
        ``description`` (or ``text``) describes the classes. In a ``.parquet``, one column of lists of numbers, all of one
        length, may take the place of the numeric columns. Or a ``.json`` with ``{label: [numbers]}``,
        ``{label: "description"}``, ``{label: {attribute: number, ..., "description": "..."}}``, or a list of such objects
        with ``"class"``.

    Returns
    -------
    ClassDescriptions
        The content of the file.

    Raises
    ------
    DataError
        If the file cannot be read, names no class, or has columns that are neither numbers nor descriptions.
    """
    path = Path(path)
    if path.suffix == ".json":
        return _of_json(_read_json(path), path)
    if path.suffix == ".npz":
        raise DataError(f"{path} holds arrays, not a table of classes. Give a .csv, .parquet or .json.")
    return describe_columns(read_columns(path, long_texts=True), path)


def _read_json(path: Path) -> Any:
    size_of(path)
    try:
        return read_document(path, "utf-8-sig")
    except DocumentError as error:
        raise DataError(f"{path} cannot be read: {error}. Write it again.") from error


def _of_json(content: Any, path: Path) -> ClassDescriptions:
    if isinstance(content, dict) and content and all(isinstance(entry, list) for entry in content.values()):
        return _of_lists(content, path)
    if isinstance(content, dict):
        rows = [{"class": label, **_entry(entry, path)} for label, entry in content.items()]
    elif isinstance(content, list) and all(isinstance(entry, dict) for entry in content):
        rows = content
    else:
        raise DataError(f"{path} must hold {JSON_FORMS}.")
    if not rows:
        raise DataError(f"{path}: no classes given. It must hold {JSON_FORMS}.")
    columns: Columns = {}
    names = dict.fromkeys(name for row in rows for name in row)
    check_memory(32 * len(names) * len(rows), path, size_of(path))  # every class may have attributes of its own
    for name in names:
        columns[name] = np.empty(len(rows), dtype=object)
        columns[name][:] = [row.get(name) for row in rows]
    return describe_columns(columns, path)


def _entry(entry: Any, path: Path) -> dict[str, Any]:
    if isinstance(entry, str):
        return {DESCRIPTION_COLUMNS[0]: entry}
    if not isinstance(entry, dict):
        raise DataError(f"{path} must hold {JSON_FORMS}; found {quoted(repr(entry))}.")
    return entry


def _of_lists(content: dict[str, list[Any]], path: Path) -> ClassDescriptions:
    lengths = {len(numbers) for numbers in content.values()}
    if len(lengths) > 1:
        raise DataError(f"{path}: all class vectors must have one length; found lengths {sorted(lengths)[:8]}.")
    columns = [_numbers(np.array(column, dtype=object)) for column in zip(*content.values(), strict=True)]
    values = [column for column in columns if column is not None]
    if not values or len(values) < len(columns):
        raise DataError(f"{path} must hold {JSON_FORMS}; found an empty list, or one with entries that are not numbers.")
    return ClassDescriptions(_labels(list(content), path), values=as_matrix(np.column_stack(values), f"{path}: class vectors"))


def describe_columns(columns: Columns, path: Path | str) -> ClassDescriptions:
    """Take names, attributes and descriptions of classes from the columns of a table.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (c,)
        Columns by name, as in the files of :func:`read_class_file`; emptied.
    path : Path or str
        Where they come from, for error messages.

    Returns
    -------
    ClassDescriptions
        The classes.

    Raises
    ------
    DataError
        If there is no class, or if a column is neither numbers nor descriptions.
    """
    found = next((name for name in LABEL_COLUMNS if name in columns), None)
    if found is None:
        raise DataError(f"{path} has no column 'class' with the labels; it has {few(columns)}.")
    labels = _labels(columns.pop(found), path, found)
    vectors = next((name for name, column in columns.items() if _has_lists(column)), None)
    values = None if vectors is None else _stacked(columns.pop(vectors), f"{path}: '{quoted(vectors)}'")
    numbers = {name: _numbers(column) for name, column in columns.items()}
    attributes = {
        name: array
        for name, array in numbers.items()
        if array is not None and not (name in DESCRIPTION_COLUMNS and np.isnan(array).all())  # blank descriptions
    }
    texts = [name for name in columns if name not in attributes]
    described = next((name for name in DESCRIPTION_COLUMNS if name in texts), None)
    others = [name for name in texts if name != described]
    if others:
        raise DataError(
            f"{path}: every column beside 'class' must be numeric (one attribute per column) or be the text column "
            f"'description'; found {few(others)}. Rename, remove or encode such columns as numbers."
        )
    if attributes and values is not None:
        raise DataError(
            f"{path} has class vectors in the column '{quoted(vectors)}' and attributes in others ({few(attributes)}). Keep "
            "either of them."
        )
    names = tuple(attributes) or None
    texts_of_classes = None if described is None else _texts(columns[described], described, path)
    columns.clear()  # so that the columns of many attributes are freed one by one
    numbers.clear()
    values = _values(attributes, labels, path) if attributes else values
    return ClassDescriptions(labels, names, values, texts_of_classes)


def _labels(column: Any, path: Path | str, name: str = "class") -> tuple[str, ...]:
    if not len(column):
        raise DataError(f"{path} holds no class: it is empty below the header. Write one line per class.")
    if len(column) > CLASSES:
        raise DataError(f"{path} has {len(column):,} classes; at most {CLASSES:,} are allowed.")
    nameless = [row for row, label in enumerate(column, 1) if label is None or not str(label).strip()]
    if nameless:
        raise DataError(f"{path} has a class without a name: row {nameless[0]}. Write its name under '{name}'.")
    return tuple(as_labels(column, f"{path}: '{name}'").tolist())


def _values(attributes: Columns, labels: tuple[str, ...], path: Path | str) -> NDArray[np.float64]:
    for name in attributes:
        as_text(name, f"{path}: the name of an attribute")  # raises if it is too long
    lengths = {len(column) for column in attributes.values()}
    if lengths != {len(labels)}:
        raise DataError(f"{path} has {len(labels)} classes, but columns of {few(sorted(lengths))} values.")
    values = np.empty((len(labels), len(attributes)))
    for k, name in enumerate(list(attributes)):
        values[:, k] = attributes.pop(name)
    return as_matrix(values, f"{path}: attributes")


def _has_lists(column: NDArray[Any]) -> bool:
    return column.dtype == object and any(isinstance(value, np.ndarray) for value in column)


def _stacked(column: NDArray[Any], where: str) -> NDArray[np.float64]:
    """The class vectors (c, a) of a column of arrays."""
    wrong = [row for row, value in enumerate(column, 1) if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf"]
    if wrong:
        raise DataError(f"{where}: row {wrong[0]} is not a list of numbers. Give one list per class.")
    lengths = {len(value) for value in column}
    if len(lengths) > 1:
        raise DataError(f"{where}: all lists must have one length; found lengths {few(sorted(lengths))}.")
    return np.asarray(as_matrix(np.stack(column.tolist()), where), dtype=np.float64)


def _numbers(column: NDArray[Any]) -> NDArray[Any] | None:
    """The column as numbers, with NaN for missing values; None if it holds anything else."""
    if column.dtype.kind in "biuf":
        return column
    values = column.tolist()
    if not all(value is None or isinstance(value, (bool, int, float)) for value in values):
        return None
    try:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except OverflowError:  # an integer of more than 308 digits
        return None


def _texts(column: NDArray[Any], name: str, path: Path | str) -> tuple[str | None, ...] | None:
    """The descriptions, with None for a blank one; None if all are blank."""
    values = column.tolist()
    invalid = [value for value in values if value is not None and not isinstance(value, str)]
    if invalid:
        raise DataError(
            f"{path}: '{name}' must be text for every class; found {quoted(repr(invalid[0]))}. Put it into quotation marks."
        )
    where = f"{path}: a text under '{name}'"
    texts = tuple(as_text((value or "").strip(), where, DESCRIPTION_LENGTH) or None for value in values)
    return texts if any(texts) else None
