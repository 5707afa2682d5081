"""One pass over the images of a data set: their moments, computed here, on a GPU or by workers elsewhere."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.core.rows import CollectedRows, Indices, Rows, block_rows
from sightunseen.methods.base.accumulation import Accumulator, SumOfMoments, encoded, first_origins
from sightunseen.methods.base.moments import Moments

CUDA_BLOCKS = 4  # blocks that a GPU takes at a time
PARTS = 64  # at most, whatever the number of workers: sums of the same parts have the same bits

MapParts = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
MAP_PARTS: ContextVar[MapParts | None] = ContextVar("MAP_PARTS", default=None)


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
    origins = origins or first_origins(X, normalisations)
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
    total: dict[str, SumOfMoments] = {}
    for part, (moments, collected) in zip(parts_of(X), map_parts(work, parts_of(X)), strict=True):
        for name, one in moments.items():
            if name not in total:
                total[name] = SumOfMoments(one)
            total[name].add(one)
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
