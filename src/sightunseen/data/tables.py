"""Features, labels and classes as tables: ``.npz``, ``.csv``, ``.parquet``; classes also as ``.json``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightunseen.classes import ClassTable
from sightunseen.data.cache import content_fingerprint
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import DataError

LABEL_COLUMNS = ("label", "class", "y")
NAME_COLUMNS = ("path", "name", "image")
T = TypeVar("T")
Columns = dict[str, NDArray[Any]]


def load_tables(features: str | Path, classes: str | Path | None = None) -> ZeroShotDataset:
    """A data set from a table of images and a table of classes.

    Parameters
    ----------
    features : ``.csv`` or ``.parquet`` with a column ``label``, optionally ``split`` (train, test_seen, test_unseen) and
        ``path``, and one column a feature (or one list column ``features``); or ``.npz`` with ``X``, ``y`` and optionally
        ``split`` and ``path``.
    classes : ``.csv`` or ``.parquet`` with a column ``class`` and one column an attribute, ``.json`` with
        ``{label: [numbers]}``, or ``.npz`` with ``labels``, ``vectors`` and optionally ``attribute_names``. None if the
        ``.npz`` of the features holds ``class_labels`` and ``class_vectors`` itself.
    """
    path = Path(features)
    columns = _read(path)
    labels = _first(columns, LABEL_COLUMNS)
    if labels is None:
        raise DataError(f"{path} has no column 'label' saying the class of each image; it has {_few(columns)}.")
    sources = {f"features {path.name}": content_fingerprint(path)}
    if classes is not None:
        table = load_classes(classes)
        sources[f"classes {Path(classes).name}"] = content_fingerprint(Path(classes))
    elif {"class_labels", "class_vectors"} <= set(columns):
        table = ClassTable(_text(columns["class_labels"]), columns["class_vectors"], _names(columns.get("attribute_names")))
    else:
        raise DataError(f"{path} holds no class vectors. Give the table of classes, too (--classes FILE).")
    return ZeroShotDataset.from_arrays(
        _feature_matrix(columns, path),
        _text(labels),
        table,
        columns.get("split"),
        name=path.stem,
        image_names=_first(columns, NAME_COLUMNS),
        sources=sources,
        options={"features": path.name, "semantics": table.use},
    )


def load_features(path: str | Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features (n, d), for prediction, and the images' names where the file has them; ``.npy`` is memory-mapped."""
    path = Path(path)
    if path.suffix == ".npy":
        array = _opened(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.number):
            raise DataError(f"{path} must be a table of numbers, one row an image; got {array.dtype} of shape {array.shape}.")
        return array, None
    columns = _read(path)
    matrix = _feature_matrix(columns, path)
    names = _first(columns, NAME_COLUMNS)
    if names is not None and len(names) != len(matrix):
        raise DataError(f"{path} has {len(matrix)} images but {len(names)} names; they must be as many.")
    return matrix, None if names is None else names.astype(str)


def is_unlabelled(path: str | Path) -> bool:
    """Whether it is a table of features that does not say the class of its images."""
    path = Path(path)
    if path.suffix not in (".npy", ".npz", ".csv", ".parquet") or not path.is_file():
        return False
    return path.suffix == ".npy" or _first(_read(path), LABEL_COLUMNS) is None


def load_classes(path: str | Path) -> ClassTable:
    """A class table from a file."""
    path = Path(path)
    if path.suffix == ".json":
        mapping = _opened(path, lambda: json.loads(path.read_text("utf-8")))
        if not isinstance(mapping, dict):
            raise DataError(f"{path} must hold one object, {{label: [numbers]}}.")
        return ClassTable.from_mapping(mapping)
    columns = _read(path)
    if path.suffix == ".npz":
        if not {"labels", "vectors"} <= set(columns):
            raise DataError(f"{path} must hold 'labels' and 'vectors'; it has {_few(columns)}.")
        return ClassTable(_text(columns["labels"]), columns["vectors"], _names(columns.get("attribute_names")))
    labels = _first(columns, ("class", "label"))
    if labels is None:
        raise DataError(f"{path} has no column 'class' with the labels; it has {_few(columns)}.")
    if not len(labels):
        raise DataError(f"{path} holds no class: there is nothing below its heading. Write one line a class.")
    attributes = {name: column for name, column in columns.items() if column is not labels}
    texts = [name for name, column in attributes.items() if not np.issubdtype(column.dtype, np.number)]
    if texts or not attributes:
        raise DataError(
            f"{path}: every column beside 'class' must be a number, one column an attribute; "
            f"{_few(texts) if texts else 'there is none'}. Remove the text columns or turn them into numbers."
        )
    return ClassTable(_text(labels), np.column_stack(list(attributes.values())), list(attributes))


def _read(path: Path) -> Columns:
    if path.suffix == ".npz":
        return _opened(path, lambda: _read_npz(path))
    if path.suffix == ".csv":
        from pyarrow import csv

        # Left to guess, pyarrow reads the label 007 as the number 7.
        as_text = csv.ConvertOptions(column_types=dict.fromkeys((*LABEL_COLUMNS[:2], "split", *NAME_COLUMNS), "string"))
        return _opened(path, lambda: _columns(csv.read_csv(path, convert_options=as_text), path))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return _opened(path, lambda: _columns(parquet.read_table(path), path))
    raise DataError(f"{path} must end in .npz, .csv or .parquet (features alone: also .npy); got '{path.suffix}'.")


def _opened(path: Path, read: Callable[[], T]) -> T:
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        return read()
    except DataError:
        raise
    except Exception as error:  # each format's reader has its own exceptions
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error}). Write it again.") from error


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


def _feature_matrix(columns: Columns, path: Path) -> NDArray[Any]:
    for name in ("X", "features"):
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
        raise DataError(f"{path}: every feature must be a number, but {_few(texts)} holds text. Remove that column.")
    if not numbers:
        raise DataError(
            f"{path} holds no features: expected an array X, or one column of numbers a feature; it has {_few(columns)}."
        )
    return np.column_stack(list(numbers.values()))


def _first(columns: Columns, names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((columns[name] for name in names if name in columns), None)


def _text(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as text, so that a label in a .csv is the same as in a .npz."""
    return labels.astype(str)


def _names(names: NDArray[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _few(names: Any, most: int = 8) -> str:
    listed = [str(name) for name in names]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
