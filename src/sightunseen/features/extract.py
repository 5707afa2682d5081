"""Batched feature extraction from photos, with prefetching threads and a cache keyed by content."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_whole
from sightunseen.core.errors import PhotoError
from sightunseen.data.photo_files import content_of, read_photo
from sightunseen.features.backbones import Backbone
from sightunseen.features.feature_cache import FeatureCache

if TYPE_CHECKING:
    from PIL.Image import Image

THREADS = min(4, os.cpu_count() or 1)


class Cache(Protocol):
    """Features by the SHA-256 of their photo, as :class:`~sightunseen.features.feature_cache.FeatureCache` holds them."""

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """Look up features."""

    def keep(self, features: Mapping[bytes, Floats]) -> None:
        """Store features."""

    def close(self) -> None:
        """Release what the cache holds."""


@dataclass(frozen=True)
class Batch:
    """Features of one batch of photos.

    Parameters
    ----------
    paths : tuple
        The n photos that could be used.
    rows : ndarray of shape (n,)
        Their indices among all photos given to :func:`extract`.
    features : ndarray of shape (n, d)
        Their features.
    failures : tuple of (path, str)
        Photos that could not be used, with the reason.
    cached : int
        Number of photos whose features came from the cache.
    """

    paths: tuple[Any, ...]
    rows: NDArray[np.intp]
    features: Floats
    failures: tuple[tuple[Any, str], ...]
    cached: int


@dataclass(frozen=True)
class _Read:
    """A batch before the forward pass; photos are identified by the hash of their content."""

    photos: list[tuple[int, Any, bytes]]  # (row, path, hash) of the photos that can be used
    known: dict[bytes, Floats]  # cached features
    prepared: dict[bytes, Any]  # the other photos, preprocessed
    failures: list[tuple[Any, str]]


def extract(
    photos: Iterable[Any],
    backbone: Backbone,
    batch_size: int = 32,
    tell: Callable[[str], None] | None = None,
    reader: "Callable[[Any], bytes | Image]" = content_of,
    cache: "bool | Cache" = True,
) -> Iterator[Batch]:
    """Extract the features of photos, in order; memory use does not grow with the number of photos.

    Parameters
    ----------
    photos : iterable
        Paths, or any objects that ``reader`` accepts.
    backbone : Backbone
        Network that computes the features.
    batch_size : int, default=32
        Number of photos per batch.
    tell : callable, optional
        Function that receives a line of text for each photo that cannot be used.
    reader : callable, optional
        Function from an item of ``photos`` to the content of its file or to an RGB image. The default reads the file.
    cache : bool or Cache, default=True
        Whether to load and store features in the cache of this machine; or another cache. A batch is stored before it is
        yielded.

    Yields
    ------
    Batch
        Features of up to ``batch_size`` photos.

    Raises
    ------
    SettingsError
        If ``batch_size`` is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from sightunseen.features.backbones import CallableBackbone
    >>> backbone = CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colours")
    >>> images = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime")]
    >>> [batch] = extract(images, backbone, reader=lambda image: image, cache=False)
    >>> batch.features
    array([[255.,   0.,   0.],
           [  0., 255.,   0.]], dtype=float32)
    """
    check_whole("batch_size", batch_size, 1)
    kept: Cache | None = FeatureCache(backbone) if cache is True else cache or None
    pool = ThreadPoolExecutor(THREADS)
    ahead: deque[Future[_Read]] = deque()
    numbered = enumerate(photos)
    try:
        while batch := list(islice(numbered, batch_size)):
            ahead.append(pool.submit(_read, batch, backbone, reader, kept))
            if len(ahead) > THREADS:
                yield _finished(ahead.popleft().result(), backbone, kept, tell)
        while ahead:
            yield _finished(ahead.popleft().result(), backbone, kept, tell)
    finally:
        pool.shutdown(cancel_futures=True)
        if kept is not None:
            kept.close()


def _read(
    batch: list[tuple[int, Any]],
    backbone: Backbone,
    reader: "Callable[[Any], bytes | Image]",
    cache: Cache | None,
) -> _Read:
    """Read a batch, look up cached features and preprocess the other photos."""
    contents: dict[bytes, bytes | Image] = {}
    photos: list[tuple[int, Any, bytes]] = []
    failures: list[tuple[Any, str]] = []
    for row, path in batch:
        try:
            content = reader(path)
        except PhotoError as error:
            failures.append((path, error.reason))
        else:
            photos.append((row, path, _key(content)))
            contents[photos[-1][2]] = content
    known = {} if cache is None else cache.find(list(contents))
    prepared: dict[bytes, Any] = {}
    reasons: dict[bytes, str] = {}
    for key in (key for key in contents if key not in known):
        try:
            prepared[key] = _prepared(contents[key], backbone)
        except PhotoError as error:
            reasons[key] = error.reason
    failures += [(path, reasons[key]) for _, path, key in photos if key in reasons]
    return _Read([photo for photo in photos if photo[2] not in reasons], known, prepared, failures)


def _key(content: "bytes | Image") -> bytes:
    """SHA-256 of a file's content, or of an image's mode, size and pixels."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).digest()
    return hashlib.sha256(f"{content.mode} {content.size} ".encode() + content.tobytes()).digest()


def _prepared(content: "bytes | Image", backbone: Backbone) -> Any:
    image = read_photo(content) if isinstance(content, bytes) else content
    try:
        return backbone.prepare(image)
    except Exception as error:  # a transform may fail on extreme proportions, such as 1 by 1,000,000 pixels
        raise PhotoError(f"the backbone cannot preprocess it ({type(error).__name__}: {error})") from error


def _finished(read: _Read, backbone: Backbone, cache: Cache | None, tell: Callable[[str], None] | None) -> Batch:
    """Compute the features that were not cached, and store them."""
    new: dict[bytes, Floats] = {}
    if read.prepared:
        new = dict(zip(read.prepared, backbone(list(read.prepared.values())), strict=True))
        if cache is not None:
            cache.keep(new)
    if tell is not None:
        for path, reason in read.failures:
            tell(f"{path}: {reason}")
    known = {**read.known, **new}
    keys = [key for _, _, key in read.photos]
    return Batch(
        tuple(path for _, path, _ in read.photos),
        np.array([row for row, _, _ in read.photos], dtype=np.intp),
        np.array([known[key] for key in keys], dtype=np.float32).reshape(-1, backbone.size),
        tuple(read.failures),
        cached=sum(key in read.known for key in keys),
    )
