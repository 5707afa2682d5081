"""Features, labels and classes as tables: ``.npz``, ``.csv``, ``.parquet``; classes also as ``.json``."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.class_files import read_class_file
from sightunseen.data.columns import LABEL_COLUMNS, NAME_COLUMNS, Columns, as_text, few, first, opened, read_columns
from sightunseen.data.content_cache import content_fingerprint
from sightunseen.data.streams import ParquetRows
from sightunseen.semantics.describe import describe_classes
from sightunseen.semantics.text import Encoder

VECTORS = ("X", "features")  # what a column of whole vectors may be called


def load_tables(features: str | Path, classes: str | Path | None = None, semantics: str = "auto") -> ZeroShotDataset:
    """A data set from a table of images and a table of classes.

    Parameters
    ----------
    features : ``.csv`` or ``.parquet`` with a column ``label``, optionally ``split`` (train, test_seen, test_unseen) and
        ``path``, and one column a feature (or one list column ``features``); or ``.npz`` with ``X``, ``y`` and optionally
        ``split`` and ``path``.
    classes : ``.csv``, ``.parquet`` or ``.json`` (see :func:`~sightunseen.data.class_files.read_class_file`), or ``.npz``
        with ``labels``, ``vectors`` and optionally ``attribute_names``. None if the ``.npz`` of the features holds
        ``class_labels`` and ``class_vectors`` itself.
    semantics : what the class vectors are made of: ``auto``, ``attributes``, ``text``, ``names`` or ``both``.
    """
    path = Path(features)
    columns = read_columns(path)
    labels = first(columns, LABEL_COLUMNS)
    if labels is None:
        raise DataError(f"{path} has no column 'label' saying the class of each image; it has {few(columns)}.")
    sources = {f"features {path.name}": content_fingerprint(path)}
    if classes is not None:
        table = load_classes(classes, semantics)
        sources[f"classes {Path(classes).name}"] = content_fingerprint(Path(classes))
    elif {"class_labels", "class_vectors"} <= set(columns):
        table = ClassTable(as_text(columns["class_labels"]), columns["class_vectors"], _names(columns.get("attribute_names")))
    else:
        raise DataError(f"{path} holds no class vectors. Give the table of classes, too (--classes FILE).")
    return ZeroShotDataset.from_arrays(
        _feature_matrix(columns, path),
        as_text(labels),
        table,
        columns.get("split"),
        name=path.stem,
        image_names=first(columns, NAME_COLUMNS),
        sources=sources,
        options={"features": path.name, "semantics": table.use},
    )


def load_features(path: str | Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features (n, d), for prediction, and the images' names where the file has them; ``.npy`` is memory-mapped."""
    path = Path(path)
    if path.suffix == ".npy":
        array = opened(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.number):
            raise DataError(f"{path} must be a table of numbers, one row an image; got {array.dtype} of shape {array.shape}.")
        return array, None
    columns = read_columns(path)
    matrix = _feature_matrix(columns, path)
    names = first(columns, NAME_COLUMNS)
    if names is not None and len(names) != len(matrix):
        raise DataError(f"{path} has {len(matrix)} images but {len(names)} names; they must be as many.")
    return matrix, None if names is None else names.astype(str)


def open_features(path: str | Path) -> tuple[Any, Any]:
    """As :func:`load_features`, but the rows of a ``.parquet`` are read when they are asked for, by slices in their order."""
    path = Path(path)
    if path.suffix != ".parquet":
        return load_features(path)
    from pyarrow import parquet

    names = opened(path, lambda: list(parquet.read_schema(path).names))
    repeated = sorted({name for name in names if names.count(name) > 1})
    called = next((name for name in NAME_COLUMNS if name in names), None)
    if repeated or not opened(path, lambda: parquet.read_metadata(path).num_rows):
        return load_features(path)  # says what is wrong with it
    vectors = [name for name in VECTORS if name in names][:1]
    features = ParquetRows(path, vectors or names, lambda columns: _feature_matrix(columns, path))
    return features, None if called is None else ParquetRows(path, [called], lambda columns: columns[called].astype(str))


def is_unlabelled(path: str | Path) -> bool:
    """Whether it is a table of features that does not say the class of its images."""
    path = Path(path)
    if path.suffix not in (".npy", ".npz", ".csv", ".parquet") or not path.is_file():
        return False
    return path.suffix == ".npy" or first(read_columns(path), LABEL_COLUMNS) is None


def load_classes(path: str | Path, semantics: str = "auto", encoder: Encoder | str | None = None) -> ClassTable:
    """A class table from a file of names, attributes, descriptions, or all of them.

    Parameters
    ----------
    path : see :func:`load_tables`.
    semantics, encoder : what the vectors are made of, see :func:`~sightunseen.semantics.describe.describe_classes`.
    """
    path = Path(path)
    if path.suffix != ".npz":
        return describe_classes(read_class_file(path), semantics, encoder)
    columns = read_columns(path)
    if not {"labels", "vectors"} <= set(columns):
        raise DataError(f"{path} must hold 'labels' and 'vectors'; it has {few(columns)}.")
    return ClassTable(as_text(columns["labels"]), columns["vectors"], _names(columns.get("attribute_names")))


def _feature_matrix(columns: Columns, path: Path) -> NDArray[Any]:
    for name in VECTORS:
        if name in columns:
            column = columns[name]
            lengths = {np.size(row) for row in column} if column.dtype == object else set()
            if len(lengths) > 1:
                raise DataError(f"{path}: the lists in '{name}', the features, must have one length; found {sorted(lengths)}.")
            matrix = np.stack(list(column)) if column.dtype == object and lengths else column
            if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.number):
                raise DataError(f"{path}: '{name}' must be a table of numbers; got {matrix.dtype} of shape {matrix.shape}.")
            return matrix
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    special = {label, *NAME_COLUMNS, "split", "class_labels", "class_vectors", "attribute_names"}
    numbers = {name: column for name, column in columns.items() if name not in special and column.ndim == 1}
    texts = [name for name, column in numbers.items() if not np.issubdtype(column.dtype, np.number)]
    if texts:
        raise DataError(f"{path}: every feature must be a number, but {few(texts)} holds text. Remove that column.")
    if not numbers:
        raise DataError(
            f"{path} holds no features: expected an array X, or one column of numbers a feature; it has {few(columns)}."
        )
    return np.column_stack(list(numbers.values()))


def _names(names: NDArray[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
