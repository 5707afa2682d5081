"""Files in, data sets out."""

from dataclasses import replace
from pathlib import Path

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.gbu import FEATURES, SEMANTICS, SPLITS, is_gbu_folder, load_gbu
from sightunseen.data.table_files import load_tables

TABLE_ENDINGS = (".npz", ".parquet", ".csv")


def open_data(
    path: str | Path,
    features: str | None = None,
    splits: str | None = None,
    semantics: str | None = None,
    classes: str | Path | None = None,
) -> ZeroShotDataset:
    """Open whatever a path leads to: a benchmark folder, a folder with ``features.*`` and ``classes.*``, or a table file."""
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
    return _load_tables(path, classes, semantics or "auto")


def _load_tables(path: Path, classes: str | Path | None, semantics: str) -> ZeroShotDataset:
    if path.is_dir():
        tables = [path / f"features{ending}" for ending in TABLE_ENDINGS if (path / f"features{ending}").is_file()]
        if not tables:
            raise DataError(
                f"{path} holds neither a benchmark's *_splits.mat nor a features.npz, features.parquet or features.csv. "
                "See 'Your own data' in the README for the two tables that are needed."
            )
        beside = [path / f"classes{ending}" for ending in (*TABLE_ENDINGS, ".json")]
        found = classes or next((file for file in beside if file.is_file()), None)
        return replace(load_tables(tables[0], found, semantics), name=path.resolve().name)
    return load_tables(path, classes, semantics)
