"""One pass over blocks of images, on all cores or on a GPU, that adds up their moments."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.feature_scaling import normalised
from sightunseen.methods.base.moments import Moments

ORIGIN_ROWS = 1024  # rows whose mean is the origin


class Accumulator:
    """Adds up the moments of blocks of images; a context manager.

    Every block is a task of a thread pool, with one BLAS thread each. Results are added in the order of the blocks, so they do
    not depend on the number of threads.

    Parameters
    ----------
    normalisations : sequence of str
        Normalisations of :class:`~sightunseen.methods.base.moments.Moments`.
    by_class : bool, default=False
        Squares of each class instead of outer products.
    origins : mapping of str to ndarray of shape (d,), default=None
        Origin by normalisation. None: the mean of the first rows.
    """

    def __init__(self, normalisations: Sequence[str], by_class: bool = False, origins: dict[str, Floats] | None = None) -> None:
        self.normalisations, self.by_class = tuple(dict.fromkeys(normalisations)), by_class
        self.origins = dict(origins or {})
        self._sums: dict[str, SumOfMoments] = {}
        self._parts: dict[str, tuple[int, SumOfMoments]] = {}
        self._waiting: deque[tuple[int, Future[Moments]]] = deque()

    def __enter__(self) -> Self:
        # Threads that multiply blocks of their own are busier than threads that share each multiplication.
        blas = ThreadpoolController().select(user_api="blas")
        self.n_threads = max([library["num_threads"] for library in blas.info()], default=1)
        self._limit = blas.limit(limits=1)
        self._pool = ThreadPoolExecutor(self.n_threads)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._limit.restore_original_limits()

    def add(self, X: Floats, y: Labels, part: int = 0) -> None:
        """Add a block of images; may return before it is processed.

        Parameters
        ----------
        X : ndarray of float32 of shape (n, d)
            Features; must not be modified afterwards.
        y : ndarray of shape (n,)
            Labels.
        part : int, default=0
            Number of the part that the block belongs to, in ascending order. Blocks are added up part by part, so that the
            result has the same bits as the sum of parts that were computed elsewhere.
        """
        if not self.origins:
            self.origins = first_origins(X, self.normalisations)
        for name in self.normalisations:
            task = self._pool.submit(Moments.of, X, y, name, self.origins[name], self.by_class)
            self._waiting.append((part, task))
        self._take(self.n_threads + len(self.normalisations))

    def total(self) -> dict[str, Moments]:
        """Return the moments of all blocks, by normalisation.

        Returns
        -------
        dict of str to Moments
            The moments; the labels are sorted.
        """
        self._take(0)
        for name in self._parts:
            self._end_part(name)
        return {name: one.moments() for name, one in self._sums.items()}

    def _take(self, most: int) -> None:
        """Add up finished blocks until at most this number is waiting."""
        while len(self._waiting) > most:
            part, task = self._waiting.popleft()
            block = task.result()
            name = block.normalisation
            if name in self._parts and self._parts[name][0] != part:
                self._end_part(name)
                del self._parts[name]
            if name not in self._parts:
                self._parts[name] = part, SumOfMoments(block)
            self._parts[name][1].add(block)

    def _end_part(self, name: str) -> None:
        _, part = self._parts[name]
        if name in self._sums:
            self._sums[name].add(part.moments())
        else:
            self._sums[name] = part


class SumOfMoments:
    """Sum of moments in double precision, in place, with classes in the order in which they appear.

    Parameters
    ----------
    first : Moments
        Moments with the normalisation, origin and size of all; they are not added.
    """

    def __init__(self, first: Moments) -> None:
        self.first = first
        self.rows: dict[Any, int] = {}
        self.counts, self.sums = np.zeros(0), np.zeros((0, first.sums.shape[1]))
        self.square: Doubles = np.zeros((0 if first.by_class else len(first.square), first.square.shape[1]))
        self.low, self.high = first.low, first.high

    def add(self, block: Moments) -> None:
        """Add the moments of further images."""
        rows = np.array([self.rows.setdefault(label, len(self.rows)) for label in block.labels.tolist()])
        if len(self.rows) > len(self.counts):
            size = max(len(self.rows), 2 * len(self.counts))
            self.counts, self.sums = _grown(self.counts, size), _grown(self.sums, size)
            self.square = _grown(self.square, size) if block.by_class else self.square
        self.counts[rows] += block.counts
        self.sums[rows] += block.sums
        if block.by_class:
            self.square[rows] += block.square
        else:
            self.square += block.square
        self.low, self.high = np.minimum(self.low, block.low), np.maximum(self.high, block.high)

    def moments(self) -> Moments:
        """Return the sum; the labels are sorted."""
        labels = np.array(list(self.rows))
        order = np.argsort(labels)
        square = self.square[order] if self.first.by_class else self.square
        return Moments(
            self.first.normalisation,
            self.first.origin,
            labels[order],
            self.counts[order],
            self.sums[order],
            square,
            self.low,
            self.high,
            self.first.by_class,
        )


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def first_origins(X: Any, normalisations: Sequence[str]) -> dict[str, Floats]:
    """Compute the mean of the first normalised rows, by normalisation, for use as origin.

    Parameters
    ----------
    X : ndarray or Rows of shape (n, d)
        Features.
    normalisations : sequence of str
        Normalisations.

    Returns
    -------
    dict of str to ndarray of shape (d,)
        Origins.
    """
    rows = np.asarray(X[:ORIGIN_ROWS], dtype=np.float32)
    return {name: normalised(rows, name).mean(axis=0, dtype=np.float64).astype(np.float32) for name in normalisations}


def encoded(y: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """Encode labels as indices.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.

    Returns
    -------
    labels : ndarray of shape (s,)
        Distinct labels, sorted.
    targets : ndarray of int of shape (n,)
        Index of each label.

    Examples
    --------
    >>> [array.tolist() for array in encoded(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    if y.dtype.kind in "iu" and len(y) and int(y.min()) >= 0 and int(y.max()) <= 10 * len(y) + 1000:
        known = np.bincount(y) > 0  # without sorting millions of numbers
        return np.flatnonzero(known).astype(y.dtype), (np.cumsum(known) - 1)[y]
    labels, targets = np.unique(y, return_inverse=True)
    return labels, targets.ravel()
