"""Long tables in blocks of rows: the one place that decides how many images are held in memory at a time."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 1024  # of 2,048 features, 8 MiB: memory stays flat over a mapped file, and a block stays in the processor's cache

Named = tuple[Any, NDArray[Any]]  # features (k, d) and the names of their images (k,)


def row_blocks(X: Any) -> Iterator[Any]:
    """Yield the rows of a table (n, d), in memory or read as they are sliced, in blocks of at most ``ROWS``.

    Anything else is yielded as it is, for scikit-learn's checks to say what is wrong with it.
    """
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2:
        yield table
        return
    for start in range(0, max(table.shape[0], 1), ROWS):
        yield table[start : start + ROWS]


def named_blocks(X: Any, names: Any = None) -> Iterator[Named]:
    """Yield a table in blocks, each with the names of its images; without ``names`` these are the numbers of the rows."""
    start = 0
    for block in row_blocks(X):
        stop = start + len(block)
        yield block, np.arange(start, stop).astype(str) if names is None else names[start:stop]
        start = stop


def joined_blocks(pieces: Iterable[Named]) -> Iterator[Named]:
    """Join the small pieces of a stream to blocks of at least ``ROWS`` images; the last one may have fewer."""
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
