"""Durable atomic writes of files and folders.

What is written goes to a temporary name, is flushed to disk, is renamed to its final name, and the folder that contains it is
flushed. After a crash or a power loss at any moment, the old or the new content stands at the path, complete. Temporary files
of killed processes are removed by the next process that writes to the same folder.
"""

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sightunseen.core.errors import StorageError

if sys.platform != "win32":
    import fcntl

LOCK_ENDING = ".sightunseen.lock"  # of the names of lock files
LEFTOVER = re.compile(rf"\.unfinished-[0-9a-f]{{16}}(\..*)?|\..+{re.escape(LOCK_ENDING)}")  # temporary files and lock files
EXCHANGE = 2  # RENAME_EXCHANGE of Linux
AT_WORKING_FOLDER = -100  # AT_FDCWD of Linux
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)  # by the file system

_swept: set[Path] = set()  # folders whose leftovers this process has removed


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
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_atomically(folder / "notes.txt") as temporary:
    ...     _ = temporary.write_text("done")
    >>> (folder / "notes.txt").read_text()
    'done'
    """
    with storage_errors(path), parents_of(path), _temporary(path.parent, path.suffix) as temporary:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)


@contextmanager
def folder_written_atomically(path: Path, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Write a folder atomically: a context manager that yields a temporary folder to write to.

    On success the temporary folder becomes ``path``; on failure it is removed and ``path`` is unchanged.

    Parameters
    ----------
    path : Path
        The folder to write; a symbolic link is followed.
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
    with storage_errors(path):
        path = path.resolve()
        restore(path)
        if path.exists() and not replaceable(path):
            raise StorageError(f"{path} exists and was not made by sightunseen; it is not replaced. Choose another name.")
        with parents_of(path), _temporary(path.parent, folder=True) as temporary:
            yield temporary
            for file in temporary.rglob("*"):
                _flush(file)
            _flush(temporary)
            _swap_in(temporary, path)


def check_writable(path: Path, folder: bool = False) -> None:
    """Check, before long work, that a file or folder can be written.

    Parameters
    ----------
    path : Path
        The file or folder to be written.
    folder : bool, default=False
        Whether ``path`` will be a folder.

    Raises
    ------
    StorageError
        If there is a folder in place of the file or the reverse, or if nothing can be created beside ``path``.
    """
    if path.exists() and path.is_dir() != folder:
        found, expected = ("a folder", "a file") if path.is_dir() else ("a file", "a folder")
        raise StorageError(f"{path} is {found}; expected {expected}. Choose another name.")
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise StorageError(f"{path} cannot be created: {nearest} is a file. Choose another folder.")
    with storage_errors(path):
        _probe(nearest)


def remove_folder(path: Path) -> None:
    """Remove a folder in one step: after a crash it is complete or gone.

    Parameters
    ----------
    path : Path
        The folder; nothing happens if it does not exist.

    Raises
    ------
    StorageError
        If the folder cannot be removed.
    """
    if not path.exists():
        return
    with storage_errors(path), _temporary(path.parent, folder=True) as temporary:
        os.rename(path, temporary)
        _flush(path.parent)


def restore(path: Path) -> None:
    """Move a folder back that an interrupted replacement left aside.

    Parameters
    ----------
    path : Path
        Folder that may be missing because a process was killed while it replaced the folder.
    """
    aside = aside_of(path)
    if not aside.exists():
        return
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(aside, path)


def aside_of(path: Path) -> Path:
    """Name of a folder while it is replaced on a file system that cannot exchange two folders."""
    return path.with_name(f".{path.name}.replaced")


@contextmanager
def parents_of(path: Path) -> Iterator[None]:
    """Create the parent folders of a path; remove them again on failure.

    Parameters
    ----------
    path : Path
        Path whose parent folders are needed.
    """
    made = [folder for folder in path.parents if not folder.exists()]  # the innermost first
    try:
        with storage_errors(path):
            for folder in reversed(made):
                folder.mkdir(exist_ok=True)
                _flush(folder.parent)
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):  # never created, no longer empty, or not ours to remove
                folder.rmdir()
        raise


def sweep(folder: Path) -> None:
    """Remove temporary files and lock files that killed processes left in a folder; once per folder and process.

    These files are locked while their process lives.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    if sys.platform == "win32" or folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError):  # sweeping is not needed for what follows
        with os.scandir(folder) as entries:
            leftovers = [Path(entry.path) for entry in entries if LEFTOVER.fullmatch(entry.name) and not entry.is_symlink()]
        for path in leftovers:
            _remove_unlocked(path)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into a ``StorageError`` that names the path.

    Parameters
    ----------
    path : Path
        The file or folder that is written.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"could not write {path}: {reason}. Free some space or choose another folder.") from error


def _probe(folder: Path) -> None:
    """Create a file in a folder and remove it; without a name where the system can, so that a crash leaves nothing."""
    if sys.platform == "linux":
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
            return
        except OSError as error:
            if error.errno not in (*UNSUPPORTED, errno.EISDIR):
                raise
    with _temporary(folder):
        pass


@contextmanager
def _temporary(parent: Path, suffix: str = "", folder: bool = False) -> Iterator[Path]:
    """Create a temporary file or folder, locked while it exists; remove what is there at the end."""
    sweep(parent)
    temporary, handle = _created(parent, suffix, folder)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            _remove(temporary)
        os.close(handle)


def _created(parent: Path, suffix: str, folder: bool) -> tuple[Path, int]:
    while True:
        path = parent / f".unfinished-{secrets.token_hex(8)}{suffix}"
        if folder:
            path.mkdir()
        try:
            handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError:
            if folder:
                path.rmdir()
            raise
        if _lock(handle) and path.exists():
            return path, handle
        os.close(handle)  # another process took it for a leftover before it was locked


def _lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed; False if another process has locked it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (*UNSUPPORTED, errno.ENOLCK):
                raise
    return True


def _remove_unlocked(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if _lock(handle):
            _remove(path)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _swap_in(temporary: Path, path: Path) -> None:
    """Put a temporary folder in the place of ``path``; an earlier folder there gets the temporary name."""
    if not path.exists():
        os.rename(temporary, path)
    elif not _exchanged(temporary, path):
        # Readers look for the folder aside while nothing stands at the path.
        os.rename(path, aside_of(path))
        try:
            os.rename(temporary, path)
        except BaseException:
            restore(path)
            raise
        _flush(path.parent)
        shutil.rmtree(aside_of(path), ignore_errors=True)
    _flush(path.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False where the system cannot do so."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return False
    if exchange(AT_WORKING_FOLDER, os.fsencode(one), AT_WORKING_FOLDER, os.fsencode(other), EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    if sys.platform == "win32" and path.is_dir():  # cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNSUPPORTED or not path.is_dir():  # some file systems cannot flush folders
            raise
    finally:
        os.close(handle)
