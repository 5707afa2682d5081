"""Atomic writes of files and folders: temporary name, fsync, rename."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sightunseen.core.errors import StorageError


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        The digest in hexadecimal.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Write a file atomically: a context manager that yields a temporary path to write to.

    On success the temporary file replaces ``path``; on failure it is removed and ``path`` is unchanged. Missing parent
    folders are created.

    Parameters
    ----------
    path : Path
        The file to write.

    Yields
    ------
    Path
        A temporary file beside ``path``, with the same suffix.

    Raises
    ------
    StorageError
        If the file cannot be written.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_atomically(folder / "notes.txt") as temporary:
    ...     _ = temporary.write_text("done")
    >>> (folder / "notes.txt").read_text()
    'done'
    """
    with _storage_errors(path), _parent_of(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _flush_to_disk(temporary)
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_atomically(path: Path, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Write a folder atomically: a context manager that yields a temporary folder to write to.

    On success the temporary folder becomes ``path``; on failure it is removed and ``path`` is unchanged.

    Parameters
    ----------
    path : Path
        The folder to write.
    replaceable : callable
        Called with ``path`` if it exists; returns whether it may be replaced.

    Yields
    ------
    Path
        A temporary folder beside ``path``.

    Raises
    ------
    StorageError
        If ``path`` exists and may not be replaced, or if the folder cannot be written.
    """
    if path.exists() and not replaceable(path):
        raise StorageError(f"{path} exists and was not made by sightunseen; it is not replaced. Choose another name.")
    with _storage_errors(path), _parent_of(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            for file in temporary.iterdir():
                _flush_to_disk(file)
            temporary.chmod(0o777 & ~_umask())
            _swap_in(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _parent_of(path: Path) -> Iterator[None]:
    """Create the parent folders of ``path``; remove them again on failure."""
    made = [folder for folder in path.parents if not folder.exists()]  # the innermost first
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # no longer empty, or not ours to remove
            for folder in made:
                folder.rmdir()
        raise


def _swap_in(temporary: Path, path: Path) -> None:
    if not path.exists():
        os.rename(temporary, path)
        return
    # A folder cannot be renamed over a non-empty one: the old one is moved aside, and back if the second rename fails.
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent)) / path.name
    try:
        os.rename(path, aside)
        os.rename(temporary, path)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        with suppress(OSError):  # not empty only if the old folder could neither be replaced nor moved back
            aside.parent.rmdir()


def _flush_to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"could not write {path}: {reason}. Nothing was changed. Free some space or choose another folder."
        ) from error
