"""Rows of features that are read from files in blocks, for data larger than memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sightunseen.core.memory import check_memory

VALUES = 1 << 23  # values of a block: 32 MiB in single precision, enough to keep a processor busy with matrix products
FEWEST_ROWS, MOST_ROWS = 256, 1 << 16

Indices = NDArray[np.intp]


class Rows(ABC):
    """Array-like view of a table on disk; only the rows that are asked for are read.

    Slices in ascending order read the files once. Index arrays are gathered in one pass. ``numpy.asarray`` reads all rows, if
    they fit into memory.

    Parameters
    ----------
    shape : tuple of int
        Shape of the table, (n, d) or (n,).
    dtype : dtype-like, default=numpy.float32
        Type of the values.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> None:
        self.shape, self.dtype = tuple(int(size) for size in shape), np.dtype(dtype)

    @abstractmethod
    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows.

        Parameters
        ----------
        start, stop : int
            First row, and the row after the last one; 0 <= start <= stop <= n.

        Returns
        -------
        ndarray of shape (stop - start, ...)
            The rows.

        Raises
        ------
        DataError
            If a file is damaged.
        """

    def where(self, row: int) -> str:
        """Return the file of a row and its number there, which counts from one, for an error message.

        Parameters
        ----------
        row : int
            Index of the row.

        Returns
        -------
        str
            Such as ``part-0007.parquet, row 12``.
        """
        return f"row {row + 1}"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of all rows in memory."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, wanted: Any) -> NDArray[Any]:
        if isinstance(wanted, slice):
            start, stop, step = wanted.indices(len(self))
            if step != 1:
                raise IndexError(f"rows of files are read in order, with step 1; got step {step}.")
            return self.read(start, max(start, stop))
        indices = np.asarray(wanted)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if indices.ndim == 0:
            row = int(indices) + (len(self) if indices < 0 else 0)
            return np.asarray(self.read(row, row + 1)[0])
        found = np.empty((len(indices), *self.shape[1:]), dtype=self.dtype)
        order = np.argsort(indices, kind="stable")
        ordered, filled = indices[order], 0
        for rows, block in selected_blocks(self, ordered):
            found[order[filled : filled + len(rows)]] = block
            filled += len(rows)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        check_memory(self.nbytes, self.where(0).partition(",")[0])
        whole = np.empty(self.shape, dtype=self.dtype)
        for start in range(0, len(self), block_rows(self.shape)):
            block = self.read(start, min(start + block_rows(self.shape), len(self)))
            whole[start : start + len(block)] = block
        return whole if dtype is None else whole.astype(dtype, copy=False)


class SelectedRows(Rows):
    """Some rows of another table, such as the training images.

    Parameters
    ----------
    parent : Rows
        The table.
    rows : ndarray of int of shape (n,)
        Indices of the rows. They are read fastest in ascending order.
    """

    def __init__(self, parent: Rows, rows: Indices) -> None:
        super().__init__((len(rows), *parent.shape[1:]), parent.dtype)
        self.parent, self.rows = parent, rows

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows of the selection; see :meth:`Rows.read`."""
        return self.parent[self.rows[start:stop]]

    def where(self, row: int) -> str:
        """Return the file of a row and its number there; see :meth:`Rows.where`."""
        return self.parent.where(int(self.rows[row]))


