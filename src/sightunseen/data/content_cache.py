"""Cache of converted files, keyed by content: arrays as ``.npy``, which open memory-mapped and carry a checksum.

The folder (``SIGHTUNSEEN_CACHE``, else ``~/.cache/sightunseen``) can be deleted at any time. A damaged entry is rebuilt.
"""

import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from sightunseen.core.documents import DocumentError, read_document
from sightunseen.core.errors import DataError, StorageError
from sightunseen.core.files import folder_written_atomically, sha256_of, sweep, written_atomically
from sightunseen.core.locks import locked
from sightunseen.core.memory import check_memory

CONTENTS = "contents.json"  # names and checksums of an entry's arrays
LAYOUT = "3"  # part of every key; increase it when the conversion of a file changes
RACY_SECONDS = 2.0  # a file modified this recently may change again without a new time stamp
WAIT_SECONDS = 600.0  # for another process that converts the same file

Arrays = Mapping[str, NDArray[Any]]


def cache_folder() -> Path:
    """Return the folder of the cache."""
    chosen = os.environ.get("SIGHTUNSEEN_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sightunseen"


def cached_arrays(path: Path, convert: Callable[[Path], Arrays]) -> tuple[Arrays, str]:
    """Convert a file to arrays, or load the arrays of an earlier conversion of the same content.

    Arrays from the cache are compared with their checksums. Warns if an entry is damaged, which is then rebuilt, and if the
    cache cannot be written.

    Parameters
    ----------
    path : Path
        The file.
    convert : callable
        Function from the path to arrays by name. The function's name is part of the cache key.

    Returns
    -------
    arrays : dict of str to ndarray
        The arrays, memory-mapped where the cache can be used.
    fingerprint : str
        SHA-256 of the file's content.

    Raises
    ------
    DataError
        If the file is larger than the free memory, or is changed while it is read.
    """
    check_memory(path.stat().st_size, path)  # before gigabytes are read for the fingerprint
    fingerprint = content_fingerprint(path)
    sweep(cache_folder())
    folder = cache_folder() / f"{fingerprint[:32]}-{convert.__name__}-{LAYOUT}"
    entry = _load_entry(folder)[0]
    if entry is not None:
        return entry, fingerprint
    arrays: Arrays | None = None
    try:
        with locked(folder, WAIT_SECONDS):
            entry, damaged = _load_entry(folder)  # another process may have converted the file in the meantime
            if damaged:
                warnings.warn(f"the cache entry {folder} is damaged; it is rebuilt from {path}.", stacklevel=2)
            if entry is None:
                arrays = _converted(path, convert)
                _write_entry(folder, arrays)
                entry = _load_entry(folder)[0]
    except StorageError as error:
        warnings.warn(f"the cache cannot be used, loading will stay slow: {error}", stacklevel=2)
    return entry or arrays or _converted(path, convert), fingerprint


def content_fingerprint(path: Path) -> str:
    """Compute the SHA-256 of a file; the result is cached while the operating system reports no change of the file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        Hexadecimal digest.
    """
    signature = _signature(path)
    note = cache_folder() / "known" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]}.json"
    sweep(note.parent)
    with suppress(OSError, DocumentError, KeyError, TypeError):  # no entry yet, or a damaged one
        known = read_document(note)
        if known["signature"] == signature and known["checksum"] == _checksum([signature, known["sha256"]]):
            return str(known["sha256"])
    fingerprint = sha256_of(path)
    # On Windows a program can set every time stamp, so that nothing shows a change.
    if sys.platform != "win32" and time.time() - path.stat().st_ctime > RACY_SECONDS:
        content = {"signature": signature, "sha256": fingerprint, "checksum": _checksum([signature, fingerprint])}
        with suppress(StorageError), written_atomically(note) as temporary:  # without the entry, only time is lost
            temporary.write_text(json.dumps(content), "utf-8")
    return fingerprint


def _signature(path: Path) -> list[int]:
    """What changes whenever a file is written or replaced: programs can set the modification time, but not the change time."""
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _converted(path: Path, convert: Callable[[Path], Arrays]) -> Arrays:
    before = _signature(path)
    arrays = convert(path)
    if _signature(path) != before:
        raise DataError(f"{path} was changed while it was read. Wait until it is written completely, then try again.")
    return arrays


def _write_entry(folder: Path, arrays: Arrays) -> None:
    with folder_written_atomically(folder, replaceable=lambda _: True) as temporary:
        for name, array in arrays.items():
            with open(temporary / f"{name}.npy", "wb") as file:
                # Through a bare ``write``: numpy's own writing to a file does not notice that a disk is full.
                np.lib.format.write_array(SimpleNamespace(write=file.write), np.ascontiguousarray(array), allow_pickle=False)
        checksums = {name: _mapped(temporary / f"{name}.npy")[1] for name in arrays}
        text = json.dumps({"arrays": checksums, "checksum": _checksum(checksums)})
        (temporary / CONTENTS).write_text(text, "utf-8")


def _load_entry(folder: Path) -> tuple[Arrays | None, bool]:
    """The arrays of an entry, memory-mapped, or None; and whether the entry is damaged."""
    if not folder.exists():
        return None, False
    with suppress(Exception):  # damaged headers of arrays raise exceptions of many types
        contents = read_document(folder / CONTENTS)
        found = {name: _mapped(folder / f"{name}.npy") for name in contents["arrays"]}
        checksums = {name: checksum for name, (_, checksum) in found.items()}
        if checksums == contents["arrays"] and contents["checksum"] == _checksum(checksums):
            return {name: array for name, (array, _) in found.items()}, False
    return None, folder.exists()  # not damaged, if it was deleted in the meantime


def _mapped(path: Path) -> tuple[NDArray[Any], str]:
    """Map an array of a ``.npy`` file into memory; the array, and the checksum of its header and content."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    checksum = xxhash.xxh3_64()
    with open(path, "rb") as file:
        checksum.update(file.read(array.offset))
    checksum.update(array.reshape(-1).view(np.uint8).data)
    return array, checksum.hexdigest()


def _checksum(content: Any) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode())
