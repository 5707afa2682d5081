"""The cache of converted files: keyed by content, memory-mapped, and robust to damage."""

import contextlib
import hashlib
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.errors import DataError
from sightunseen.data import content_cache as cache
from sightunseen.data.content_cache import cache_folder, cached_arrays, content_fingerprint
from sightunseen.data.gbu import load_gbu

LONG_AGO = 1_000_000_000 * 10**9  # in nanoseconds: 2001


class Conversion:
    """Conversion that doubles the bytes of a file and counts its calls."""

    __name__ = "doubled"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path) -> dict[str, Any]:
        self.calls += 1
        numbers = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        return {"doubled": 2.0 * numbers[:, None], "names": np.array([f"byte {k}" for k in numbers])}


@pytest.fixture
def convert() -> Conversion:
    return Conversion()


@pytest.fixture(autouse=True)
def _empty(empty_cache: Path) -> None:
    """Every test starts with an empty cache."""


def written(path: Path, content: bytes, time_stamp: int = LONG_AGO) -> Path:
    path.write_bytes(content)
    os.utime(path, ns=(time_stamp, time_stamp))
    return path


def flipped(content: bytes, bit: int) -> bytes:
    return content[: bit // 8] + bytes([content[bit // 8] ^ (1 << bit % 8)]) + content[bit // 8 + 1 :]


def assert_doubled(arrays: Any, content: bytes) -> None:
    assert set(arrays) == {"doubled", "names"}
    assert arrays["doubled"].tolist() == [[2.0 * number] for number in content]
    assert arrays["names"].tolist() == [f"byte {number}" for number in content]


def entries(folder: Path) -> list[Path]:
    """The entries of converted files, without those of fingerprints."""
    return [entry for entry in folder.iterdir() if entry.name != "known"] if folder.is_dir() else []


def test_second_load_is_equal_without_conversion(tmp_path: Path, convert: Conversion) -> None:
    path = written(tmp_path / "file", b"abc")
    first, first_print = cached_arrays(path, convert)
    second, second_print = cached_arrays(path, convert)
    assert_doubled(first, b"abc")
    assert_doubled(second, b"abc")
    assert first_print == second_print == hashlib.sha256(b"abc").hexdigest()
    assert convert.calls == 1


def test_second_load_is_memory_mapped_and_read_only(tmp_path: Path, convert: Conversion) -> None:
    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    arrays, _ = cached_arrays(path, convert)
    assert isinstance(arrays["doubled"], np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        arrays["doubled"][0] = 1


def test_benchmark_files_are_converted_once(birds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    first = load_gbu(folder)
    monkeypatch.setattr("sightunseen.data.gbu.read_mat", lambda _: pytest.fail("the .mat file was read again"))
    second = load_gbu(folder)
    assert isinstance(second.features, np.memmap)
    np.testing.assert_array_equal(second.features, birds.X)
    np.testing.assert_array_equal(second.labels, first.labels)
    np.testing.assert_array_equal(second.classes.vectors, birds.vectors["att"])
    np.testing.assert_array_equal(second.image_names, first.image_names)
    assert second.sources == first.sources


def test_a_renamed_file_is_found_in_the_cache(tmp_path: Path, convert: Conversion) -> None:
    cached_arrays(written(tmp_path / "one", b"abc"), convert)
    arrays, _ = cached_arrays(written(tmp_path / "two", b"abc", LONG_AGO + 1), convert)
    assert_doubled(arrays, b"abc")
    assert convert.calls == 1


def test_each_conversion_has_its_own_entry(tmp_path: Path, convert: Conversion) -> None:
    def tripled(path: Path) -> dict[str, Any]:
        return {"tripled": np.array([3.0])}

    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    assert cached_arrays(path, tripled)[0]["tripled"].tolist() == [3.0]
    assert_doubled(cached_arrays(path, convert)[0], b"abc")


@pytest.mark.parametrize(
    ("content", "time_stamp"),
    [(b"abcd", LONG_AGO), (b"xyz", LONG_AGO + 1), (b"xyz", LONG_AGO)],
    ids=["of another size", "of another time", "of the same size and time"],
)
def test_changed_content_is_detected(tmp_path: Path, convert: Conversion, content: bytes, time_stamp: int) -> None:
    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    arrays, fingerprint = cached_arrays(written(path, content, time_stamp), convert)
    assert_doubled(arrays, content)
    assert fingerprint == hashlib.sha256(content).hexdigest()


def test_content_changed_without_a_new_time_stamp_is_detected(tmp_path: Path, convert: Conversion) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    now = path.stat().st_mtime_ns
    cached_arrays(path, convert)
    arrays, fingerprint = cached_arrays(written(path, b"xyz", now), convert)
    assert_doubled(arrays, b"xyz")
    assert fingerprint == hashlib.sha256(b"xyz").hexdigest()


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was written long ago by the clock of the cache."""
    monkeypatch.setattr(cache, "RACY_SECONDS", -1.0)
    return written(tmp_path / "file", b"abc")


def test_fingerprint_of_an_unchanged_file_is_cached(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content_fingerprint(settled)
    monkeypatch.setattr(cache, "sha256_of", lambda _: pytest.fail("the file was read again"))
    assert content_fingerprint(settled) == hashlib.sha256(b"abc").hexdigest()


def test_replaced_file_of_the_same_size_and_time_is_read_again(settled: Path) -> None:
    content_fingerprint(settled)
    written(settled.with_name("other"), b"xyz").replace(settled)
    assert content_fingerprint(settled) == hashlib.sha256(b"xyz").hexdigest()


def test_flipped_bits_of_a_fingerprint_entry_are_detected(settled: Path, empty_cache: Path) -> None:
    content_fingerprint(settled)
    (note,) = (empty_cache / "known").iterdir()
    intact = note.read_bytes()
    for bit in range(0, 8 * len(intact), 29):
        note.write_bytes(flipped(intact, bit))
        assert content_fingerprint(settled) == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("garbage", ["", "{", "[]", "{}", '{"signature": 1}'])
def test_a_damaged_fingerprint_entry_is_ignored(settled: Path, empty_cache: Path, garbage: str) -> None:
    content_fingerprint(settled)
    (note,) = (empty_cache / "known").iterdir()
    note.write_text(garbage)
    assert content_fingerprint(settled) == hashlib.sha256(b"abc").hexdigest()


def test_flipped_bits_of_an_entry_are_detected(tmp_path: Path, convert: Conversion, empty_cache: Path) -> None:
    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    (entry,) = entries(empty_cache)
    for file in sorted(entry.iterdir()):
        intact = file.read_bytes()
        for bit in range(0, 8 * len(intact), 29):
            file.write_bytes(flipped(intact, bit))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                assert_doubled(cached_arrays(path, convert)[0], b"abc")
            assert any("is damaged; it is rebuilt" in str(one.message) for one in said), (file, bit)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, empty_cache: Path) -> None:
    def growing(path: Path) -> dict[str, Any]:
        path.write_bytes(path.read_bytes() + b"d")
        return {"array": np.ones(3)}

    with pytest.raises(DataError, match="was changed while it was read"):
        cached_arrays(written(tmp_path / "file", b"abc"), growing)
    assert entries(empty_cache) == []


def test_a_deleted_cache_is_recreated(tmp_path: Path, convert: Conversion, empty_cache: Path) -> None:
    path = written(tmp_path / "file", b"abc")
    before, _ = cached_arrays(path, convert)
    shutil.rmtree(empty_cache)
    after, _ = cached_arrays(path, convert)
    assert_doubled(before, b"abc")  # open arrays stay readable
    assert_doubled(after, b"abc")
    assert convert.calls == 2
    assert len(entries(empty_cache)) == 1


def test_a_read_only_cache_only_warns(tmp_path: Path, convert: Conversion, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").write_text("where the folder should be")
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "a file" / "cache"))
    for calls in (1, 2):
        with pytest.warns(UserWarning, match="the cache cannot be used, loading will stay slow: .*a file"):
            arrays, fingerprint = cached_arrays(written(tmp_path / "file", b"abc"), convert)
        assert_doubled(arrays, b"abc")
        assert fingerprint == hashlib.sha256(b"abc").hexdigest()
        assert convert.calls == calls


def truncate(entry: Path) -> None:
    for file in entry.iterdir():
        file.write_bytes(file.read_bytes()[:-1])


def drop_one_array(entry: Path) -> None:
    (entry / "doubled.npy").unlink()


def drop_all_arrays(entry: Path) -> None:
    for file in entry.iterdir():
        file.unlink()


def put_a_file_in_its_place(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


@pytest.mark.filterwarnings("default::UserWarning")  # a warning is allowed
@pytest.mark.parametrize("damage", [truncate, drop_one_array, drop_all_arrays, put_a_file_in_its_place])
def test_a_damaged_entry_is_recreated(
    tmp_path: Path, convert: Conversion, empty_cache: Path, damage: Callable[[Path], None]
) -> None:
    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    (entry,) = entries(empty_cache)
    damage(entry)
    for _ in range(2):
        assert_doubled(cached_arrays(path, convert)[0], b"abc")
    assert convert.calls == 2


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return open, (str(self.trace), "w")


@pytest.mark.filterwarnings("ignore:the cache entry .* is damaged:UserWarning")
def test_a_pickle_in_the_cache_is_not_loaded(tmp_path: Path, convert: Conversion, empty_cache: Path) -> None:
    path = written(tmp_path / "file", b"abc")
    cached_arrays(path, convert)
    (entry,) = entries(empty_cache)
    (entry / "doubled.npy").write_bytes(pickle.dumps(Trap(tmp_path / "trace")))
    with contextlib.suppress(ValueError):  # whether it is recreated is tested elsewhere
        cached_arrays(path, convert)
    assert not (tmp_path / "trace").exists()


def test_a_failed_conversion_leaves_no_files(tmp_path: Path, convert: Conversion, empty_cache: Path) -> None:
    def doubled(path: Path) -> dict[str, Any]:
        raise DataError("cut short")

    path = written(tmp_path / "file", b"abc")
    with pytest.raises(DataError, match="cut short"):
        cached_arrays(path, doubled)
    assert entries(empty_cache) == []
    assert_doubled(cached_arrays(path, convert)[0], b"abc")


def test_object_arrays_are_not_cached(tmp_path: Path, empty_cache: Path) -> None:
    def objects(path: Path) -> dict[str, Any]:
        return {"objects": np.array([{"a": 1}], dtype=object)}

    with pytest.raises(ValueError, match="pickle"):
        cached_arrays(written(tmp_path / "file", b"abc"), objects)
    assert entries(empty_cache) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SIGHTUNSEEN_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, "/one"),
        ({"XDG_CACHE_HOME": "/two", "HOME": "/three"}, "/two/sightunseen"),
        ({"HOME": "/three"}, "/three/.cache/sightunseen"),
    ],
)
def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("SIGHTUNSEEN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
