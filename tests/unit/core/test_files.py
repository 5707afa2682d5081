"""Atomic writes: the complete new content or the complete old content, and no temporary files left."""

import errno
import hashlib
import itertools
import os
from pathlib import Path

import pytest

from sightunseen.core import files
from sightunseen.core.errors import StorageError
from sightunseen.core.files import check_writable, folder_written_atomically, restore, sha256_of, sweep, written_atomically


def disk_full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_half(path: Path, error: BaseException) -> None:
    path.write_text("half of")
    raise error


def content_of(folder: Path) -> dict[str, str]:
    """Content of all files below a folder, hidden ones included."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "a folder" for path in sorted(folder.rglob("*"))
    }


def fail_at_rename(monkeypatch: pytest.MonkeyPatch, failures: dict[int, BaseException]) -> None:
    """Make the n-th rename fail."""
    number, rename = itertools.count(1), os.rename

    def renamed(source: Path, target: Path) -> None:
        if (failure := failures.get(next(number))) is not None:
            raise failure
        rename(source, target)

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "replace", renamed)


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").write_text("old words")
    return folder


@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 19) + 17])
def test_sha256_of_matches_hashlib(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_file_keeps_old_content_until_the_new_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with written_atomically(path) as temporary:
        temporary.write_text("half of")
        assert path.read_text() == "old"
        temporary.write_text("new")
    assert content_of(tmp_path) == {"table.csv": "new"}


def test_temporary_file_keeps_the_suffix(tmp_path: Path) -> None:
    with written_atomically(tmp_path / "table.csv") as temporary:
        assert temporary.suffix == ".csv"


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    with written_atomically(tmp_path / "a" / "b" / "file") as temporary:
        temporary.write_text("x")
    with folder_written_atomically(tmp_path / "c" / "d" / "folder", replaceable=lambda _: False) as folder:
        (folder / "file").write_text("y")
    assert (tmp_path / "a" / "b" / "file").read_text() == "x"
    assert (tmp_path / "c" / "d" / "folder" / "file").read_text() == "y"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with written_atomically(tmp_path / "file") as temporary:
            temporary.write_text("x")
        with folder_written_atomically(tmp_path / "folder", replaceable=lambda _: False):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("function", ["os.fsync", "os.replace", "os.open"])
@pytest.mark.parametrize("before", [{}, {"file": "old words"}], ids=["new file", "old file"])
def test_failed_write_of_a_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, before: dict[str, str]
) -> None:
    for name, words in before.items():
        (tmp_path / name).write_text(words)
    monkeypatch.setattr(function, disk_full)
    with (
        pytest.raises(StorageError, match=r"could not write .*file: No space left on device"),
        written_atomically(tmp_path / "file") as t,
    ):
        t.write_text("new words")
    assert content_of(tmp_path) == before


@pytest.mark.parametrize("error", [ValueError("a bad batch"), KeyboardInterrupt(), OSError(errno.EIO, "broken")])
def test_error_while_writing_a_file_changes_nothing(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old words")
    expected = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), written_atomically(path) as temporary:
        write_half(temporary, error)
    assert content_of(tmp_path) == {"file": "old words"}


def test_file_in_place_of_a_parent_folder_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(StorageError, match="could not write"), written_atomically(tmp_path / "taken" / "file"):
        pytest.fail("there is nowhere to write to")
    assert content_of(tmp_path) == {"taken": "x"}


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with folder_written_atomically(path, replaceable=lambda _: False) as folder:
        (folder / "one").write_text("1")
        assert not path.exists()
        (folder / "two").write_text("2")
    assert content_of(tmp_path) == {"model": "a folder", "model/one": "1", "model/two": "2"}


def test_replaceable_folder_is_replaced_completely(tmp_path: Path, old_folder: Path) -> None:
    with folder_written_atomically(old_folder, replaceable=lambda path: (path / "old").exists()) as folder:
        (folder / "new").write_text("new words")
        assert content_of(old_folder) == {"old": "old words"}
    assert content_of(tmp_path) == {"model": "a folder", "model/new": "new words"}


def test_other_folders_and_files_are_not_replaced(tmp_path: Path, old_folder: Path) -> None:
    (tmp_path / "file").write_text("precious")
    before = content_of(tmp_path)
    for path in (old_folder, tmp_path / "file"):
        with pytest.raises(StorageError, match="not made by sightunseen"):
            folder_written_atomically(path, replaceable=lambda _: False).__enter__()
    assert content_of(tmp_path) == before


@pytest.mark.parametrize("function", ["os.fsync", "os.rename", "os.open", "os.mkdir"])
def test_failed_write_of_a_new_folder_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(function, disk_full)
    with (
        pytest.raises(StorageError, match=r"could not write .*model: No space left on device"),
        folder_written_atomically(tmp_path / "model", replaceable=lambda _: False) as folder,
    ):
        (folder / "new").write_text("new words")
    assert content_of(tmp_path) == {}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("a bad array")], ids=repr)
def test_error_while_writing_a_folder_changes_nothing(tmp_path: Path, old_folder: Path, error: BaseException) -> None:
    expected = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), folder_written_atomically(old_folder, replaceable=lambda _: True) as folder:
        write_half(folder / "new", error)
    assert content_of(tmp_path) == {"model": "a folder", "model/old": "old words"}


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a file system that cannot exchange two folders."""
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)


