"""Data sets from tables of features and tables of classes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.conversion import as_labels, as_matrix
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.rows import Indices, Rows
from sightunseen.data.array_files import StoredRows
from sightunseen.data.class_files import read_class_file
from sightunseen.data.columns import few, read_columns
from sightunseen.data.content_cache import content_fingerprint
from sightunseen.data.gbu import is_gbu_folder
from sightunseen.data.hugging_face import SPLIT_WORDS
from sightunseen.data.table_layouts import KINDS, holds_tables
from sightunseen.data.tables import Table, open_table
from sightunseen.semantics.describe import describe_classes
from sightunseen.semantics.text import Encoder

ENDINGS = tuple(ending for kind in KINDS for ending in kind)


def load_tables(features: str | Path, classes: str | Path | None = None, semantics: str = "auto") -> ZeroShotDataset:
    """Load a data set from a table of images and a table of classes.

    Parameters
    ----------
    features : str or Path
        ``.csv``, ``.parquet`` or ``.arrow`` with a column ``label``, optionally ``split`` (train, test_seen, test_unseen) and
        ``path``, and one column per feature (or one list column ``features``); ``.npz`` with ``X``, ``y`` and optionally
        ``split`` and ``path``; or a folder of many such files, see :func:`~sightunseen.data.tables.open_table`.
    classes : str or Path, optional
        ``.csv``, ``.parquet`` or ``.json`` (see :func:`~sightunseen.data.class_files.read_class_file`), or ``.npz`` with
        ``labels``, ``vectors`` and optionally ``attribute_names``. Not needed if the ``.npz`` of the features has
        ``class_labels`` and ``class_vectors``.
    semantics : {"auto", "attributes", "text", "names", "both"}, default="auto"
        Content of the class vectors, see :func:`~sightunseen.semantics.describe.describe_classes`.

    Returns
    -------
    ZeroShotDataset
        The data set. Labels are text, so that a label in a ``.csv`` equals that in a ``.npz``. Features of more than 256 MiB
        stay on disk (:class:`~sightunseen.core.rows.Rows`).

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
    table = open_table(features).loaded()
    path = table.path
    if table.labels is None:
        raise DataError(f"{path} has no column 'label' with the class of each image; it has {few(table.found)}.")
    sources = {f"features {path.name}": table.fingerprint()}
    if classes is not None:
        described = load_classes(classes, semantics)
        sources[f"classes {Path(classes).name}"] = content_fingerprint(Path(classes))
    elif {"class_labels", "class_vectors"} <= set(table.columns):
        described = _class_table(table.columns, "class_labels", "class_vectors")
    else:
        raise DataError(f"{path} holds no class vectors. Give the table of classes, too (--classes FILE).")
    return ZeroShotDataset(
        path.stem,
        table.features,
        table.labels,
        described,
        *_rows_of_splits(table),
        image_names=table.names,
        sources=sources,
        options={"features": path.name, "semantics": described.use},
    )


def load_features(path: str | Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Load features for prediction.

    Parameters
    ----------
    path : str or Path
        ``.npy`` or a table as in :func:`load_tables`; labels are not needed.

    Returns
    -------
    features : ndarray of shape (n, d)
        Features of the images. Those of a ``.npy`` are memory-mapped.
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
    table = open_table(path)
    names = None if table.names is None else np.asarray(table.names).astype(np.str_)
    if isinstance(table.features, StoredRows):
        return table.features.mapped(), names
    return np.asarray(table.features) if isinstance(table.features, Rows) else table.features, names


def open_features(path: str | Path) -> tuple[Any, Any]:
    """Open features for prediction without loading large files into memory.

    Parameters
    ----------
    path : str or Path
        See :func:`load_features`.

    Returns
    -------
    features : ndarray or Rows of shape (n, d)
        Features of the images. Those of large files and of folders are read slice by slice.
    names : ndarray or Rows of shape (n,), or None
        Names of the images, if the file has them.

    Raises
    ------
    DataError
        If the file cannot be read or holds no features.
    """
    table = open_table(path).loaded()
    return table.features, table.names


def is_unlabelled(path: str | Path) -> bool:
    """Return whether a path is a table of features without labels."""
    path = Path(path)
    if path.is_dir():
        return not is_gbu_folder(path) and holds_tables(path) and open_table(path).label_codes is None
    if path.suffix not in ENDINGS or not path.is_file():
        return False
    return open_table(path).label_codes is None


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


def _rows_of_splits(table: Table) -> tuple[Indices, Indices, Indices]:
    """Indices of the training images, of the test images of seen classes and of those of unseen classes."""
    codes = table.split_codes
    if codes is None:
        none = np.empty(0, dtype=np.intp)
        return np.arange(len(table.features)), none, none
    unknown = sorted(set(codes.known) - set(SPLIT_WORDS))
    if unknown:
        raise DataError(f"{table.path}: split must be train, test_seen or test_unseen for each image; found {quoted(unknown)}.")
    train, test_seen, test_unseen = (np.flatnonzero(codes.codes() == codes.known.get(word, -1)) for word in SPLIT_WORDS)
    return train, test_seen, test_unseen


def _class_table(columns: Mapping[str, NDArray[Any]], labels: str, vectors: str) -> ClassTable:
    names = columns.get("attribute_names")
    return ClassTable(
        as_labels(columns[labels], f"'{labels}'"),
        as_matrix(columns[vectors], f"'{vectors}'"),
        None if names is None else as_labels(names, "'attribute_names'").tolist(),
    )
