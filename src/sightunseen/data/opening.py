"""Opening files of unknown content: only regular files are read, and every failure becomes a ``DataError``."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SightUnseenError
from sightunseen.core.limits import DOCUMENT_BYTES

T = TypeVar("T")


def opened(path: Path, read: Callable[[], T], form: str = "", remedy: str = "Write it again.") -> T:
    """Return ``read()``, with every failure turned into a ``DataError`` that names the file.

    Parameters
    ----------
    path : Path
        The file.
    read : callable
        Function without arguments that reads it.
    form : str, default=""
        Format of the file, for the error message.
    remedy : str, default="Write it again."
        What to do if the file is damaged, for the error message.

    Returns
    -------
    object
        The return value of ``read``.

    Raises
    ------
    DataError
        If the file is missing, empty or not a regular file, or if ``read`` fails.
    """
    size_of(path, remedy)
    try:
        return read()
    except SightUnseenError:
        raise
    except MemoryError as error:
        raise DataError(f"{path} does not fit into memory. Use single precision, fewer rows, or more memory.") from error
    except Exception as error:  # every format's reader has its own exceptions
        what = f"{path} cannot be read{form and f' as {form}'}"
        raise DataError(f"{what} ({type(error).__name__}: {quoted(error, 150)}). {remedy}") from error


def size_of(path: Path, remedy: str = "Write it again.") -> int:
    """Size of a regular file.

    Parameters
    ----------
    path : Path
        The file.
    remedy : str, default="Write it again."
        What to do if the file is empty, for the error message.

    Returns
    -------
    int
        Size in bytes, more than zero.

    Raises
    ------
    DataError
        If there is no such file, or if it is empty or not a regular file: reading from a pipe or a device may block.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: NUL in the path
        raise DataError(f"there is no file {path}.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise DataError(f"{path} is {kind}; expected a file.")
    if not status.st_size:  # files of /proc, which may block, have no size either
        raise DataError(f"{path} cannot be read: it is empty. {remedy}")
    return status.st_size


def read_lines(path: Path) -> tuple[str, ...]:
    """Read the lines of a text file, without surrounding blanks; blank lines are left out.

    Parameters
    ----------
    path : Path
        The file, in UTF-8.

    Returns
    -------
    tuple of str
        The lines.

    Raises
    ------
    DataError
        If the file cannot be read, is too large or is not UTF-8.
    """
    if size_of(path) > DOCUMENT_BYTES:
        raise DataError(f"{path} is larger than {DOCUMENT_BYTES >> 20} MiB, the limit of such files.")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text in UTF-8: byte {error.start} is not. Save it again as UTF-8.") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())
