"""Model folders: round trip, detection of changed bytes, and no replacement of other folders."""

import errno
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from sightunseen.core import model_files
from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.model_files import ModelFiles, read_model, write_model
from sightunseen.core.records import RunRecord

RECORD = RunRecord("train", "CVC", {"seed": 0}, 0, "honest", {"name": "toy"}, results={"T1": 50.0})
CONTENT = {
    "settings": {"hidden": 8, "rate": 1e-05, "clip": None},
    "labels": ["zèbre", "okapi"],
    "nested": {"a": [1, 2.5, True]},
}


def files(**changes: object) -> ModelFiles:
    arrays = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "counts": np.array([3, 1])}
    return ModelFiles(**{"method": "CVC", "content": CONTENT, "arrays": arrays, "record": RECORD, **changes})


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    write_model(path, files())
    return path


def test_model_folder_round_trip(folder: Path) -> None:
    found = read_model(folder)
    assert (found.method, found.content, found.record) == ("CVC", CONTENT, RECORD)
    assert found.arrays.keys() == {"weights", "counts"}
    for name, array in files().arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5),
        np.array(True),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12, dtype=np.int64)[::-2],
        np.array([[np.nan, -np.inf], [-0.0, 5e-324]]),
    ],
    ids=["one number", "one truth", "empty", "by columns", "backwards", "odd numbers"],
)
def test_arrays_keep_type_and_shape(tmp_path: Path, array: np.ndarray) -> None:
    write_model(tmp_path / "model", files(arrays={"array": array}))
    np.testing.assert_array_equal(read_model(tmp_path / "model").arrays["array"], array, strict=True)


def test_record_is_optional(tmp_path: Path) -> None:
    write_model(tmp_path / "model", files(record=None))
    assert read_model(tmp_path / "model").record is None
    assert sorted(content_of(tmp_path / "model")) == ["model.json", "weights.safetensors"]


def test_earlier_model_is_replaced_completely(folder: Path) -> None:
    write_model(folder, files(method="other", arrays={"new": np.ones(2)}, record=None))
    found = read_model(folder)
    assert (found.method, list(found.arrays), found.record) == ("other", ["new"], None)
    assert os.listdir(folder.parent) == ["model"]


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"notes.txt": "precious"},
        {"model.json": '{"modelTopology": {}}', "shard1of1.bin": "precious"},
        {"model.json": "not even JSON", "notes.txt": "precious"},
    ],
    ids=["an empty folder", "other files", "another program's model.json", "a broken model.json"],
)
def test_other_folders_are_not_replaced(tmp_path: Path, foreign: dict[str, str]) -> None:
    path = tmp_path / "mine"
    path.mkdir()
    for name, words in foreign.items():
        (path / name).write_text(words)
    before = content_of(tmp_path)
    with pytest.raises(StorageError, match="not made by sightunseen"):
        write_model(path, files())
    assert content_of(tmp_path) == before
    assert path.is_dir()


def test_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(StorageError, match="not made by sightunseen"):
        write_model(tmp_path / "file", files())
    assert content_of(tmp_path) == {"file": b"precious"}


@pytest.mark.parametrize("function", ["write_text", "write_bytes", "fsync"])
def test_full_disk_keeps_the_earlier_model(folder: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def disk_full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = content_of(folder.parent)
    monkeypatch.setattr(os if function == "fsync" else Path, function, disk_full)
    for path in (folder, folder.parent / "another"):
        with pytest.raises(StorageError, match="No space left on device"):
            write_model(path, files(method="other"))
    assert content_of(folder.parent) == before
    assert os.listdir(folder.parent) == ["model"]


def test_content_without_json_form_changes_nothing(folder: Path) -> None:
    before = content_of(folder.parent)
    with pytest.raises(ValueError, match="JSON"):
        write_model(folder, files(content={"rate": float("nan")}))
    assert content_of(folder.parent) == before
    assert os.listdir(folder.parent) == ["model"]


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("change", [1, 128])
def test_every_changed_byte_is_detected(folder: Path, name: str, change: int) -> None:
    path = folder / name
    good = path.read_bytes()
    for k in range(len(good)):
        path.write_bytes(good[:k] + bytes([good[k] ^ change]) + good[k + 1 :])
        with pytest.raises(ModelError):
            read_model(folder)
    path.write_bytes(good)
    assert read_model(folder).method == "CVC"


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("keep", [0, 10, -1])
def test_truncated_file_is_named(folder: Path, name: str, keep: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match=f"{name} was changed or damaged"):
        read_model(folder)


def test_weights_of_another_model_are_detected(folder: Path) -> None:
    write_model(
        folder.parent / "other", files(arrays={"weights": np.ones((2, 3), dtype=np.float32), "counts": np.array([3, 1])})
    )
    (folder / "weights.safetensors").write_bytes((folder.parent / "other" / "weights.safetensors").read_bytes())
    with pytest.raises(ModelError, match=r"weights\.safetensors was changed"):
        read_model(folder)


def test_pickles_are_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one with a correct checksum."""
    monkeypatch.setattr(model_files, "save_tensors", lambda _: pickle.dumps(_Trap(tmp_path / "sprung")))
    write_model(tmp_path / "model", files())
    with pytest.raises(ModelError, match=r"weights\.safetensors was changed or damaged"):
        read_model(tmp_path / "model")
    assert not (tmp_path / "sprung").exists()


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_missing_folder_error_names_the_train_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model folder at .*missing.* sightunseen train"):
        read_model(tmp_path / "missing")


def test_folder_without_model_json_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not a model folder: it has no model\.json"):
        read_model(tmp_path)


def test_missing_weights_are_named(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no readable weights\.safetensors: No such file.* Copy the whole folder"):
        read_model(folder)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_other_format_version_raises_an_error(folder: Path, version: int) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "format_version": version}), "utf-8")
    with pytest.raises(ModelError, match=f"model of format {version}; this version of sightunseen reads format 1"):
        read_model(folder)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[]"], ids=["empty", "no parts", "not UTF-8", "a list"])
def test_damaged_record_raises_an_error(folder: Path, content: bytes) -> None:
    (folder / "record.json").write_bytes(content)
    with pytest.raises(ModelError):
        read_model(folder)
