"""Reading data sets: benchmark folders, tables of features and lists of photos."""

from dataclasses import replace
from pathlib import Path

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.gbu import FEATURES, SEMANTICS, SPLITS, is_gbu_folder, load_gbu
from sightunseen.data.table_files import load_tables
from sightunseen.data.table_layouts import holds_tables

TABLE_ENDINGS = (".npz", ".parquet", ".csv")


def open_data(
    path: str | Path,
    features: str | None = None,
    splits: str | None = None,
    semantics: str | None = None,
    classes: str | Path | None = None,
) -> ZeroShotDataset:
    """Open a data set from a file or folder; the format is detected from the path.

    Parameters
    ----------
    path : str or Path
        A benchmark folder (see :func:`~sightunseen.data.gbu.load_gbu`), a folder with ``features.*`` and ``classes.*``, or
        a table of features in one file or in a folder of many (see :func:`~sightunseen.data.tables.open_table`).
    features : str, optional
        Name of the feature file of a benchmark folder. The default is ``res101``.
    splits : str, optional
        Name of the split file of a benchmark folder. The default is ``att_splits``.
    semantics : str, optional
        Class vectors to use. The default is ``att`` for a benchmark folder and ``auto`` for tables.
    classes : str or Path, optional
        Table of classes. The default is the file ``classes.*`` in the folder.

    Returns
    -------
    ZeroShotDataset
        The data set.

    Raises
    ------
    DataError
        If the path does not exist or holds no data set.
    SettingsError
        If ``features`` or ``splits`` is given for data other than a benchmark folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sightunseen.data import open_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(
    ...         f"{folder}/features.npz", X=np.eye(3), y=["cat", "dog", "owl"], split=["train", "train", "test_unseen"],
    ...         class_labels=["cat", "dog", "owl"], class_vectors=[[4, 0], [4, 1], [2, 0]],
    ...     )
    ...     data = open_data(folder)
    >>> data.seen.tolist(), data.unseen.tolist()
    (['cat', 'dog'], ['owl'])
    """
    path = Path(path)
    if is_gbu_folder(path):
        return load_gbu(path, features or FEATURES, splits or SPLITS, semantics or SEMANTICS)
    if (path / "model.json").is_file():
        raise DataError(f"{path} is a model folder, not a data set. Give the folder or table of the images.")
    if not path.exists():
        raise DataError(f"there is no file or folder {path}.")
    if features or splits:
        given = " and ".join(f"'{name}'" for name in (features, splits) if name)
        raise SettingsError(
            f"{given} would be a file of a benchmark folder, which {path} is not. Leave --features and --splits out."
        )
    if not path.is_dir():
        return load_tables(path, classes, semantics or "auto")
    classes = classes or _first_file(path, "classes", (*TABLE_ENDINGS, ".json"))
    table = _first_file(path, "features", TABLE_ENDINGS)
    if table is None and not holds_tables(path):
        raise DataError(
            f"{path} holds neither photos nor a benchmark's *_splits.mat nor a features.npz, features.parquet or features.csv, "
            "nor other tables of features. Give a folder with one folder of photos per class, or a table of features and one "
            "of classes."
        )
    return replace(load_tables(table or path, classes, semantics or "auto"), name=path.resolve().name)


def _first_file(folder: Path, stem: str, endings: tuple[str, ...]) -> Path | None:
    files = (folder / f"{stem}{ending}" for ending in endings)
    return next((file for file in files if file.is_file()), None)
