"""Iterate over large feature tables in blocks of rows, so that memory does not grow with the number of images."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.conversion import check_magnitude

ROWS = 1024  # 8 MiB of 2,048 float32 features: a block fits into the processor's cache

Named = tuple[Any, NDArray[Any]]  # features (k, d) and the names of their images (k,)


def row_blocks(X: Any, start: int = 0, stop: int | None = None) -> Iterator[Any]:
    """Yield the rows of a table in blocks of at most ``ROWS``.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, in memory or memory-mapped; only the current block is read. An input of another shape is yielded
        unchanged, so that scikit-learn's validation reports it.
    start : int, default=0
        First row.
    stop : int, default=None
        The row after the last one. None: all rows.

    Yields
    ------
    array of shape (k, d)
        Consecutive rows. An empty table gives one empty block.
    """
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2:
        yield table
        return
    end = table.shape[0] if stop is None else stop
    for first in range(start, max(end, start + 1), ROWS):
        yield table[first : min(first + ROWS, end)]


def named_blocks(X: Any, names: Any = None, start: int = 0, stop: int | None = None) -> Iterator[Named]:
    """Yield a table in blocks of rows, each with the names of its images.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features.
    names : array of shape (n,), default=None
        Names of the images. None: the row numbers, as text.
    start : int, default=0
        First row.
    stop : int, default=None
        The row after the last one. None: all rows.

    Yields
    ------
    block : array of shape (k, d)
        Consecutive rows.
    names : ndarray of shape (k,)
        Their names.

    Raises
    ------
    DataError
        If a feature is beyond the largest magnitude.

    Examples
    --------
    >>> [(block.shape, names.tolist()) for block, names in named_blocks(np.zeros((2, 4)))]
    [((2, 4), ['0', '1'])]
    """
    first = start
    for block in row_blocks(X, start, stop):
        last = first + len(block)
        if isinstance(block, np.ndarray) and block.dtype.kind in "iuf":
            check_magnitude(block, "features", first)
        yield block, np.arange(first, last).astype(str) if names is None else names[first:last]
        first = last


def joined_blocks(pieces: Iterable[Named]) -> Iterator[Named]:
    """Concatenate a stream of small pieces into blocks of at least ``ROWS`` images.

    Parameters
    ----------
    pieces : iterable of (features, names)
        Features of shape (k, d) with the names (k,) of their images.

    Yields
    ------
    (features, names)
        Blocks in the same order; the last one may have fewer than ``ROWS`` images.
    """
    waiting: list[Named] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(len(names) for _, names in waiting) >= ROWS:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Named]) -> Named:
    tables, names = zip(*pieces, strict=True)
    return np.concatenate(tables), np.concatenate(names)
