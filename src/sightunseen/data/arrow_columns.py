"""Columns of Parquet and Arrow files by their roles, as arrays: features, labels, splits and names of images."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.conversion import as_labels, as_text
from sightunseen.core.errors import DataError
from sightunseen.core.limits import FEATURES, PATH_LENGTH
from sightunseen.data.arrow_files import ArrowFile
from sightunseen.data.columns import CLASS_ARRAYS, LABEL_COLUMNS, NAME_COLUMNS, TEXT_NAME_COLUMNS, VECTORS, few
from sightunseen.data.file_rows import ColumnRows
from sightunseen.data.opening import opened

TEXTS = 1 << 19  # rows of a block of labels


@dataclass(frozen=True)
class Roles:
    """Names of the columns of a table by their role.

    Parameters
    ----------
    label, split, name : str or None
        Columns of the labels, splits and names of the images.
    vectors : str or None
        Column of lists that are feature vectors.
    numbers : tuple of str
        Columns of one feature each, if there is no column of lists.
    """

    label: str | None
    split: str | None
    name: str | None
    vectors: str | None
    numbers: tuple[str, ...]


def roles_of(file: ArrowFile) -> Roles:
    """Find the roles of the columns of a file.

    Parameters
    ----------
    file : ArrowFile
        The file.

    Returns
    -------
    Roles
        The roles. The first of the usual names counts; a single column of lists of numbers is the features, whatever its name.
    """
    types = dict(zip(file.schema.names, file.schema.types, strict=True))
    lists = [name for name, kind in types.items() if _is_list(kind) and _is_number(kind.value_type)]
    label = next((name for name in LABEL_COLUMNS if name in types), None)
    usual = [name for name in NAME_COLUMNS if name in types and not _is_nested(types[name])]
    named = usual + [name for name in TEXT_NAME_COLUMNS if name in types and _is_text(types[name])]
    split = "split" if "split" in types else None
    vectors = next((name for name in VECTORS if name in lists), lists[0] if len(lists) == 1 else None)
    special = {label, split, *NAME_COLUMNS, *named, *CLASS_ARRAYS}
    numbers = () if vectors else tuple(name for name in types if name not in special)
    return Roles(label, split, named[0] if named else None, vectors, numbers)


def feature_rows(file: ArrowFile, roles: Roles) -> ColumnRows | None:
    """Features of a file, read block by block.

    Parameters
    ----------
    file : ArrowFile
        The file.
    roles : Roles
        Its columns.

    Returns
    -------
    ColumnRows of shape (n, d) or None
        The features; None if the file has no rows from which the length of its lists could be known.

    Raises
    ------
    DataError
        If the file has no features, or columns that are not numbers.
    """
    types = dict(zip(file.schema.names, file.schema.types, strict=True))
    if roles.vectors is not None:
        kind = types[roles.vectors]
        width = kind.list_size if _is_fixed(kind) else _first_length(file, roles.vectors)
        if width is None:
            return None
        if not 1 <= width <= FEATURES:
            raise DataError(f"{file.path}: '{roles.vectors}' must hold lists of 1 to {FEATURES:,} numbers; row 1 has {width}.")
        dtype = _dtype_of(kind.value_type)
        convert = partial(_from_lists, width=width, name=roles.vectors, path=file.path)
        return ColumnRows(file, [roles.vectors], convert, (width,), dtype)
    others = [name for name in roles.numbers if not _is_number(types[name])]
    if others:
        raise DataError(f"{file.path}: every feature must be a number, but {few(others)} holds text. Remove that column.")
    if not roles.numbers:
        raise DataError(
            f"{file.path} holds no features: expected a column of lists called 'features', or one column of numbers per "
            f"feature; it has {few(types)}."
        )
    dtype = np.result_type(*(_dtype_of(types[name]) for name in roles.numbers))
    convert = partial(_from_columns, names=list(roles.numbers), dtype=dtype)
    return ColumnRows(file, list(roles.numbers), convert, (len(roles.numbers),), dtype)


def name_rows(file: ArrowFile, name: str) -> ColumnRows:
    """Names of the images of a file, read block by block, as texts of type ``object``."""
    return ColumnRows(file, [name], partial(_from_texts, path=file.path), (), object)


def text_blocks(file: ArrowFile, name: str) -> Iterator[tuple[int, Any]]:
    """Yield a column of labels or splits in blocks, with the index of their first row."""
    blocks = file.blocks([name], 0, TEXTS)
    while (block := opened(file.path, lambda: next(blocks, None))) is not None:
        first, batch = block
        yield first, _column(batch, name)


def _from_lists(batch: Any, first: int, width: int, name: str, path: Path) -> NDArray[Any]:
    """Lists of one length as an array, without a loop over rows."""
    column = _column(batch, name)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{path}, row {first + row + 1}: '{name}', the features, is missing. Fill it in, or remove the row.")
    if not _is_fixed(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        other = np.flatnonzero(lengths != width)
        if len(other):
            row = int(other[0])
            raise DataError(
                f"{path}, row {first + row + 1}: '{name}' holds {lengths[row]} numbers; the lists of features must have one "
                f"length, {width} as in row 1. Extract the features again."
            )
    return _numbers(column.flatten()).reshape(len(column), width)


def _from_columns(batch: Any, first: int, names: list[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))  # by name would search all names for each column
    found = np.empty((len(batch), len(names)), dtype=dtype)
    for k, name in enumerate(names):
        found[:, k] = _numbers(columns[name])
    return found


def _from_texts(batch: Any, first: int, path: Path) -> NDArray[Any]:
    values = batch.column(0).to_numpy(zero_copy_only=False)
    try:
        return as_labels(values, str(path), PATH_LENGTH).astype(object)
    except DataError:
        for row, value in enumerate(values.tolist(), first + 1):  # the error names the row of the file, not of the block
            as_text(value, f"{path}, row {row}, the name of the image", PATH_LENGTH)
        raise


def _numbers(column: Any) -> NDArray[Any]:
    """Numbers as an array; missing ones are NaN."""
    if column.null_count and column.type.bit_width < 32:
        import pyarrow

        column = column.cast(pyarrow.float32())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _first_length(file: ArrowFile, name: str) -> int | None:
    block = opened(file.path, lambda: next(file.blocks([name], 0, 1), None))
    if block is None or not len(block[1]):
        return None
    column = _column(block[1], name)
    if column.null_count:
        raise DataError(f"{file.path}, row 1: '{name}', the features, is missing. Fill it in, or remove the row.")
    return len(column[0])


def _column(batch: Any, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def _dtype_of(kind: Any) -> np.dtype[Any]:
    """Type of the array: floating-point, because any value may be missing."""
    from pyarrow import types

    if types.is_floating(kind):
        return np.dtype(f"f{kind.bit_width // 8}")
    return np.dtype(np.float32 if kind.bit_width < 32 else np.float64)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_fixed(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_fixed_size_list(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_nested(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_nested(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    value = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(value) or types.is_large_string(value))
