"""Columns of table files (``.npz``, ``.csv``, ``.parquet``) by name, and helpers shared by the readers of tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError

LABEL_COLUMNS = ("label", "class", "y")
NAME_COLUMNS = ("path", "name", "image")
T = TypeVar("T")
Columns = dict[str, NDArray[Any]]


def read_columns(path: Path, long_texts: bool = False) -> Columns:
    """Read the columns of a table, or the arrays of a ``.npz``.

    Parameters
    ----------
    path : Path
        File that ends in ``.npz``, ``.csv`` or ``.parquet``.
    long_texts : bool, default=False
        Whether a quoted text in a ``.csv`` may contain line breaks.

    Returns
    -------
    dict of str to ndarray of shape (n_rows, ...)
        The columns by name.

    Raises
    ------
    DataError
        If the file is missing, damaged or of another format, or if a column name is repeated.
    """
    if path.suffix == ".npz":
        return opened(path, lambda: _read_npz(path))
    if path.suffix == ".csv":
        from pyarrow import csv

        # pyarrow's type inference would read the label 007 as the number 7.
        as_text = csv.ConvertOptions(column_types=dict.fromkeys((*LABEL_COLUMNS[:2], "split", *NAME_COLUMNS), "string"))
        lines = csv.ParseOptions(newlines_in_values=long_texts)  # optional, because it slows down large tables
        return opened(path, lambda: _columns(csv.read_csv(path, parse_options=lines, convert_options=as_text), path))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return opened(path, lambda: _columns(parquet.read_table(path), path))
    raise DataError(f"{path} must end in .npz, .csv or .parquet (features alone: also .npy); got '{path.suffix}'.")


def opened(path: Path, read: Callable[[], T]) -> T:
    """Return ``read()``, with every failure turned into a ``DataError`` that names the file.

    Parameters
    ----------
    path : Path
        The file.
    read : callable
        Function without arguments that reads it.

    Returns
    -------
    object
        The return value of ``read``.

    Raises
    ------
    DataError
        If the file is missing or ``read`` fails.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        return read()
    except DataError:
        raise
    except Exception as error:  # every format's reader has its own exceptions
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error}). Write it again.") from error


def first(columns: Columns, names: tuple[str, ...]) -> NDArray[Any] | None:
    """Return the first of the named columns that exists, or None."""
    return next((columns[name] for name in names if name in columns), None)


def few(names: Any, most: int = 8) -> str:
    """Join the first ``most`` names for an error message.

    >>> few(["a", "b", "c"], most=2)
    'a, b, ...'
    """
    listed = [str(name) for name in names]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def _read_npz(path: Path) -> Columns:
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _columns(table: Any, path: Path) -> Columns:
    repeated = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if repeated:
        raise DataError(
            f"{path} has two columns called '{repeated[0]}'. Its first line must name the columns, such as 'class' or 'label'."
        )
    return {name: table.column(name).to_numpy() for name in table.column_names}
