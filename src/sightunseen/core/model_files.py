"""Read and write model folders: ``model.json`` (description), ``weights.safetensors`` (arrays), ``record.json`` (run record).

No pickle is ever loaded. ``model.json`` contains the SHA-256 of the other two files and of its own content, so every changed
byte is detected before the model is used.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from sightunseen.core.documents import STRICT, DocumentError, quoted, read_document, validated
from sightunseen.core.errors import ModelError
from sightunseen.core.files import aside_of, folder_written_atomically
from sightunseen.core.records import RunRecord

FORMAT = "sightunseen model"
FORMAT_VERSION = 1
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelFiles:
    """Content of a model folder.

    Parameters
    ----------
    method : str
        Name of the method.
    content : mapping
        Hyperparameters, class table and other plain values, as JSON.
    arrays : mapping of str to ndarray
        The weights.
    record : RunRecord, default=None
        Record of the run that made the model.
    """

    method: str
    content: Mapping[str, Any]
    arrays: Arrays
    record: RunRecord | None = None


@dataclass(frozen=True)
class Description:
    """Schema of ``model.json`` without its own checksum."""

    format: str
    format_version: int
    method: str
    weights_sha256: str
    record_sha256: str | None
    content: dict[str, Any]

    __pydantic_config__ = STRICT


def was_written_here(path: Path) -> bool:
    """Test whether a folder is a model folder of this package, complete or not.

    The format entry is checked because other programs, such as TensorFlow.js, also write a ``model.json``.

    Parameters
    ----------
    path : Path
        The folder.

    Returns
    -------
    bool
        Whether its ``model.json`` has the format of this package.
    """
    try:
        return bool(_table_in(path / "model.json").get("format") == FORMAT)
    except (OSError, DocumentError):
        return False


def write_model(path: Path, files: ModelFiles) -> None:
    """Write a model folder atomically.

    Parameters
    ----------
    path : Path
        The folder. An earlier model is replaced; any other folder or file is not.
    files : ModelFiles
        What to write.

    Raises
    ------
    StorageError
        If ``path`` exists and is not a model folder, or if it cannot be written.
    ValueError
        If the content has no JSON form, such as NaN.
    """
    weights = save_tensors({name: np.asarray(array, order="C") for name, array in files.arrays.items()})
    record = None if files.record is None else files.record.to_json()
    checksums = hashlib.sha256(weights).hexdigest(), None if record is None else hashlib.sha256(record.encode()).hexdigest()
    made = Description(FORMAT, FORMAT_VERSION, files.method, *checksums, dict(files.content))
    description = json.loads(json.dumps(vars(made), allow_nan=False))  # all keys as text, as they will be read back
    sealed = {"sha256": _seal(description), **description}
    with folder_written_atomically(path, replaceable=was_written_here) as folder:
        (folder / "model.json").write_text(json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False), "utf-8")
        (folder / "weights.safetensors").write_bytes(weights)
        if record is not None:
            (folder / "record.json").write_text(record, "utf-8")


def read_model(path: Path) -> ModelFiles:
    """Read a model folder and verify its checksums.

    Parameters
    ----------
    path : Path
        The folder.

    Returns
    -------
    ModelFiles
        Its content.

    Raises
    ------
    ModelError
        If the folder is missing, incomplete, damaged or of another format version.
    """
    while True:
        folder = _standing(path)
        before = _inode(folder)
        try:
            return _read(folder)
        except ModelError:
            if _inode(path) == before:
                raise
            # Another process replaced the folder, so that the files that were read belong to two models.


def check_model_folder(path: Path) -> None:
    """Check that there is a model folder, without reading it.

    Parameters
    ----------
    path : Path
        The folder.

    Raises
    ------
    ModelError
        If there is none.
    """
    standing = _standing(path)
    if not standing.is_dir():
        raise ModelError(f"there is no model folder at {path}. Train one with: sightunseen train DATA --out {path}")
    if not (standing / "model.json").is_file():
        raise ModelError(f"{path} is not a model folder: it has no model.json. Give the folder that --out named in training.")


def _read(path: Path) -> ModelFiles:
    check_model_folder(path)
    description = _read_description(path / "model.json")
    weights = _read_checked(path / "weights.safetensors", description.weights_sha256)
    try:
        arrays = load_tensors(weights)
    except Exception as error:  # the checksum fits, the content does not: SafetensorError, or types that numpy lacks
        raise _damaged(path / "weights.safetensors") from error
    record = None
    if description.record_sha256 is not None:
        record = RunRecord.from_json(_read_checked(path / "record.json", description.record_sha256).decode("utf-8", "replace"))
    return ModelFiles(description.method, description.content, arrays, record)


def _standing(path: Path) -> Path:
    """The folder at a path, or the one aside while another process replaces it."""
    return aside_of(path) if not path.exists() and aside_of(path).exists() else path


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _read_checked(path: Path, checksum: str) -> bytes:
    """Read a file and compare its SHA-256."""
    if path.exists() and not path.is_file():  # a pipe or a device could be read forever
        raise _damaged(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.parent} has no readable {path.name}: {error.strerror}. Copy the whole folder.") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise _damaged(path)
    return content


def _read_description(path: Path) -> Description:
    try:
        sealed = _table_in(path)
    except (OSError, DocumentError) as error:
        raise _damaged(path) from error
    if sealed.get("format") != FORMAT:
        raise _damaged(path)
    if sealed.get("format_version") != FORMAT_VERSION:
        raise ModelError(
            f"{path.parent} is a model of format {quoted(sealed.get('format_version'))}; this version of sightunseen reads "
            f"format {FORMAT_VERSION}. Install the release that wrote it, or train again."
        )
    description = {key: value for key, value in sealed.items() if key != "sha256"}
    if sealed.get("sha256") != _seal(description):
        raise _damaged(path)
    try:
        return validated(Description, description)
    except DocumentError as error:
        raise ModelError(f"{path} is not the description of a model: {error}. Copy the model folder again.") from error


def _table_in(path: Path) -> dict[str, Any]:
    found = read_document(path)
    if not isinstance(found, dict):
        raise DocumentError("not a table")
    return found


def _seal(description: Mapping[str, Any]) -> str:
    text = json.dumps(description, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _damaged(path: Path) -> ModelError:
    return ModelError(
        f"{path} was changed or damaged after it was written and is not loaded. Copy the model folder again, or train again."
    )
