"""Which files of a path make up a table of features, and in which order."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightunseen.core.errors import DataError
from sightunseen.data.arrow_files import ARROW_ENDINGS
from sightunseen.data.columns import few
from sightunseen.data.folders import files_below, in_natural_order
from sightunseen.data.hugging_face import is_hugging_face, shards_of

KINDS = ((".parquet",), ARROW_ENDINGS, (".npz",), (".npy",), (".csv",))  # endings of one kind of files each
EMBEDDINGS, METADATA = "img_emb", "metadata"  # folders that clip-retrieval writes
FORMATS = ".parquet, .arrow, .npz, .npy or .csv"


@dataclass(frozen=True)
class Layout:
    """One part of a table: a file of features, and what belongs to it.

    Parameters
    ----------
    path : Path
        The file of the features.
    metadata : Path, default=None
        Parquet file with the labels, splits and names of the rows.
    split : str, default=None
        Split of all rows.
    columns : mapping, default={}
        Description of the columns by Hugging Face.
    """

    path: Path
    metadata: Path | None = None
    split: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this part."""
        return (self.path,) if self.metadata is None else (self.path, self.metadata)


def layout_of(path: Path) -> list[Layout]:
    """List the parts of a table in order.

    Parameters
    ----------
    path : Path
        File or folder, see :func:`~sightunseen.data.tables.open_table`.

    Returns
    -------
    list of Layout
        The parts, at least one.

    Raises
    ------
    DataError
        If a folder holds no table, tables of several kinds, or shards without their metadata.
    """
    if not path.is_dir():
        return [Layout(path)]
    if is_hugging_face(path):
        return [Layout(shard.path, None, shard.split, shard.columns) for shard in shards_of(path)]
    if (path / EMBEDDINGS).is_dir():
        shards = _of_kind(path / EMBEDDINGS, (".npy",))
        if not shards:
            raise DataError(
                f"{path / EMBEDDINGS} holds no .npy files; expected the embeddings of images, such as img_emb_0.npy."
            )
        return _with_metadata(shards, _of_kind(path / METADATA, (".parquet",)) if (path / METADATA).is_dir() else [], path)
    named = [path / f"features{ending}" for kind in KINDS for ending in kind]
    single = next((file for file in (*named, path / "features") if file.exists()), None)
    if single is not None:
        return layout_of(single)
    found = {kind: _of_kind(path, kind) for kind in KINDS}
    arrays, tables = found[(".npy",)], found[(".parquet",)]
    if arrays and tables:
        return _with_metadata(arrays, tables, path)
    kinds = [kind for kind, files in found.items() if files and kind != (".csv",)] or [(".csv",)]
    if len(kinds) > 1:
        examples = few(found[kind][0].name for kind in kinds)
        raise DataError(
            f"{path} holds tables of several kinds, such as {examples}. Keep the files of one data set in a folder."
        )
    if not found[kinds[0]]:
        raise DataError(f"{path} holds no photos and no table of features; expected files that end in {FORMATS}.")
    return [Layout(file) for file in found[kinds[0]]]


def holds_tables(path: Path) -> bool:
    """Return whether a folder holds files of features."""
    return path.is_dir() and (is_hugging_face(path) or any(is_table(file) for file in files_below(path)))


def first_file(path: Path) -> Path | None:
    """Return the first file of a table, or None if there is none."""
    return layout_of(path)[0].path if not path.is_dir() or holds_tables(path) else None


def _of_kind(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    return in_natural_order([file for file in files_below(folder) if is_table(file) and file.suffix in endings])


def is_table(file: Path) -> bool:
    """Return whether a file is a table of features, by its name."""
    return file.stem != "classes" and any(file.suffix in endings for endings in KINDS)


def _with_metadata(arrays: list[Path], tables: list[Path], folder: Path) -> list[Layout]:
    """Pair shards with the metadata of the same number, or of the same name."""
    if not tables:
        return [Layout(array) for array in arrays]
    for key in (_relative_stem(folder), _number):
        by_key = {key(table): table for table in tables}
        keys = [key(array) for array in arrays]
        if None not in keys and set(keys) == set(by_key) and len(by_key) == len(tables) and len(set(keys)) == len(keys):
            return [Layout(array, by_key[found]) for array, found in zip(arrays, keys, strict=True)]
    numbers = {_number(table) for table in tables}
    alone = next((array for array in arrays if _number(array) not in numbers), arrays[-1])
    raise DataError(
        f"{folder} holds {len(arrays)} .npy files and {len(tables)} .parquet files that do not belong together, such as "
        f"{alone.name}. Each .npy needs a .parquet of the same name or number, such as img_emb_0.npy and metadata_0.parquet."
    )


def _relative_stem(folder: Path) -> Any:
    return lambda path: path.relative_to(folder).with_suffix("").as_posix()


def _number(path: Path) -> int | None:
    """Number at the end of a file's name, such as 12 of ``metadata_0012.parquet``."""
    found = re.search(r"([0-9]{1,18})$", path.stem)
    return None if found is None else int(found[1])
