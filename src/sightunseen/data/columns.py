"""Columns of table files (``.npz``, ``.csv``, ``.parquet``) in memory, and their usual names."""

import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.memory import check_memory
from sightunseen.data.opening import opened, size_of

LABEL_COLUMNS = ("label", "class", "y")
NAME_COLUMNS = ("path", "name", "image")
TEXT_NAME_COLUMNS = ("image_path", "file_name", "filename", "url", "key")  # names of images, if they are text
VECTORS = ("X", "features", "embedding", "embeddings", "image_embedding", "image_embeddings", "img_emb")  # of feature vectors
CLASS_ARRAYS = ("class_labels", "class_vectors", "attribute_names")  # arrays of a .npz that describe classes
BLOCK = 1 << 20  # bytes of a .csv that are parsed at a time; a row has to fit into a block
BUFFER = 64 << 10  # bytes that are read of each column of a Parquet file to check its metadata
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes per value of the physical types of Parquet; others have 8 or more
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
        If the file is missing, damaged, too large or of another format, or if a column name is repeated.
    """
    if path.suffix == ".npz":
        return opened(path, lambda: read_npz(path))
    if path.suffix == ".csv":
        remedy = "Save it with commas between the columns, in UTF-8."
        return opened(path, lambda: _columns(_read_csv(path, long_texts), path), "a CSV", remedy)
    if path.suffix == ".parquet":
        return opened(path, lambda: _columns(_read_parquet(path), path))
    raise DataError(
        f"{path} must end in .npz, .csv or .parquet (features: also .npy, .arrow or a folder); got '{quoted(path.suffix)}'."
    )


def read_npz(path: Path) -> Columns:
    """Read the arrays of a ``.npz``; raises various errors on damaged files, see :func:`~sightunseen.data.opening.opened`.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to ndarray
        The arrays by name.

    Raises
    ------
    DataError
        If the arrays are too large, or the file has something else.
    """
    with open(path, "rb") as raw:
        with zipfile.ZipFile(raw) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        check_memory(declared, path, size_of(path))
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    other = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
    if other is not None:  # numpy returns the bytes of members that are no arrays
        raise DataError(f"{path}: '{quoted(other)}' is not an array. Write the file again, with numpy.savez.")
    return arrays


def first(columns: Columns, names: tuple[str, ...]) -> NDArray[Any] | None:
    """Return the first of the named columns that exists, or None."""
    return next((columns[name] for name in names if name in columns), None)


def few(names: Iterable[Any], most: int = 8) -> str:
    """Join the first ``most`` names for an error message.

    >>> few(["a", "b", "c"], most=2)
    'a, b, ...'
    """
    listed = list(names)
    return ", ".join(quoted(name) for name in listed[:most]) + (", ..." if len(listed) > most else "")


def check_repeated(names: list[str], path: Path) -> None:
    """Raise ``DataError`` if a column name is repeated."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError(
            f"{path} has two columns called '{quoted(repeated[0])}'. Its first line must name the columns, such as 'class' or "
            "'label'."
        )


def _read_csv(path: Path, long_texts: bool) -> Any:
    from pyarrow import csv

    check_memory(size_of(path), path)
    with open(path, "rb") as file:
        header = len(file.readline(BLOCK))
    # pyarrow's type inference would read the label 007 as the number 7.
    as_text = csv.ConvertOptions(column_types=dict.fromkeys((*LABEL_COLUMNS[:2], "split", *NAME_COLUMNS), "string"))
    lines = csv.ParseOptions(newlines_in_values=long_texts)  # optional, because it slows down large tables
    blocks = csv.ReadOptions(block_size=max(BLOCK, 256 * header))  # many blocks of few rows would be slow for wide tables
    return csv.read_csv(path, blocks, lines, as_text)


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    check_parquet(path)
    with parquet.ParquetFile(path) as file:
        return file.read()


def check_parquet(path: Path, rows: int | None = None) -> None:
    """Check that the values of a Parquet file, or of some rows of it, fit into memory.

    Parameters
    ----------
    path : Path
        The file.
    rows : int, default=None
        Number of rows that are read at a time. None: all.

    Raises
    ------
    DataError
        If they do not.
    """
    from pyarrow import parquet

    declared = 0
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
        found = file.metadata
        widths = [WIDTHS.get(found.schema.column(k).physical_type, 8) for k in range(found.num_columns)]
        for group in range(found.num_row_groups):
            # Raises if the description of a column is damaged; asked for that description first, pyarrow ends the process.
            next(file.iter_batches(1, row_groups=[group]), None)
            chunks = found.row_group(group)
            size = sum(width * chunks.column(k).num_values for k, width in enumerate(widths))
            declared += size if rows is None else 0
            if rows is not None:
                declared = max(declared, size * min(rows, chunks.num_rows) // max(chunks.num_rows, 1))
    check_memory(declared, path, size_of(path))


def _columns(table: Any, path: Path) -> Columns:
    names = table.column_names
    check_repeated(names, path)
    return {name: column.to_numpy() for name, column in zip(names, table.columns, strict=True)}
