"""Features, labels and classes in table files: ``.npz``, ``.csv``, ``.parquet``; classes also in ``.json``."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.conversion import as_labels, as_matrix
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.limits import PATH_LENGTH
from sightunseen.data.class_files import read_class_file
from sightunseen.data.columns import LABEL_COLUMNS, NAME_COLUMNS, Columns, check_parquet, few, first, read_columns
from sightunseen.data.content_cache import content_fingerprint
from sightunseen.data.opening import opened
from sightunseen.data.streams import ROWS, ParquetRows
from sightunseen.semantics.describe import describe_classes
from sightunseen.semantics.text import Encoder

VECTORS = ("X", "features")  # names of a column that holds whole feature vectors


def load_tables(features: str | Path, classes: str | Path | None = None, semantics: str = "auto") -> ZeroShotDataset:
    """Load a data set from a table of images and a table of classes.

    Parameters
    ----------
    features : str or Path
        ``.csv`` or ``.parquet`` with a column ``label``, optionally ``split`` (train, test_seen, test_unseen) and ``path``,
        and one column per feature (or one list column ``features``); or ``.npz`` with ``X``, ``y`` and optionally ``split``
        and ``path``.
    classes : str or Path, optional
        ``.csv``, ``.parquet`` or ``.json`` (see :func:`~sightunseen.data.class_files.read_class_file`), or ``.npz`` with
        ``labels``, ``vectors`` and optionally ``attribute_names``. Not needed if the ``.npz`` of the features has
        ``class_labels`` and ``class_vectors``.
    semantics : {"auto", "attributes", "text", "names", "both"}, default="auto"
        Content of the class vectors, see :func:`~sightunseen.semantics.describe.describe_classes`.

    Returns
    -------
    ZeroShotDataset
        The data set. Labels are text, so that a label in a ``.csv`` equals that in a ``.npz``.

    Raises
    ------
    DataError
        If a file cannot be read, or has no labels, features or class vectors.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrays = {"X": np.eye(2), "y": ["owl", "horse"], "class_labels": ["owl", "horse", "bat"]}
    ...     np.savez(f"{folder}/animals.npz", class_vectors=np.eye(3), **arrays)
    ...     data = load_tables(f"{folder}/animals.npz")
    >>> data.seen.tolist(), data.unseen.tolist()
    (['horse', 'owl'], ['bat'])
    """
    path = Path(features)
    columns = read_columns(path)
    labels = first(columns, LABEL_COLUMNS)
    if labels is None:
        raise DataError(f"{path} has no column 'label' with the class of each image; it has {few(columns)}.")
    sources = {f"features {path.name}": content_fingerprint(path)}
    if classes is not None:
        table = load_classes(classes, semantics)
        sources[f"classes {Path(classes).name}"] = content_fingerprint(Path(classes))
    elif {"class_labels", "class_vectors"} <= set(columns):
        table = _class_table(columns, "class_labels", "class_vectors")
    else:
        raise DataError(f"{path} holds no class vectors. Give the table of classes, too (--classes FILE).")
    return ZeroShotDataset.from_arrays(
        _feature_matrix(columns, path),
        as_labels(labels, f"{path}: the labels"),
        table,
        columns.get("split"),
        name=path.stem,
        image_names=_names(columns, path),
        sources=sources,
        options={"features": path.name, "semantics": table.use},
    )


def load_features(path: str | Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Load features for prediction.

    Parameters
    ----------
    path : str or Path
        ``.npy``, which is memory-mapped, or a table as in :func:`load_tables`; labels are not needed.

    Returns
    -------
    features : ndarray of shape (n, d)
        Features of the images.
    names : ndarray of shape (n,) or None
        Names of the images, if the file has a column ``path``, ``name`` or ``image``.

    Raises
    ------
    DataError
        If the file cannot be read or holds no features.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/images.npz", X=np.eye(2), path=["a.jpg", "b.jpg"])
    ...     features, names = load_features(f"{folder}/images.npz")
    >>> features.shape, names.tolist()
    ((2, 2), ['a.jpg', 'b.jpg'])
    """
    path = Path(path)
    if path.suffix == ".npy":
        array = opened(path, lambda: np.lib.format.open_memmap(path, mode="r"))  # np.load also opens .npz
        head = array[:1] if array.ndim == 2 else array  # the other rows are checked when they are read
        as_matrix(head, f"{path}, one row per image,")
        return array, None
    columns = read_columns(path)
    matrix = _feature_matrix(columns, path)
    names = _names(columns, path)
    if names is not None and len(names) != len(matrix):
        raise DataError(f"{path} has {len(matrix)} images but {len(names)} names; the numbers must be equal.")
    return matrix, names


