"""Locks: at most one process writes to a model folder, a results folder or a cache entry at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sightunseen.core.errors import StorageError
from sightunseen.core.files import LOCK_ENDING, parents_of, restore, storage_errors, sweep

POLL = 0.02  # seconds between two attempts
LEAST_SECONDS = 0.2  # a process that sweeps the folder holds the lock for a moment


@contextmanager
def locked(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold an exclusive lock on a file or folder, which need not exist.

    The lock is on the file ``.{name}.sightunseen.lock`` beside it, which is removed at the end. The operating system releases
    the lock of a killed process.

    Parameters
    ----------
    path : Path
        The file or folder; a symbolic link is followed.
    seconds : float, default=0.0
        Time to wait for another process that holds the lock.

    Raises
    ------
    StorageError
        If another process holds the lock, or if the lock file cannot be created.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "model")
    >>> with locked(path), locked(path):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ...
    sightunseen.core.errors.StorageError: another process is writing to ...
    """
    path = path.resolve()
    file = path.with_name(f".{path.name}{LOCK_ENDING}")
    with parents_of(path):
        lock = _acquired(path, file, seconds)
        try:
            with storage_errors(path):
                sweep(path.parent)
                restore(path)
            yield
        finally:
            # Removed while it is held: a process that waits for this file notices and creates a new one.
            with suppress(OSError):
                file.unlink()
            lock.release()


def _acquired(path: Path, file: Path, seconds: float) -> Any:
    from filelock import FileLock, Timeout  # takes 20 ms to import

    lock = FileLock(file, timeout=max(seconds, LEAST_SECONDS))
    with storage_errors(path):
        try:
            return lock.acquire(poll_interval=POLL).lock
        except Timeout as error:
            waited = f" (waited {seconds:g} s)" if seconds else ""
            raise StorageError(
                f"another process is writing to {path}{waited}. Wait until it has finished, or choose another folder."
            ) from error
