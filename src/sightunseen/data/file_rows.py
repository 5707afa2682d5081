"""Rows of a single file: thread-safe reading, few open files at a time, and checks of the values."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sightunseen.core.conversion import check_magnitude
from sightunseen.core.errors import DataError
from sightunseen.core.rows import Rows, block_rows
from sightunseen.data.arrow_files import ArrowFile, Block
from sightunseen.data.opening import opened

OPEN_FILES = 4  # files that stay open for the next block; a folder may have thousands


class FileRows(Rows):
    """Rows of one file. Finite values beyond the largest magnitude are an error.

    It can be pickled: the copy opens the file again.

    Parameters
    ----------
    path : Path
        The file.
    shape : tuple of int
        Shape of the table, (n, d) or (n,).
    dtype : dtype-like
        Type of the values.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        super().__init__(shape, dtype)
        self.path = path
        self._lock = Lock()
        self._checked = 0  # the first rows, up to here, were checked when they were read before

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows; see :meth:`~sightunseen.core.rows.Rows.read`."""
        with self._lock:
            block = opened(self.path, lambda: self._read(start, stop))
            if self.ndim == 2 and stop > self._checked:
                check_magnitude(block, str(self.path), start)
                self._checked = stop if start <= self._checked else self._checked
        return block

    def where(self, row: int) -> str:
        """Return the file of a row and its number there; see :meth:`~sightunseen.core.rows.Rows.where`."""
        return f"{self.path}, row {row + 1}"

    @abstractmethod
    def _read(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows; any exception becomes a ``DataError`` that names the file."""

    def _close(self) -> None:
        """Close what stays open between two calls."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


class OpenFiles:
    """The files that were read last. Others are closed, unless a thread is reading them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.files: list[FileRows] = []

    def add(self, rows: FileRows) -> None:
        """Note that a file was opened, and close the files that were not read for the longest time."""
        with self.lock:
            self.files = [each for each in self.files if each is not rows] + [rows]
            for each in self.files[:-OPEN_FILES]:
                if each._lock.acquire(blocking=False):
                    try:
                        each._close()
                        self.files.remove(each)
                    finally:
                        each._lock.release()


open_files = OpenFiles()


class ColumnRows(FileRows):
    """Columns of a Parquet or Arrow file as an array, read block by block.

    Parameters
    ----------
    file : ArrowFile
        The file.
    columns : sequence of str
        Columns to read.
    convert : Converter
        Function from some rows, and the index of the first of them, to an array.
    width : tuple of int
        Shape of a row: (d,) or ().
    dtype : dtype-like
        Type of the values.
    """

    def __init__(self, file: ArrowFile, columns: list[str], convert: Any, width: tuple[int, ...], dtype: DTypeLike) -> None:
        super().__init__(file.path, (file.rows, *width), dtype)
        self.file, self.columns, self.convert = file, columns, convert
        self._blocks: Iterator[Block] | None = None
        self._block: Block | None = None  # the current one; it holds rows [first, first + len) of the file

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        found = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        row = start
        while row < stop:
            first, batch = self._holding(row)
            piece = batch.slice(row - first, stop - row)
            found[row - start : row - start + len(piece)] = self.convert(piece, row)
            row += len(piece)
        return found

    def _holding(self, row: int) -> Block:
        """The block that holds a row."""
        following = 0 if self._block is None else self._block[0] + len(self._block[1])
        if self._blocks is None or self._block is None or row < self._block[0] or self.file.group_start(row) > following:
            self._close()
            self._blocks = self.file.blocks(self.columns, row, block_rows(self.shape))
            open_files.add(self)
            self._block = next(self._blocks, None)
        while self._block is not None and row >= self._block[0] + len(self._block[1]):
            self._block = next(self._blocks, None)
        if self._block is None:
            self._close()
            raise DataError(f"{self.path} has fewer rows than the {self.file.rows:,} that it declares. Write it again.")
        return self._block

    def _close(self) -> None:
        if self._blocks is not None:
            self._blocks.close()  # type: ignore[attr-defined]
        self._blocks = self._block = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_blocks": None, "_block": None}
