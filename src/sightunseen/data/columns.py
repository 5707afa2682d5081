"""Columns of a table file by name (``.npz``, ``.csv``, ``.parquet``), and what readers of tables share."""

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
    """The columns of a table, or the arrays of a ``.npz``; with ``long_texts`` a text may go on over several lines."""
    if path.suffix == ".npz":
        return opened(path, lambda: _read_npz(path))
    if path.suffix == ".csv":
        from pyarrow import csv

        # Left to guess, pyarrow reads the label 007 as the number 7.
        as_text = csv.ConvertOptions(column_types=dict.fromkeys((*LABEL_COLUMNS[:2], "split", *NAME_COLUMNS), "string"))
        lines = csv.ParseOptions(newlines_in_values=long_texts)  # always allowed, it would slow down large tables
        return opened(path, lambda: _columns(csv.read_csv(path, parse_options=lines, convert_options=as_text), path))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return opened(path, lambda: _columns(parquet.read_table(path), path))
    raise DataError(f"{path} must end in .npz, .csv or .parquet (features alone: also .npy); got '{path.suffix}'.")


def opened(path: Path, read: Callable[[], T]) -> T:
    """What ``read`` makes of a file; a file that is missing or cannot be read is an error that names it."""
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        return read()
    except DataError:
        raise
    except Exception as error:  # each format's reader has its own exceptions
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error}). Write it again.") from error


def first(columns: Columns, names: tuple[str, ...]) -> NDArray[Any] | None:
    """The first of these columns that is there."""
    return next((columns[name] for name in names if name in columns), None)


def as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as text, so that a label in a .csv is the same as in a .npz."""
    return labels.astype(str)


def few(names: Any, most: int = 8) -> str:
    """The first of a list's names, for a message."""
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