class CollectedRows(Rows):
    """A table that keeps some of its rows when they are read.

    Parameters
    ----------
    parent : Rows or ndarray of shape (n, d)
        The table.
    rows : ndarray of int of shape (k,)
        Indices of the rows to keep, in ascending order.
    """

    def __init__(self, parent: Any, rows: Indices) -> None:
        super().__init__(parent.shape, parent.dtype)
        self.parent, self.rows = parent, rows
        self._kept = np.empty((len(rows), *parent.shape[1:]), dtype=parent.dtype)
        self._known = np.zeros(len(rows), dtype=bool)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows; see :meth:`Rows.read`."""
        block = self.parent[start:stop]
        own = slice(*np.searchsorted(self.rows, (start, stop)))
        self._kept[own], self._known[own] = block[self.rows[own] - start], True
        return np.asarray(block)

    def keep(self, start: int, stop: int, rows: NDArray[Any]) -> None:
        """Keep rows that were read elsewhere.

        Parameters
        ----------
        start, stop : int
            First row of a part of the table, and the row after its last one.
        rows : ndarray of shape (m, d)
            All rows to keep of this part.
        """
        own = slice(*np.searchsorted(self.rows, (start, stop)))
        self._kept[own], self._known[own] = rows, True

    def where(self, row: int) -> str:
        """Return the file of a row and its number there; see :meth:`Rows.where`."""
        return self.parent.where(row) if isinstance(self.parent, Rows) else super().where(row)

    def collected(self, rows: Indices) -> NDArray[Any]:
        """Return some of the kept rows; those that were not read before are read now.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Indices among the rows to keep.

        Returns
        -------
        ndarray of shape (m, d)
            The rows.
        """
        if not self._known.all():
            self._kept[:], self._known[:] = self.parent[self.rows], True
        return np.asarray(self._kept[np.searchsorted(self.rows, rows)])


class JoinedRows(Rows):
    """Tables one after the other, such as the files of a folder.

    Parameters
    ----------
    parts : sequence of Rows or ndarray
        Tables of the same width.
    names : sequence of str
        Name of each table, for error messages.
    """

    def __init__(self, parts: Sequence[Any], names: Sequence[str]) -> None:
        self.parts, self.names = list(parts), list(names)
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])
        super().__init__((int(self.starts[-1]), *self.parts[0].shape[1:]), np.result_type(*(part.dtype for part in self.parts)))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows; see :meth:`Rows.read`."""
        found: list[NDArray[Any]] = []
        for k in range(self._part(start), len(self.parts)):
            first = int(self.starts[k])
            if first >= stop and found:
                break
            found.append(np.asarray(self.parts[k][max(start - first, 0) : max(stop - first, 0)]))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def where(self, row: int) -> str:
        """Return the file of a row and its number there; see :meth:`Rows.where`."""
        k = self._part(row)
        return f"{self.names[k]}, row {row - int(self.starts[k]) + 1}"

    def _part(self, row: int) -> int:
        return max(0, min(int(np.searchsorted(self.starts, row, side="right")) - 1, len(self.parts) - 1))


def block_rows(shape: Sequence[int]) -> int:
    """Number of rows of a block of about ``VALUES`` values.

    Parameters
    ----------
    shape : sequence of int
        Shape of the table.

    Returns
    -------
    int
        The number; it depends on the width alone, so that the same rows give the same blocks wherever they are stored.

    Examples
    --------
    >>> block_rows((1_000_000, 2048))
    4096
    """
    return int(np.clip(VALUES // max(int(np.prod(shape[1:])), 1), FEWEST_ROWS, MOST_ROWS))


def selected_blocks(table: Any, rows: Indices) -> Iterator[tuple[Indices, NDArray[Any]]]:
    """Read some rows of a table block by block; blocks without such rows are skipped.

    Parameters
    ----------
    table : Rows or ndarray of shape (n, ...)
        The table.
    rows : ndarray of int of shape (m,)
        Indices of rows in ascending order.

    Yields
    ------
    rows : ndarray of int of shape (k,)
        Indices of some of the rows, in order.
    block : ndarray of shape (k, ...)
        Their content.
    """
    size = block_rows(table.shape)
    cuts = np.flatnonzero(np.diff(rows // size)) + 1  # where the next block of the table begins
    for wanted in np.split(rows, cuts):
        if not len(wanted):
            continue
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        block = table[first:last]
        consecutive = bool((np.diff(wanted) == 1).all())
        yield wanted, block if consecutive else block[wanted - first]
