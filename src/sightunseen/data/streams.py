"""Rows of a Parquet file as an array that is read piece by piece, so that a file may be larger than the memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError
from sightunseen.data.columns import Columns, opened

ROWS = 4096  # read at a time


class ParquetRows:
    """``rows[start:stop]`` of what ``convert`` makes of columns: (n, d) or (n,), n above 0. Going back begins anew."""

    def __init__(self, path: Path, names: Sequence[str], convert: Callable[[Columns], NDArray[Any]]) -> None:
        self.path, self.names, self.convert = path, list(names), convert
        self._blocks: Iterator[NDArray[Any]] = iter(())
        self._block, self._start = self._first(), 0  # rows [start, start + len(block)) of the file
        self.shape: tuple[int, ...] = (self._count(), *self._block.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, wanted: slice) -> NDArray[Any]:
        start, stop, step = wanted.indices(len(self))
        if step != 1:
            raise IndexError(f"rows of a stream come one after the other; got steps of {step}.")
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
        """The first block of the file, opened anew."""
        self._blocks = self._read()
        return opened(self.path, lambda: next(self._blocks))

    def _read(self) -> Iterator[NDArray[Any]]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path, pre_buffer=False) as file:  # buffered before, all that was read would stay
            for batch in file.iter_batches(ROWS, columns=self.names):
                yield self.convert({name: batch.column(name).to_numpy(zero_copy_only=False) for name in self.names})

    def _count(self) -> int:
        from pyarrow import parquet

        return int(parquet.read_metadata(self.path).num_rows)
