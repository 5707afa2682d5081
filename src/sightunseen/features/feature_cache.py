"""Cache of extracted features, keyed by the content of the photo: one SQLite database per backbone."""

import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.data.content_cache import cache_folder
from sightunseen.features.backbones import Backbone

LOCK_TIMEOUT = 60.0  # seconds to wait while another process writes
T = TypeVar("T")


class FeatureCache:
    """Features by the SHA-256 of their photo, safe for concurrent threads and processes.

    A damaged database is renamed and replaced by a new one. If the database cannot be written, a warning is issued and
    features are not cached.

    Parameters
    ----------
    backbone : Backbone
        The backbone; its fingerprint selects the database.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.path = cache_folder() / "features" / f"{backbone.fingerprint[:32]}.sqlite"
        self.size = backbone.size
        self.lock = Lock()
        self.database: sqlite3.Connection | None = None
        self.usable = True

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """Look up features.

        Parameters
        ----------
        keys : sequence of bytes
            SHA-256 digests of photos.

        Returns
        -------
        dict of bytes to ndarray of shape (size,)
            Features of the photos that are in the cache.
        """
        query = "SELECT photo, features, checksum FROM features WHERE photo = ?"

        def look_up(database: sqlite3.Connection) -> list[tuple[bytes, bytes, int]]:
            return [row for key in keys for row in database.execute(query, (key,))]

        rows: list[tuple[bytes, bytes, int]] = self._try(look_up, [])
        # SQLite does not detect a changed byte in the features; the checksum does.
        intact = [(key, content) for key, content, checksum in rows if zlib.crc32(content) == checksum]
        return {key: np.frombuffer(content, "<f4") for key, content in intact if len(content) == 4 * self.size}

    def keep(self, features: Mapping[bytes, Floats]) -> None:
        """Store features in one transaction, which is committed on return.

        Parameters
        ----------
        features : dict of bytes to ndarray of shape (size,)
            Features by the SHA-256 digest of their photo.
        """
        contents = [(key, row.astype("<f4").tobytes()) for key, row in features.items()]
        rows = [(key, content, zlib.crc32(content)) for key, content in contents]

        def insert(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

        self._try(insert, None)

    def close(self) -> None:
        """Close the database."""
        with self.lock:
            if self.database is not None:
                self.database.close()
                self.database = None

    def _try(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Return ``work(database)``, with one retry on a damaged database; ``otherwise`` if the cache cannot be used."""
        with self.lock:
            for _ in range(2):
                if not self.usable:
                    break
                try:
                    self.database = self.database or self._opened()
                    return work(self.database)
                except (sqlite3.OperationalError, OSError) as error:  # locked, disk full, read-only
                    self.usable = False
                    warnings.warn(f"the feature cache {self.path} cannot be used: {error}", stacklevel=3)
                except sqlite3.DatabaseError:
                    self._set_aside()
        return otherwise

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT, check_same_thread=False)
        try:
            database.execute("CREATE TABLE IF NOT EXISTS features (photo BLOB PRIMARY KEY, features BLOB, checksum INTEGER)")
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self) -> None:
        """Rename a damaged database, unless another process has already replaced it."""
        if self.database is not None:
            self.database.close()
            self.database = None
        if _is_intact(self.path):
            return
        for ending in ("", "-journal"):
            old = Path(f"{self.path}{ending}")
            if old.exists():
                os.replace(old, Path(f"{self.path}.damaged{ending}"))
        warnings.warn(f"the feature cache {self.path} was damaged; it is set aside and a new one is created.", stacklevel=4)


def _is_intact(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT)) as database:
            return bool(database.execute("PRAGMA quick_check").fetchall() == [("ok",)])
    except sqlite3.DatabaseError:
        return False
