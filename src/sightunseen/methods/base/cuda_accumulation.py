"""Moments of blocks of images on a GPU, fed from pinned buffers while the next block is read."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import SettingsError
from sightunseen.methods.base.accumulation import encoded, first_origins
from sightunseen.methods.base.moments import Moments

BUFFERS = 3  # one is filled, one is transferred, one is multiplied
READERS = min(16, os.cpu_count() or 1)  # threads that copy a block from disk cache or memory into a buffer
PRODUCT_ROWS = 4096  # rows whose products are summed in single precision
RECENT_BLOCKS = 16  # blocks whose class sums are added in single precision
KINDS = (torch.float64, torch.float32)
MANTISSA = -(1 << 13)  # mask of the bits of a float32 that TensorFloat-32 has
HALF_SCALE = 1024.0  # components of unit vectors, and their rounding errors, times this are in the range of half precision


class CudaAccumulator:
    """Adds up the moments of blocks of images on a GPU; a context manager.

    It has the interface of :class:`~sightunseen.methods.base.accumulation.Accumulator`. Blocks in pinned memory are transferred
    from there. Every factor of a product is the sum of two numbers of half precision or TensorFloat-32, so that products are
    nearly as exact as in single precision. Sums differ from those of the CPU by rounding, and in the last bits from run to run.

    Parameters
    ----------
    normalisations : sequence of str
        Normalisations of :class:`~sightunseen.methods.base.moments.Moments`.
    origins : mapping of str to ndarray of shape (d,), default=None
        Origin by normalisation. None: the mean of the first rows.
    n_classes : int, default=None
        Number of classes, if the labels are the numbers from 0 to ``n_classes - 1``. None: any labels.

    Raises
    ------
    SettingsError
        If there is no GPU.
    """

    def __init__(
        self, normalisations: Sequence[str], origins: dict[str, Floats] | None = None, n_classes: int | None = None
    ) -> None:
        if not torch.cuda.is_available():
            raise SettingsError("device='cuda', but torch finds no GPU on this machine. Use device='auto' or 'cpu'.")
        self.normalisations, self.origins = tuple(dict.fromkeys(normalisations)), dict(origins or {})
        self.device = torch.device("cuda")
        self._sums: dict[str, _DeviceSum] = {}
        self._rows: dict[Any, int] = {} if n_classes is None else {k: k for k in range(n_classes)}
        self._numbered = n_classes is not None
        self._buffers: list[_Buffer] = []
        self._turn = 0

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(READERS)
        self._copies, self._products = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._precision = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        torch.cuda.synchronize()
        torch.backends.cuda.matmul.allow_tf32 = self._precision
        self._pool.shutdown(cancel_futures=True)
        self._buffers.clear()

    def add(self, X: Floats, y: Labels) -> None:
        """Add a block of images; returns when it is copied, before it is processed.

        Parameters
        ----------
        X : ndarray of float32 of shape (n, d)
            Features.
        y : ndarray of shape (n,)
            Labels.
        """
        if not self._sums:
            self._prepare(X)
        rows = len(self._buffers[0].targets)
        for start in range(0, len(X), rows):
            self._add(X[start : start + rows], y[start : start + rows])

    def _add(self, X: Floats, y: Labels) -> None:
        """Add a block of at most as many images as fit into a buffer."""
        buffer = self._buffers[self._turn % len(self._buffers)]
        self._turn += 1
        source = buffer.filled(X, self._coded(y), self._pool)
        with torch.cuda.stream(self._copies):
            images, targets = buffer.transferred(source, self._copies)
        with torch.cuda.stream(self._products):
            self._products.wait_event(buffer.arrived)
            for one in self._sums.values():
                one.add(images, targets, len(self._rows))
            buffer.free.record(self._products)

    def total(self) -> dict[str, Moments]:
        """Return the moments of all blocks, by normalisation.

        Returns
        -------
        dict of str to Moments
            The moments; the labels are sorted.
        """
        torch.cuda.synchronize()
        return {name: one.moments(np.array(list(self._rows))) for name, one in self._sums.items()}

    def _prepare(self, X: Floats) -> None:
        self.origins = self.origins or first_origins(X, self.normalisations)
        for name in self.normalisations:
            self._sums[name] = _DeviceSum(name, torch.tensor(self.origins[name], device=self.device))
        torch.cuda.synchronize()
        self._buffers = [_Buffer(X.shape, self.device) for _ in range(BUFFERS)]

    def _coded(self, y: Labels) -> NDArray[np.int64]:
        """Index of each label, in the order in which they appear."""
        if self._numbered:
            return y.astype(np.int64, copy=False)
        labels, inverse = encoded(y)
        rows = [self._rows.setdefault(label, len(self._rows)) for label in labels.tolist()]
        return np.asarray(np.array(rows, dtype=np.int64)[inverse])


class _Buffer:
    """Pinned memory for a block, its copy on the GPU, and the events that say when they may be used."""

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.images: Tensor | None = None  # not needed if the blocks are in pinned memory
        self.targets = torch.empty(shape[0], dtype=torch.int64, pin_memory=True)
        self.images_there = torch.empty(tuple(shape), dtype=torch.float32, device=device)
        self.targets_there = torch.empty(shape[0], dtype=torch.int64, device=device)
        self.arrived, self.free = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]

    def filled(self, X: Floats, targets: NDArray[np.int64], pool: ThreadPoolExecutor) -> Tensor:
        """Copy a block into pinned memory, with several threads, once the last block has been processed."""
        self.free.synchronize()
        self.targets.numpy()[: len(X)] = targets
        if X.flags.writeable and X.dtype == np.float32 and torch.from_numpy(X).is_pinned():
            return torch.from_numpy(X)
        if self.images is None:
            self.images = torch.empty(self.images_there.shape, dtype=torch.float32, pin_memory=True)
        images = self.images.numpy()
        parts = [slice(*ends) for ends in pairwise(np.linspace(0, len(X), READERS + 1, dtype=int).tolist())]
        list(pool.map(lambda part: np.copyto(images[part], X[part]), parts))
        return self.images[: len(X)]

    def transferred(self, source: Tensor, stream: torch.cuda.Stream) -> tuple[Tensor, Tensor]:
        """Start the transfer; ``arrived`` says when it is done."""
        images, targets = self.images_there[: len(source)], self.targets_there[: len(source)]
        images.copy_(source, non_blocking=True)
        targets.copy_(self.targets[: len(source)], non_blocking=True)
        self.arrived.record(stream)
        return images, targets


class _DeviceSum:
    """Moments of one normalisation, on the GPU.

    Images are scaled by a power of two, which is divided out at the end. Sums of classes are added up in single precision for
    a few blocks and then in double precision.
    """

    def __init__(self, normalisation: str, origin: Tensor) -> None:
        size = len(origin)
        self.normalisation, self.origin = normalisation, origin
        self.halves = normalisation != "none"
        self.scale = HALF_SCALE if self.halves else 1.0
        self.products = torch.zeros((size, 2 * size), dtype=torch.float64, device=origin.device)
        self.sums, self.recent = (torch.zeros((0, size), dtype=kind, device=origin.device) for kind in KINDS)
        self.counts = torch.zeros(0, dtype=torch.float64, device=origin.device)
        self.low = torch.full_like(origin, torch.inf)
        self.high = -self.low
        self.blocks = 0

    def add(self, X: Tensor, targets: Tensor, n_classes: int) -> None:
        if n_classes > len(self.counts):
            size = max(n_classes, 2 * len(self.counts))
            self.counts, self.sums, self.recent = (_grown(array, size) for array in (self.counts, self.sums, self.recent))
        if self.normalisation == "none":
            self.low, self.high = torch.minimum(self.low, X.amin(0)), torch.maximum(self.high, X.amax(0))
        images = _normalised(X, self.normalisation, self.origin, self.scale)
        self.recent.index_add_(0, targets, images)
        self.counts.index_add_(0, targets, torch.ones_like(targets, dtype=torch.float64))
        self.blocks += 1
        if self.blocks % RECENT_BLOCKS == 0:
            self._flush()
        whole = len(images) - len(images) % PRODUCT_ROWS
        for part in (part for part in (images[:whole], images[whole:]) if len(part)):
            self.products += _products(part, self.halves)

    def _flush(self) -> None:
        self.sums += self.recent
        self.recent.zero_()

    def moments(self, labels: Labels) -> Moments:
        self._flush()
        order = np.flatnonzero(_on_host(self.counts)[: len(labels)])
        order = order[np.argsort(labels[order], kind="stable")]
        rows, size = torch.as_tensor(order, device=self.counts.device), len(self.origin)
        mixed = self.products[:, size:]
        square = (self.products[:, :size] + mixed + mixed.T) / self.scale**2
        return Moments(
            self.normalisation,
            _on_host(self.origin),
            labels[order],
            counts=_on_host(self.counts[rows]),
            sums=_on_host(self.sums[rows] / self.scale),
            square=_on_host(square),
            low=_on_host(self.low),
            high=_on_host(self.high),
        )


def _on_host(array: Tensor) -> NDArray[Any]:
    """Copy an array to the host, through pinned memory."""
    return np.array(torch.empty(array.shape, dtype=array.dtype, pin_memory=True).copy_(array).numpy())


def _grown(array: Tensor, size: int) -> Tensor:
    grown = torch.zeros((size, *array.shape[1:]), dtype=array.dtype, device=array.device)
    grown[: len(array)] = array
    return grown


def _normalised(X: Tensor, kind: str, origin: Tensor, scale: float) -> Tensor:
    """Normalise every image as :func:`~sightunseen.methods.base.feature_scaling.normalised`, subtract the origin, and scale."""
    if kind == "none":
        return (X - origin) * scale
    if kind == "root":
        X = X.abs().sqrt_().copysign_(X)
    lengths = torch.linalg.vector_norm(X, dim=1, keepdim=True)
    return torch.addcmul(-scale * origin, X, torch.where(lengths > 0, scale / lengths, scale))


def _products(X: Tensor, halves: bool) -> Tensor:
    """Compute A'A and A'B, side by side, where X = A + B and A has the leading bits of X.

    X'X = A'A + A'B + B'A + B'B, and the last term is below the rounding error. Products of half precision or TensorFloat-32 are
    several times as fast as those of single precision.
    """
    rows, size = min(PRODUCT_ROWS, len(X)), X.shape[1]
    parts = torch.empty((len(X), 2 * size), dtype=torch.float16 if halves else torch.float32, device=X.device)
    leading = parts[:, :size]
    leading.copy_(X if halves else (X.view(torch.int32) & MANTISSA).view(torch.float32))
    torch.sub(X, leading, out=parts[:, size:])
    blocks = leading.reshape(-1, rows, size).transpose(1, 2), parts.reshape(-1, rows, 2 * size)
    found = torch.bmm(*blocks, torch.float32) if halves else torch.bmm(*blocks)
    return found.sum(dim=0, dtype=torch.float64)
