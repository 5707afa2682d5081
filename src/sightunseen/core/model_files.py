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
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from sightunseen.core.errors import ModelError
from sightunseen.core.files import folder_written_atomically
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
        return bool(json.loads((path / "model.json").read_text("utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
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
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "method": files.method,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "record_sha256": None if record is None else hashlib.sha256(record.encode()).hexdigest(),
        "content": files.content,
    }
    description = json.loads(json.dumps(description, allow_nan=False))  # all keys as text, as they will be read back
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
    if not path.is_dir():
        raise ModelError(f"there is no model folder at {path}. Train one with: sightunseen train DATA --out {path}")
    if not (path / "model.json").is_file():
        raise ModelError(f"{path} is not a model folder: it has no model.json. Give the folder that --out named in training.")
    description = _read_description(path / "model.json")
    weights = _read_checked(path / "weights.safetensors", description["weights_sha256"])
    try:
        arrays = load_tensors(weights)
    except SafetensorError as error:
        raise _damaged(path / "weights.safetensors") from error
    record, checksum = None, description["record_sha256"]
    if checksum is not None:
        record = RunRecord.from_json(_read_checked(path / "record.json", checksum).decode("utf-8"))
    return ModelFiles(description["method"], description["content"], arrays, record)


def _read_checked(path: Path, checksum: str) -> bytes:
    """Read a file and compare its SHA-256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.parent} has no readable {path.name}: {error.strerror}. Copy the whole folder.") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise _damaged(path)
    return content


def _read_description(path: Path) -> dict[str, Any]:
    try:
        sealed = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _damaged(path) from error
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise _damaged(path)
    if sealed.get("format_version") != FORMAT_VERSION:
        raise ModelError(
            f"{path.parent} is a model of format {sealed.get('format_version')}; this version of sightunseen reads format "
            f"{FORMAT_VERSION}. Install the release that wrote it, or train again."
        )
    description = {key: value for key, value in sealed.items() if key != "sha256"}
    if sealed.get("sha256") != _seal(description):
        raise _damaged(path)
    return description


def _seal(description: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _damaged(path: Path) -> ModelError:
    return ModelError(
        f"{path} was changed or damaged after it was written and is not loaded. Copy the model folder again, or train again."
    )
