"""A cache of converted files, keyed by content: arrays as ``.npy``, opened memory-mapped, so the second load costs nothing.

The folder (``SIGHTUNSEEN_CACHE``, else ``~/.cache/sightunseen``) can be deleted at any time.
"""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import StorageError
from sightunseen.core.files import folder_written_atomically, sha256_of, written_atomically

CONTENTS = "contents.json"  # the names of an entry's arrays
LAYOUT = "2"  # part of every key; raised when the arrays made from a file change
RACY_SECONDS = 2.0  # a file changed this shortly before it was read may change again without a new time stamp

Arrays = Mapping[str, NDArray[Any]]


def cache_folder() -> Path:
    """Where converted files are kept."""
    chosen = os.environ.get("SIGHTUNSEEN_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sightunseen"


def cached_arrays(path: Path, convert: Callable[[Path], Arrays]) -> tuple[Arrays, str]:
    """The arrays that ``convert`` makes of a file, and the file's fingerprint (SHA-256 of its content)."""
    fingerprint = content_fingerprint(path)
    folder = cache_folder() / f"{fingerprint[:32]}-{convert.__name__}-{LAYOUT}"
    opened = _opened(folder)
    if opened is not None:
        return opened, fingerprint
    arrays = convert(path)
    try:
        with folder_written_atomically(folder, replaceable=lambda _: True) as temporary:
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
            (temporary / CONTENTS).write_text(json.dumps(sorted(arrays)), "utf-8")
    except StorageError as error:
        warnings.warn(f"the cache cannot be used, loading will stay slow: {error}", stacklevel=2)
        return arrays, fingerprint
    return _opened(folder) or arrays, fingerprint


def _opened(folder: Path) -> Arrays | None:
    """The arrays of an entry, memory-mapped; None where it is not there or not whole."""
    try:
        names = json.loads((folder / CONTENTS).read_text("utf-8"))
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError):
        return None


def content_fingerprint(path: Path) -> str:
    """The SHA-256 of a file; remembered while its size and time stamp stay the same."""
    status = path.stat()
    place = str(path.resolve())
    signature = [place, status.st_size, status.st_mtime_ns]
    note = cache_folder() / "known" / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
    try:
        known = json.loads(note.read_text("utf-8"))
        if known["signature"] == signature:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not known yet, or not readable: hash it
    fingerprint = sha256_of(path)
    if time.time() - status.st_mtime > RACY_SECONDS:
        try:
            with written_atomically(note) as temporary:
                temporary.write_text(json.dumps({"signature": signature, "sha256": fingerprint}), "utf-8")
        except StorageError:
            pass  # a cache that cannot be written only costs time
    return fingerprint
