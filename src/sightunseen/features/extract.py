"""From photos to features, in batches: read ahead by a few threads, and kept by content so that nothing is done twice."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.checks import check_whole
from sightunseen.core.errors import PhotoError
from sightunseen.data.photo_files import content_of, read_photo
from sightunseen.features.backbones import Backbone, Floats
from sightunseen.features.feature_cache import FeatureCache

if TYPE_CHECKING:
    from PIL.Image import Image

THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class Batch:
    """The features (n, d) of n photos, their paths and their places in what was given, and what could not be used."""

    paths: tuple[Any, ...]
    rows: NDArray[np.intp]
    features: Floats
    failures: tuple[tuple[Any, str], ...]  # (path, reason)
    cached: int  # of the n photos, how many were known before


@dataclass
class _Read:
    """A batch before the backbone has seen it: of each photo its features, if they are known, or else the photo."""

    paths: list[Any] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    known: dict[bytes, Floats] = field(default_factory=dict)
    prepared: dict[bytes, Any] = field(default_factory=dict)
    failures: list[tuple[Any, str]] = field(default_factory=list)


def extract(
    photos: Iterable[Any],
    backbone: Backbone,
    batch_size: int = 32,
    tell: Callable[[str], None] | None = None,
    reader: "Callable[[Any], bytes | Image]" = content_of,
    cache: bool = True,
) -> Iterator[Batch]:
    """The features of photos, in their order and ``batch_size`` at a time; memory does not grow with their number.

    ``photos`` are paths, or whatever ``reader`` turns into a photo: the content of its file, or an RGB image. ``tell`` gets
    a line for each photo that cannot be used. A batch is kept in the cache before it is given out.
    """
    check_whole("batch_size", batch_size, 1)
    kept = FeatureCache(backbone) if cache else None
    pool = ThreadPoolExecutor(THREADS)
    ahead: deque[Future[_Read]] = deque()
    try:
        for batch in _batches(photos, batch_size):
            ahead.append(pool.submit(_read, batch, backbone, reader, kept))
            if len(ahead) > THREADS:
                yield _finished(ahead.popleft().result(), backbone, kept, tell)
        while ahead:
            yield _finished(ahead.popleft().result(), backbone, kept, tell)
    finally:
        pool.shutdown(cancel_futures=True)
        if kept is not None:
            kept.close()


def _batches(photos: Iterable[Any], size: int) -> Iterator[list[tuple[int, Any]]]:
    numbered = enumerate(photos)
    while batch := list(islice(numbered, size)):
        yield batch


def _read(
    batch: list[tuple[int, Any]],
    backbone: Backbone,
    reader: "Callable[[Any], bytes | Image]",
    cache: FeatureCache | None,
) -> _Read:
    contents: dict[bytes, bytes | Image] = {}
    read = _Read()
    photos: list[tuple[int, Any, bytes]] = []
    for row, path in batch:
        try:
            content = reader(path)
        except PhotoError as error:
            read.failures.append((path, error.reason))
            continue
        key = _key(content)
        contents[key] = content
        photos.append((row, path, key))
    read.known = {} if cache is None else cache.find(list(contents))
    reasons: dict[bytes, str] = {}
    for key in (key for key in contents if key not in read.known):
        try:
            read.prepared[key] = _prepared(contents[key], backbone)
        except PhotoError as error:
            reasons[key] = error.reason
    for row, path, key in photos:
        if key in reasons:
            read.failures.append((path, reasons[key]))
        else:
            read.rows.append(row)
            read.paths.append(path)
            read.keys.append(key)
    return read


def _key(content: "bytes | Image") -> bytes:
    """The SHA-256 of a file's content, or of an image's size and pixels."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).digest()
    return hashlib.sha256(f"{content.mode} {content.size} ".encode() + content.tobytes()).digest()


def _prepared(content: "bytes | Image", backbone: Backbone) -> Any:
    image = read_photo(content) if isinstance(content, bytes) else content
    try:
        return backbone.prepare(image)
    except Exception as error:  # a photo of one by a million pixels can be too much for a transform
        raise PhotoError(f"the backbone cannot prepare it ({type(error).__name__}: {error})") from error


def _finished(read: _Read, backbone: Backbone, cache: FeatureCache | None, tell: Callable[[str], None] | None) -> Batch:
    """The batch with the features that were not known yet."""
    new: dict[bytes, Floats] = {}
    if read.prepared:
        new = dict(zip(read.prepared, backbone(list(read.prepared.values())), strict=True))
        if cache is not None:
            cache.keep(new)
    if tell is not None:
        for path, reason in read.failures:
            tell(f"{path}: {reason}")
    known = {**read.known, **new}
    features = np.array([known[key] for key in read.keys], dtype=np.float32).reshape(-1, backbone.size)
    cached = sum(key in read.known for key in read.keys)
    return Batch(tuple(read.paths), np.array(read.rows, dtype=np.intp), features, tuple(read.failures), cached)
