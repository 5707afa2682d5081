"""Folders written by ``save_to_disk`` of Hugging Face ``datasets``; the package itself is not needed to read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightunseen.core.conversion import as_labels
from sightunseen.core.documents import DocumentError, parse_document, quoted, read_document
from sightunseen.core.errors import DataError
from sightunseen.data.columns import few
from sightunseen.data.opening import opened

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
SPLIT_WORDS = ("train", "test_seen", "test_unseen")  # the splits of a zero-shot data set
KEY = b"huggingface"  # metadata of Arrow and Parquet files that describe the columns


@dataclass(frozen=True)
class Shard:
    """One Arrow file of a Hugging Face folder.

    Parameters
    ----------
    path : Path
        The file.
    split : str or None
        Name of the split, if the folder has several.
    columns : mapping
        Description of the columns.
    """

    path: Path
    split: str | None
    columns: Mapping[str, Any]


def is_hugging_face(folder: Path) -> bool:
    """Return whether a folder was written by ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk``."""
    return (folder / SPLITS).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def shards_of(folder: Path) -> list[Shard]:
    """List the Arrow files of a folder, in order.

    Parameters
    ----------
    folder : Path
        Folder for which :func:`is_hugging_face` is true.

    Returns
    -------
    list of Shard
        The files, with the split and the columns that they belong to.

    Raises
    ------
    DataError
        If a description is damaged or a file is missing.
    """
    if not (folder / SPLITS).is_file():
        return _shards(folder, None)
    names = _read(folder / SPLITS).get("splits")
    if not isinstance(names, list) or not names or not all(_is_plain(name) for name in names):
        raise DataError(f"{folder / SPLITS}: 'splits' must list the folders of the splits; got {quoted(names)}. Save it again.")
    return [shard for name in names for shard in _shards(folder / name, name)]


def class_names(schema: Any, column: str, described: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Find the names of the classes that the numbers of a ``ClassLabel`` column stand for.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the file, whose metadata may describe its columns.
    column : str
        The column.
    described : mapping
        Description of the columns of the folder, which is used first.

    Returns
    -------
    tuple of str or None
        The names; None if the column is not of that kind.

    Raises
    ------
    DataError
        If the names are not texts.
    """
    found = described.get(column)
    if not isinstance(found, Mapping):
        found = _described(schema).get(column)
    if not isinstance(found, Mapping) or found.get("_type") != "ClassLabel":
        return None
    names = found.get("names")
    if not isinstance(names, list) or not names:
        raise DataError(f"the names of the classes of the column '{quoted(column)}' must be a list; got {quoted(names)}.")
    return tuple(as_labels(names, f"the names of the classes of the column '{quoted(column)}'").tolist())


def _shards(folder: Path, split: str | None) -> list[Shard]:
    state = _read(folder / STATE)
    columns = _read(folder / INFO).get("features")
    files = state.get("_data_files")
    listed = files if isinstance(files, list) else []
    names: list[Any] = [each.get("filename") if isinstance(each, Mapping) else None for each in listed]
    if not names or not all(_is_plain(name) for name in names):
        raise DataError(f"{folder / STATE}: '_data_files' must name the Arrow files; got {quoted(files)}. Save it again.")
    if state.get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows of its files. Save it again after flatten_indices().")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {len(missing)} of its {len(names)} files: {few(missing, 3)}. Copy them.")
    return [Shard(folder / name, split, columns if isinstance(columns, Mapping) else {}) for name in names]


def _read(path: Path) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        try:
            found = read_document(path)
        except DocumentError as error:
            raise DataError(f"{path} cannot be read: {error}. Save the data set again.") from error
        if not isinstance(found, dict):
            raise DataError(f"{path} must hold a JSON object; got {quoted(found)}. Save the data set again.")
        return found

    return opened(path, read)


def _described(schema: Any) -> Mapping[str, Any]:
    """Columns as the metadata of a file describe them; empty if they do not."""
    try:
        found = parse_document((schema.metadata or {}).get(KEY, b"{}"))
    except DocumentError:
        return {}
    for key in ("info", "features"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name and name not in ("", "..")
