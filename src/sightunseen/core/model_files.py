"""A model is a folder: ``model.json`` (what it is), ``weights.safetensors`` (its arrays), ``record.json`` (its run).

No pickle is ever loaded. The SHA-256 of the weights stands in ``model.json`` and that of ``model.json``'s own content
beside it, so a changed byte is found before it can change an answer. The record is sealed in the same way.
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
    """The content of a model folder: the method's name, its plain settings and tables, its arrays and its record."""

    method: str
    content: Mapping[str, Any]
    arrays: Arrays
    record: RunRecord | None = None


def is_model_folder(path: Path) -> bool:
    """Whether this folder looks like a model's."""
    return (path / "model.json").is_file()


def was_written_here(path: Path) -> bool:
    """Whether this folder holds a model of ours, whole or not; TensorFlow.js, too, calls a file ``model.json``."""
    try:
        return bool(json.loads((path / "model.json").read_text("utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_model(path: Path, files: ModelFiles) -> None:
    """Write a model folder in one atomic step; an earlier model of that name is replaced, anything else is refused."""
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
    description = json.loads(json.dumps(description, allow_nan=False))  # keys as they will be read back
    sealed = {"sha256": _seal(description), **description}
    with folder_written_atomically(path, replaceable=was_written_here) as folder:
        (folder / "model.json").write_text(json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False), "utf-8")
        (folder / "weights.safetensors").write_bytes(weights)
        if record is not None:
            (folder / "record.json").write_text(record, "utf-8")


def read_model(path: Path) -> ModelFiles:
    """Read and verify a model folder."""
    if not path.is_dir():
        raise ModelError(f"there is no model folder at {path}. Train one with: sightunseen train DATA --out {path}")
    if not is_model_folder(path):
        raise ModelError(f"{path} is not a model folder: it has no model.json. Was it the folder of the data?")
    description = _read_description(path / "model.json")
    try:
        weights = (path / "weights.safetensors").read_bytes()
    except OSError as error:
        raise ModelError(f"{path} has no readable weights.safetensors: {error.strerror}. Copy the whole folder.") from error
    if hashlib.sha256(weights).hexdigest() != description["weights_sha256"]:
        raise _damaged(path / "weights.safetensors")
    try:
        arrays = load_tensors(weights)
    except SafetensorError as error:
        raise _damaged(path / "weights.safetensors") from error
    return ModelFiles(description["method"], description["content"], arrays, _read_record(path, description["record_sha256"]))


def _read_record(path: Path, fingerprint: str | None) -> RunRecord | None:
    if fingerprint is None:
        return None
    try:
        content = (path / "record.json").read_bytes()
    except OSError as error:
        raise ModelError(f"{path} has no readable record.json: {error.strerror}. Copy the whole folder.") from error
    if hashlib.sha256(content).hexdigest() != fingerprint:
        raise _damaged(path / "record.json")
    return RunRecord.from_json(content.decode("utf-8"))


def _read_description(path: Path) -> dict[str, Any]:
    try:
        sealed = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _damaged(path) from error
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise _damaged(path)
    if sealed.get("format_version") != FORMAT_VERSION:
        raise ModelError(
            f"{path.parent} is a model of format {sealed.get('format_version')}; this sightunseen reads format "
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
        f"{path} was changed or damaged after it was written; it is not loaded. Copy the model folder again, or train again."
    )