def open_features(path: str | Path) -> tuple[Any, Any]:
    """Open features for prediction without loading a ``.parquet`` into memory.

    Parameters
    ----------
    path : str or Path
        See :func:`load_features`.

    Returns
    -------
    features : ndarray or ParquetRows of shape (n, d)
        Features of the images. Those of a ``.parquet`` are read slice by slice.
    names : ndarray or ParquetRows of shape (n,), or None
        Names of the images, if the file has them.

    Raises
    ------
    DataError
        If the file cannot be read or holds no features.
    """
    path = Path(path)
    if path.suffix != ".parquet":
        return load_features(path)
    from pyarrow import parquet

    names = opened(path, lambda: list(parquet.read_schema(path).names))
    if len(set(names)) < len(names) or not opened(path, lambda: parquet.read_metadata(path).num_rows):
        return load_features(path)  # raises the error that explains the fault
    opened(path, lambda: check_parquet(path, ROWS))
    called = next((name for name in NAME_COLUMNS if name in names), None)
    vectors = [name for name in VECTORS if name in names][:1]
    features = ParquetRows(path, vectors or names, lambda columns: _feature_matrix(columns, path))
    return features, None if called is None else ParquetRows(path, [called], lambda columns: _names(columns, path))


def is_unlabelled(path: str | Path) -> bool:
    """Return whether a path is a table of features without labels."""
    path = Path(path)
    if path.suffix not in (".npy", ".npz", ".csv", ".parquet") or not path.is_file():
        return False
    return path.suffix == ".npy" or first(read_columns(path), LABEL_COLUMNS) is None


def load_classes(path: str | Path, semantics: str = "auto", encoder: Encoder | str | None = None) -> ClassTable:
    r"""Load a class table from a file of names, attributes or descriptions.

    Parameters
    ----------
    path : str or Path
        File of classes, see :func:`load_tables`.
    semantics : {"auto", "attributes", "text", "names", "both"}, default="auto"
        Content of the class vectors, see :func:`~sightunseen.semantics.describe.describe_classes`.
    encoder : Encoder or str, optional
        Text encoder or its name. The default is all-MiniLM-L6-v2.

    Returns
    -------
    ClassTable
        The classes with all kinds of vectors that the file allows.

    Raises
    ------
    DataError
        If the file cannot be read or lacks what ``semantics`` needs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "classes.csv")
    ...     _ = file.write_text("class,legs,wings\nowl,2,2\nhorse,4,0\n")
    ...     table = load_classes(file)
    >>> table.attribute_names, table.vectors_of(["horse"]).tolist()
    (('legs', 'wings'), [[4.0, 0.0]])
    """
    path = Path(path)
    if path.suffix != ".npz":
        return describe_classes(read_class_file(path), semantics, encoder)
    columns = read_columns(path)
    if not {"labels", "vectors"} <= set(columns):
        raise DataError(f"{path} must hold 'labels' and 'vectors'; it has {few(columns)}.")
    return _class_table(columns, "labels", "vectors")


def _class_table(columns: Columns, labels: str, vectors: str) -> ClassTable:
    names = columns.get("attribute_names")
    return ClassTable(
        as_labels(columns[labels], f"'{labels}'"),
        as_matrix(columns[vectors], f"'{vectors}'"),
        None if names is None else as_labels(names, "'attribute_names'").tolist(),
    )


def _names(columns: Columns, path: Path) -> NDArray[Any] | None:
    """Names of the images; None if there are none."""
    names = first(columns, NAME_COLUMNS)
    return None if names is None else as_labels(names, f"{path}: the names of the images", PATH_LENGTH)


def _feature_matrix(columns: Columns, path: Path) -> NDArray[Any]:
    for name in VECTORS:
        if name in columns:
            column = columns[name]
            lengths = {np.size(row) for row in column} if column.dtype == object else set()
            if len(lengths) > 1 or (lengths and len({np.shape(row) for row in column}) > 1):  # a missing list has no shape
                raise DataError(
                    f"{path}: the lists in '{name}', the features, must have one length; found {sorted(lengths)[:8]}."
                )
            matrix = np.stack(list(column)) if column.dtype == object and lengths else column
            return as_matrix(matrix, f"{path}: '{name}'")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    special = {label, *NAME_COLUMNS, "split", "class_labels", "class_vectors", "attribute_names"}
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
