"""One pass over blocks of images, on all cores or on a GPU, that adds up their moments."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.core.rows import CollectedRows, Indices, Rows, block_rows
from sightunseen.methods.base.feature_scaling import normalised
from sightunseen.methods.base.moments import Moments

ORIGIN_ROWS = 1024  # rows whose mean is the origin
CUDA_BLOCKS = 4  # blocks that a GPU takes at a time
PARTS = 64  # at most, whatever the number of workers: sums of the same parts have the same bits

MapParts = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
MAP_PARTS: ContextVar[MapParts | None] = ContextVar("MAP_PARTS", default=None)


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
        self._sums: dict[str, _Sum] = {}
        self._parts: dict[str, tuple[int, _Sum]] = {}
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
            first = {name: normalised(X[:ORIGIN_ROWS], name) for name in self.normalisations}
            self.origins = {name: rows.mean(axis=0, dtype=np.float64).astype(np.float32) for name, rows in first.items()}
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
                self._parts[name] = part, _Sum(block)
            self._parts[name][1].add(block)

    def _end_part(self, name: str) -> None:
        _, part = self._parts[name]
        if name in self._sums:
            self._sums[name].add(part.moments())
        else:
            self._sums[name] = part


class _Sum:
    """Sum of moments in double precision, in place, with classes in the order in which they appear."""

    def __init__(self, first: Moments) -> None:
        self.first = first
        self.rows: dict[Any, int] = {}
        self.counts, self.sums = np.zeros(0), np.zeros((0, first.sums.shape[1]))
        self.square: Doubles = np.zeros((0 if first.by_class else len(first.square), first.square.shape[1]))
        self.low, self.high = first.low, first.high

    def add(self, block: Moments) -> None:
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


def accumulator(normalisations: Sequence[str], by_class: bool = False, device: str = "cpu") -> Any:
    """Make an accumulator for a device.

    Parameters
    ----------
    normalisations, by_class
        See :class:`Accumulator`.
    device : {"cpu", "cuda"}, default="cpu"
        Where products are computed; squares of each class are always computed on the CPU.

    Returns
    -------
    Accumulator or CudaAccumulator
        The accumulator, to be used as a context manager.

    Raises
    ------
    SettingsError
        If there is no GPU.
    """
    if device == "cuda" and not by_class:
        from sightunseen.methods.base.cuda_accumulation import CudaAccumulator

        return CudaAccumulator(normalisations)
    return Accumulator(normalisations, by_class)


def accumulated(
    X: Any,
    y: Labels,
    normalisations: Sequence[str],
    by_class: bool = False,
    device: str = "cpu",
    origins: dict[str, Floats] | None = None,
) -> dict[str, Moments]:
    """Compute the moments of images in one pass.

    Parameters
    ----------
    X : ndarray or Rows of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        Labels.
    normalisations, by_class, device
        See :func:`accumulator`.
    origins : mapping of str to ndarray of shape (d,), default=None
        Origin by normalisation. None: the mean of the first rows.

    Returns
    -------
    dict of str to Moments
        Moments by normalisation. Inside of :func:`mapping_parts` they are computed elsewhere, with the same bits.

    Raises
    ------
    DataError
        If a feature is NaN or infinite; the message names file and row if the features are in files.
    """
    labels, targets = encoded(y)
    origins = origins or _origins(X, normalisations)
    map_parts = MAP_PARTS.get()
    if map_parts is not None and len(X) > block_rows(X.shape):
        found = _mapped(map_parts, X, targets, normalisations, by_class, origins)
    elif device == "cuda" and not by_class:
        found = _on_gpu(X, targets, normalisations, origins, len(labels))
    else:
        found = _accumulated(X, targets, normalisations, by_class, origins, parts_of(X))
    if not all(np.isfinite(one.sums).all() for one in found.values()):
        check_finite(X)
    return {name: replace(one, labels=labels[one.labels]) for name, one in found.items()}


def parts_of(X: Any) -> list[slice]:
    """Divide images into at most 64 contiguous parts of whole blocks; the division depends on their shape alone.

    Parameters
    ----------
    X : ndarray or Rows of shape (n, d)
        Features.

    Returns
    -------
    list of slice
        Rows of each part.
    """
    size = block_rows(X.shape)
    blocks = -(-len(X) // size)
    ends = np.linspace(0, blocks, min(PARTS, blocks) + 1, dtype=int) * size
    return [slice(first, min(last, len(X))) for first, last in pairwise(ends.tolist())]


@contextmanager
def mapping_parts(map_parts: MapParts | None) -> Iterator[None]:
    """Compute moments in other processes, part by part, inside of the context.

    Parameters
    ----------
    map_parts : callable or None
        Applies a function to items, possibly on other machines, and yields the results in order. None: computes them here.
    """
    token = MAP_PARTS.set(map_parts)
    try:
        yield
    finally:
        MAP_PARTS.reset(token)


def _origins(X: Any, normalisations: Sequence[str]) -> dict[str, Floats]:
    """Mean of the first rows, by normalisation."""
    rows = np.asarray(X[:ORIGIN_ROWS], dtype=np.float32)
    return {name: normalised(rows, name).mean(axis=0, dtype=np.float64).astype(np.float32) for name in normalisations}


def _accumulated(
    X: Any,
    targets: NDArray[np.intp],
    normalisations: Sequence[str],
    by_class: bool,
    origins: dict[str, Floats],
    parts: Sequence[slice],
) -> dict[str, Moments]:
    size = block_rows(X.shape)
    with Accumulator(normalisations, by_class, origins) as sums:
        for k, part in enumerate(parts):
            for start in range(part.start, part.stop, size):
                rows = slice(start, min(start + size, part.stop))
                sums.add(np.asarray(X[rows], dtype=np.float32), targets[rows], k)
        return sums.total()


def _on_gpu(
    X: Any, targets: NDArray[np.intp], normalisations: Sequence[str], origins: dict[str, Floats], n_classes: int
) -> dict[str, Moments]:
    from sightunseen.methods.base.cuda_accumulation import CudaAccumulator

    size = block_rows(X.shape) * CUDA_BLOCKS
    with CudaAccumulator(normalisations, origins, n_classes) as sums:
        for start in range(0, len(X), size):
            sums.add(np.asarray(X[start : start + size], dtype=np.float32), targets[start : start + size])
        return sums.total()


def _mapped(
    map_parts: MapParts,
    X: Any,
    targets: NDArray[np.intp],
    normalisations: Sequence[str],
    by_class: bool,
    origins: dict[str, Floats],
) -> dict[str, Moments]:
    """Compute the moments of all parts elsewhere and add them up in order."""
    table, wanted = (X.parent, X.rows) if isinstance(X, CollectedRows) else (X, None)
    work = partial(_part, table, targets, tuple(normalisations), by_class, origins, wanted)
    total: dict[str, _Sum] = {}
    for part, (moments, collected) in zip(parts_of(X), map_parts(work, parts_of(X)), strict=True):
        for name, one in moments.items():
            total.setdefault(name, _Sum(one)).add(one)
        if isinstance(X, CollectedRows):
            X.keep(part.start, part.stop, collected)
    return {name: one.moments() for name, one in total.items()}


def _part(
    X: Any,
    targets: NDArray[np.intp],
    normalisations: Sequence[str],
    by_class: bool,
    origins: dict[str, Floats],
    wanted: Indices | None,
    part: slice,
) -> tuple[dict[str, Moments], NDArray[Any] | None]:
    """Compute the moments of one part, and collect the rows that are wanted of it."""
    rows = None if wanted is None else CollectedRows(X, wanted[slice(*np.searchsorted(wanted, (part.start, part.stop)))])
    moments = _accumulated(X if rows is None else rows, targets, normalisations, by_class, origins, [part])
    return moments, None if rows is None else rows.collected(rows.rows)


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


def check_finite(X: Any) -> None:
    """Check that all features are finite.

    Parameters
    ----------
    X : ndarray or Rows of shape (n, d)
        Features.

    Raises
    ------
    DataError
        If a feature is NaN or infinite; the message names file and row if the features are in files.
    """
    size = block_rows(X.shape)
    for start in range(0, len(X), size):
        finite = np.isfinite(X[start : start + size]).all(axis=1)
        if not finite.all():
            row = start + int(np.flatnonzero(~finite)[0])
            where = X.where(row) if isinstance(X, Rows) else f"row {row + 1}"
            raise DataError(f"{where} has NaN or infinite features. Extract the features again, or remove the row.")
