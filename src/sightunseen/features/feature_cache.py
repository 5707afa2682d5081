"""Features that were extracted before, by the content of the photo: one SQLite database a backbone."""

import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np

from sightunseen.data.content_cache import cache_folder
from sightunseen.features.backbones import Backbone, Floats

PATIENCE = 60.0  # seconds to wait while another process writes
T = TypeVar("T")


class FeatureCache:
    """Features by the SHA-256 of their photo; any number of threads and processes may use it at once.

    A damaged database is set aside and begun anew; one that cannot be written costs time, nothing else.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.path = cache_folder() / "features" / f"{backbone.fingerprint[:32]}.sqlite"
        self.size = backbone.size
        self.lock = Lock()
        self.database: sqlite3.Connection | None = None
        self.usable = True

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The features (size,) of those photos that are known."""
        query = "SELECT photo, features, checksum FROM features WHERE photo = ?"

        def look_up(database: sqlite3.Connection) -> list[tuple[bytes, bytes, int]]:
            return [row for key in keys for row in database.execute(query, (key,))]

        nothing: list[tuple[bytes, bytes, int]] = []
        rows = self._try(look_up, nothing)
        # What SQLite cannot notice, a changed byte among the features, the checksum does.
        whole = [(key, content) for key, content, check in rows if zlib.crc32(content) == check]
        return {key: np.frombuffer(content, "<f4") for key, content in whole if len(content) == 4 * self.size}

    def keep(self, features: Mapping[bytes, Floats]) -> None:
        """Remember the features of these photos; they are safe when this returns."""
        contents = [(key, row.astype("<f4").tobytes()) for key, row in features.items()]
        rows = [(key, content, zlib.crc32(content)) for key, content in contents]

        def insert(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

        self._try(insert, None)

    def close(self) -> None:
        """Let go of the database."""
        with self.lock:
            if self.database is not None:
                self.database.close()
                self.database = None

    def _try(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        with self.lock:
            for _ in range(2):
                if not self.usable:
                    break
                try:
                    self.database = self.database or self._opened()
                    return work(self.database)
                except (sqlite3.OperationalError, OSError) as error:  # locked, full, not to be written
                    self.usable = False
                    warnings.warn(f"the cache of features {self.path} cannot be used: {error}", stacklevel=3)
                except sqlite3.DatabaseError:
                    self._set_aside()
        return otherwise

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=PATIENCE, check_same_thread=False)
        try:
            database.execute("CREATE TABLE IF NOT EXISTS features (photo BLOB PRIMARY KEY, features BLOB, checksum INTEGER)")
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self) -> None:
        """Give a damaged database another name, unless another process has done so already."""
        if self.database is not None:
            self.database.close()
            self.database = None
        if _is_whole(self.path):
            return
        for ending in ("", "-journal"):
            old = Path(f"{self.path}{ending}")
            if old.exists():
                os.replace(old, Path(f"{self.path}.damaged{ending}"))
        warnings.warn(f"the cache of features {self.path} was damaged; it is set aside and begun anew.", stacklevel=4)


def _is_whole(path: Path) -> bool:
    try:
        database = sqlite3.connect(path, timeout=PATIENCE)
        try:
            return bool(database.execute("PRAGMA quick_check").fetchall() == [("ok",)])
        finally:
            database.close()
    except sqlite3.DatabaseError:
        return False
