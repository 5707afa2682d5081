"""Rows of a Parquet file, read in blocks, for files larger than memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError
from sightunseen.data.columns import Columns
from sightunseen.data.opening import opened

ROWS = 4096  # rows per block


class ParquetRows:
    """Array-like view of columns of a non-empty Parquet file that is read on demand.

    Only slices with step 1 are supported. Slices in ascending order read the file once; a slice that starts before the
    current block reads the file again from the beginning.

    Parameters
    ----------
    path : Path
        The ``.parquet`` file.
    names : sequence of str
        Columns to read.
    convert : callable
        Function from a block of columns, a dict of arrays, to an array of shape (n_block, ...).

    Attributes
    ----------
    shape : tuple of int
        Shape of the whole array.

    Raises
    ------
    DataError
        If the file cannot be read, or if its rows differ in length.
    """

    def __init__(self, path: Path, names: Sequence[str], convert: Callable[[Columns], Any]) -> None:
        from pyarrow import parquet

        self.path, self.names, self.convert = path, list(names), convert
        self._blocks: Iterator[NDArray[Any]] = iter(())
        self._block, self._start = self._first(), 0  # the block holds rows [start, start + len(block)) of the file
        self.shape: tuple[int, ...] = (int(parquet.read_metadata(path).num_rows), *self._block.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, wanted: slice) -> NDArray[Any]:
        start, stop, step = wanted.indices(len(self))
        if step != 1:
            raise IndexError(f"rows of a Parquet file are read in order, with step 1; got step {step}.")
        if start < self._start:
            self._block, self._start = self._first(), 0
        while self._start + len(self._block) < stop:
            done = max(0, min(start - self._start, len(self._block)))
            following = opened(self.path, lambda: next(self._blocks))
            if following.shape[1:] != self.shape[1:]:
                raise DataError(
                    f"{self.path}: all rows must be of one length; found {self.shape[1:]} and {following.shape[1:]}."
                )
            self._block, self._start = np.concatenate([self._block[done:], following]), self._start + done
        return self._block[start - self._start : max(start, stop) - self._start]

    def _first(self) -> NDArray[Any]:
        """Open the file again and return its first block."""
        self._blocks = self._read()
        return opened(self.path, lambda: next(self._blocks))

    def _read(self) -> Iterator[NDArray[Any]]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path, pre_buffer=False) as file:  # pre-buffering would keep all blocks in memory
            for batch in file.iter_batches(ROWS, columns=self.names):
                # Not by name, which would search all names for each column.
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield self.convert({name: columns[name].to_numpy(zero_copy_only=False) for name in self.names})
