"""Cache of converted files, keyed by content: arrays as ``.npy``, which open memory-mapped.

The folder (``SIGHTUNSEEN_CACHE``, else ``~/.cache/sightunseen``) can be deleted at any time.
"""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import StorageError
from sightunseen.core.files import folder_written_atomically, sha256_of, written_atomically

CONTENTS = "contents.json"  # the names of an entry's arrays
LAYOUT = "2"  # part of every key; increase it when the conversion of a file changes
RACY_SECONDS = 2.0  # a file modified this recently may change again without a new time stamp

Arrays = Mapping[str, NDArray[Any]]


def cache_folder() -> Path:
    """Return the folder of the cache."""
    chosen = os.environ.get("SIGHTUNSEEN_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sightunseen"


def cached_arrays(path: Path, convert: Callable[[Path], Arrays]) -> tuple[Arrays, str]:
    """Convert a file to arrays, or load the arrays of an earlier conversion of the same content.

    Warns if the cache cannot be written.

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
    """
    fingerprint = content_fingerprint(path)
    folder = cache_folder() / f"{fingerprint[:32]}-{convert.__name__}-{LAYOUT}"
    entry = _load_entry(folder)
    if entry is not None:
        return entry, fingerprint
    arrays = convert(path)
    try:
        with folder_written_atomically(folder, replaceable=lambda _: True) as temporary:
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
            (temporary / CONTENTS).write_text(json.dumps(sorted(arrays)), "utf-8")
    except StorageError as error:
        warnings.warn(f"the cache cannot be used, loading will stay slow: {error}", stacklevel=2)
        return arrays, fingerprint
    return _load_entry(folder) or arrays, fingerprint


def _load_entry(folder: Path) -> Arrays | None:
    """The arrays of an entry, memory-mapped; None if the entry does not exist or is incomplete."""
    try:
        names = json.loads((folder / CONTENTS).read_text("utf-8"))
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError):
        return None


def content_fingerprint(path: Path) -> str:
    """Compute the SHA-256 of a file; the result is cached while the file's size and time stamp stay the same.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        Hexadecimal digest.
    """
    status = path.stat()
    resolved = str(path.resolve())
    signature = [resolved, status.st_size, status.st_mtime_ns]
    note = cache_folder() / "known" / f"{hashlib.sha256(resolved.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # no entry yet, or a damaged one
        known = json.loads(note.read_text("utf-8"))
        if known["signature"] == signature:
            return str(known["sha256"])
    fingerprint = sha256_of(path)
    if time.time() - status.st_mtime > RACY_SECONDS:
        with suppress(StorageError), written_atomically(note) as temporary:  # without the entry, only time is lost
            temporary.write_text(json.dumps({"signature": signature, "sha256": fingerprint}), "utf-8")
    return fingerprint
