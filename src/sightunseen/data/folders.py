"""Files of folders: visible ones at any depth, in natural order."""

import re
from collections.abc import Iterator
from pathlib import Path

from sightunseen.core.errors import DataError


def visible(folder: Path) -> list[Path]:
    """List the files and folders of a folder by name, without hidden ones.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    list of Path
        The paths.

    Raises
    ------
    DataError
        If the folder cannot be read.
    """
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read ({error.strerror}).") from error


def files_below(folder: Path, visited: set[tuple[int, int]] | None = None) -> Iterator[Path]:
    """Yield all visible files at any depth. Every folder is visited once, because links may form cycles.

    Parameters
    ----------
    folder : Path
        The folder, or a file.
    visited : set of (int, int), default=None
        Identities of folders to leave out; those that are visited are added.

    Yields
    ------
    Path
        The files.
    """
    visited = set() if visited is None else visited
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        if not path.is_dir():
            yield path
        elif (identity := identity_of(path)) not in visited:
            visited.add(identity)
            waiting += reversed(visible(path))


def identity_of(folder: Path) -> tuple[int, int]:
    """Return the device and inode of a folder, which are the same whatever link leads to it."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def in_natural_order(paths: Iterator[Path] | list[Path]) -> list[Path]:
    """Sort paths so that numbers in names are compared as numbers.

    >>> [path.name for path in in_natural_order([Path("part-10.npy"), Path("part-9.npy")])]
    ['part-9.npy', 'part-10.npy']
    """
    return sorted(paths, key=_natural_key)


def _natural_key(path: Path) -> tuple[list[tuple[int, str]], str]:
    pieces = re.split(r"([0-9]+)", str(path))
    # By the number of digits, then by the digits: a number of thousands of digits is not converted.
    numbers = [(len(piece.lstrip("0")), piece.lstrip("0")) if k % 2 else (0, piece) for k, piece in enumerate(pieces)]
    return numbers, str(path)
