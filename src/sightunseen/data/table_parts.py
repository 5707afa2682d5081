"""Opening one file of features, with its labels, splits and names of images."""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.conversion import as_labels, as_matrix
from sightunseen.core.errors import DataError
from sightunseen.core.limits import PATH_LENGTH
from sightunseen.core.memory import check_memory
from sightunseen.data.array_files import declared_size, open_npy, open_npz
from sightunseen.data.arrow_columns import feature_rows, name_rows, roles_of, text_blocks
from sightunseen.data.arrow_files import ARROW_ENDINGS, ArrowFile, open_arrow_file
from sightunseen.data.columns import CLASS_ARRAYS, LABEL_COLUMNS, NAME_COLUMNS, VECTORS, Columns, few, first, read_columns
from sightunseen.data.hugging_face import class_names
from sightunseen.data.opening import opened
from sightunseen.data.table_layouts import Layout
from sightunseen.data.text_codes import TextCodes

LOADED_ARCHIVE = 64 << 20  # bytes of a .npz that is read whole

AddTexts = Callable[[TextCodes], None]


@dataclass(frozen=True)
class Part:
    """One file of a table.

    Parameters
    ----------
    path : Path
        The file of the features.
    features : ndarray or Rows of shape (n, d), or None
        Features; None if the file has no rows and its width is unknown.
    names : ndarray or Rows of shape (n,), or None
        Names of the images.
    label, split : callable or None
        Function that adds the labels or splits of the file to :class:`~sightunseen.data.text_codes.TextCodes`.
    columns : mapping of str to ndarray
        Other arrays.
    found : tuple of str
        Names of all columns.
    """

    path: Path
    features: Any
    names: Any
    label: AddTexts | None
    split: AddTexts | None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    found: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of images."""
        return 0 if self.features is None else len(self.features)


def open_part(layout: Layout) -> Part:
    """Open a file of features and its metadata.

    Parameters
    ----------
    layout : Layout
        The files.

    Returns
    -------
    Part
        The columns; features and names of large files are read when they are sliced.

    Raises
    ------
    DataError
        If a file cannot be read, holds no features, or features and metadata differ in length.
    """
    path = layout.path
    if path.suffix == ".npy":
        return _of_array(layout)
    if path.suffix in (".parquet", *ARROW_ENDINGS):
        return _of_arrow(layout)
    if path.suffix == ".npz" and declared_size(path) > LOADED_ARCHIVE:
        large = _of_large_archive(path)
        if large is not None:
            return large
    columns = read_columns(path)
    return _of_columns(columns, feature_matrix(columns, path), path)


def feature_matrix(columns: Columns, path: Path) -> NDArray[Any]:
    """Features among the columns of a table in memory.

    Parameters
    ----------
    columns : dict of str to ndarray
        The columns.
    path : Path
        The file, for error messages.

    Returns
    -------
    ndarray of shape (n, d)
        The array X (or of another usual name), or all columns of numbers that have no other role.

    Raises
    ------
    DataError
        If there are no features, or if they are not numbers.
    """
    for name in VECTORS:
        if name in columns and (name in VECTORS[:2] or columns[name].ndim == 2):
            return as_matrix(columns[name], f"{path}: '{name}'")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    special = {label, *NAME_COLUMNS, "split", *CLASS_ARRAYS}
    numbers = {name: column for name, column in columns.items() if name not in special and column.ndim == 1}
    texts = [name for name, column in numbers.items() if column.dtype.kind not in "iuf"]
    if texts:
        raise DataError(f"{path}: every feature must be a number, but {few(texts)} holds text. Remove that column.")
    if not numbers:
        raise DataError(
            f"{path} holds no features: expected an array X, or one column of numbers per feature; it has {few(columns)}."
        )
    sizes = sorted({len(column) for column in numbers.values()})
    if len(sizes) > 1:
        raise DataError(f"{path}: all columns must have one length; found {few(sizes)}.")
    return as_matrix(np.column_stack(list(numbers.values())), str(path))


def _of_columns(columns: Columns, features: Any, path: Path) -> Part:
    labels, split, names = first(columns, LABEL_COLUMNS), columns.get("split"), first(columns, NAME_COLUMNS)
    if names is not None:
        names = as_labels(names, f"{path}: the names of the images", PATH_LENGTH)
    return Part(
        path,
        features,
        names,
        None if labels is None else lambda codes: codes.add_array(labels, str(path)),
        None if split is None else lambda codes: codes.add_array(split, str(path)),
        {name: columns[name] for name in CLASS_ARRAYS if name in columns},
        tuple(columns),
    )


def _of_large_archive(path: Path) -> Part | None:
    """Part whose features stay in the archive; None if they can only be read whole."""

    def others() -> tuple[str | None, Columns]:
        with zipfile.ZipFile(path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
        name = next((name for name in VECTORS if f"{name}.npy" in sizes), None)
        if name is None:
            return None, {}
        check_memory(sum(sizes.values()) - sizes[f"{name}.npy"], path)
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return name, {each: np.asarray(file[each]) for each in file.files if each != name}

    name, columns = opened(path, others)
    features = None if name is None else open_npz(path, name)
    return None if features is None else _of_columns(columns, features, path)


def _of_arrow(layout: Layout) -> Part:
    file = open_arrow_file(layout.path)
    roles = roles_of(file)
    return _described(file, feature_rows(file, roles), layout)


def _of_array(layout: Layout) -> Part:
    features = open_npy(layout.path)
    if layout.metadata is None:
        return Part(layout.path, features, None, None, None)
    file = open_arrow_file(layout.metadata)
    if file.rows != len(features):
        raise DataError(
            f"{layout.path} has {len(features):,} rows but {layout.metadata.name} has {file.rows:,}; each image needs a row in "
            "both. Write both again."
        )
    return _described(file, features, layout)


def _described(file: ArrowFile, features: Any, layout: Layout) -> Part:
    """Part with the labels, splits and names of a Parquet or Arrow file."""
    roles = roles_of(file)

    def adder(name: str | None) -> AddTexts | None:
        if name is None:
            return None
        texts = class_names(file.schema, name, layout.columns)

        def add(codes: TextCodes) -> None:
            for row, column in text_blocks(file, name):
                codes.add_column(column, str(file.path), row, texts)

        return add

    split = adder(roles.split)
    if split is None and layout.split is not None:
        split = _repeated(layout.split, file.rows)
    names = None if roles.name is None else name_rows(file, roles.name)
    return Part(layout.path, features, names, adder(roles.label), split, {}, tuple(file.schema.names))


def _repeated(text: str, count: int) -> AddTexts:
    return lambda codes: codes.add_repeated(text, count)