@pytest.mark.usefixtures("no_exchange")
def test_folder_is_replaced_without_exchange(tmp_path: Path, old_folder: Path) -> None:
    with folder_written_atomically(old_folder, replaceable=lambda _: True) as folder:
        (folder / "new").write_text("new words")
    assert content_of(tmp_path) == {"model": "a folder", "model/new": "new words"}


@pytest.mark.usefixtures("no_exchange")
@pytest.mark.parametrize("rename", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.EACCES, "denied"), KeyboardInterrupt()], ids=["an error", "Ctrl-C"])
def test_failed_rename_keeps_the_old_folder(
    tmp_path: Path, old_folder: Path, monkeypatch: pytest.MonkeyPatch, rename: int, error: BaseException
) -> None:
    fail_at_rename(monkeypatch, {rename: error})
    expected = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), folder_written_atomically(old_folder, replaceable=lambda _: True) as folder:
        (folder / "new").write_text("new words")
    assert content_of(tmp_path) == {"model": "a folder", "model/old": "old words"}


@pytest.mark.usefixtures("no_exchange")
def test_old_folder_is_not_deleted_if_it_cannot_be_moved_back(
    tmp_path: Path, old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_rename(monkeypatch, {2: OSError(errno.EIO, "broken"), 3: OSError(errno.EIO, "broken")})
    with pytest.raises(StorageError), folder_written_atomically(old_folder, replaceable=lambda _: True) as folder:
        (folder / "new").write_text("new words")
    assert "old words" in content_of(tmp_path).values()


@pytest.mark.usefixtures("no_exchange")
def test_folder_left_aside_by_a_killed_process_is_moved_back(
    tmp_path: Path, old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        fail_at_rename(patched, {2: OSError(errno.EIO, "broken"), 3: OSError(errno.EIO, "broken")})
        with pytest.raises(StorageError), folder_written_atomically(old_folder, replaceable=lambda _: True):
            pass
    assert not old_folder.exists()
    restore(old_folder)
    assert content_of(tmp_path) == {"model": "a folder", "model/old": "old words"}


def test_symbolic_link_to_a_folder_is_followed(tmp_path: Path, old_folder: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(old_folder)
    with folder_written_atomically(link, replaceable=lambda _: True) as folder:
        (folder / "new").write_text("new words")
    assert link.is_symlink()
    assert content_of(old_folder) == {"new": "new words"}


@pytest.fixture
def other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which folders were swept, as in a new process."""
    monkeypatch.setattr(files, "_swept", set())


@pytest.mark.usefixtures("other_process")
def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-0123456789abcdef.csv").write_text("half of")
    (tmp_path / ".unfinished-0123456789abcdee").mkdir()
    (tmp_path / ".unfinished-0123456789abcdee" / "file").write_text("half of")
    (tmp_path / ".model.sightunseen.lock").write_text("")
    (tmp_path / ".unfinished-business").write_text("of the user")
    with written_atomically(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert content_of(tmp_path) == {".unfinished-business": "of the user", "file": "new"}


def test_temporary_files_of_living_processes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        written_atomically(tmp_path / "file") as one,
        folder_written_atomically(tmp_path / "folder", replaceable=lambda _: False) as other,
    ):
        monkeypatch.setattr(files, "_swept", set())
        sweep(tmp_path)
        assert one.exists()
        assert other.exists()


def test_what_cannot_be_written_is_refused_before_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    check_writable(tmp_path / "new" / "file")
    check_writable(tmp_path / "file")
    check_writable(tmp_path / "folder", folder=True)
    for path, folder, words in (
        (tmp_path / "folder", False, "is a folder; expected a file"),
        (tmp_path / "file", True, "is a file; expected a folder"),
        (tmp_path / "file" / "new", False, "file is a file"),
    ):
        with pytest.raises(StorageError, match=words):
            check_writable(path, folder)
    monkeypatch.setattr("os.open", disk_full)
    with pytest.raises(StorageError, match="No space left"):
        check_writable(tmp_path / "new")
    assert content_of(tmp_path) == {"file": "x", "folder": "a folder"}
