"""Batched feature extraction: photos of concurrent requests share batches of the backbone."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.errors import PhotoError
from sightunseen.data.photo_files import read_photo
from sightunseen.features.backbones import Backbone
from sightunseen.serve.limits import Limits, RequestError, busy

READERS = 2  # photos decoded at the same time; bounds the memory of decoded pixels

Waiting = tuple[Any, "Future[Floats]"]  # preprocessed photo, future of its features (d,)


class BackboneBatcher:
    """Extract features of photos in a worker thread, in batches across requests.

    Parameters
    ----------
    backbone : Backbone
        Network that extracts features.
    limits : Limits
        Limits on waiting photos, pixels and batch size.
    batched : callable, optional
        Called with the size of each batch.

    Attributes
    ----------
    waiting : int
        Photos that are being processed. Only the thread of the event loop changes it.
    """

    def __init__(self, backbone: Backbone, limits: Limits, batched: Callable[[int], None] = lambda size: None) -> None:
        self.backbone = backbone
        self.limits = limits
        self.waiting = 0
        self._batched = batched
        self._readers = ThreadPoolExecutor(READERS, "photos")
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._worker = Thread(target=self._work, name="backbone", daemon=True)
        self._worker.start()

    def check(self) -> None:
        """Check that the worker thread runs; raises ``RequestError`` (503) if it has died."""
        if not self._worker.is_alive():
            raise RequestError(503, "the thread of the backbone has died. Restart the server.", cause="not ready")

    async def features_of(self, photos: list[tuple[str, bytes]]) -> Floats:
        """Extract the features of photos.

        Parameters
        ----------
        photos : list of (str, bytes)
            Names and contents of n photos.

        Returns
        -------
        ndarray of shape (n, d)
            Features.

        Raises
        ------
        RequestError
            If too many photos are waiting (429), a photo cannot be read (422), or the worker has died (503).
        """
        self.check()
        if self.waiting + len(photos) > self.limits.waiting:
            raise busy(f"{self.waiting} photos are already waiting.", "photos")
        self.waiting += len(photos)
        try:
            return np.stack(await asyncio.gather(*(self._features(name, content) for name, content in photos)))
        finally:
            self.waiting -= len(photos)

    def close(self) -> None:
        """Finish waiting photos and stop the worker."""
        self._readers.shutdown()
        self._queue.put(None)
        self._worker.join()

    async def _features(self, name: str, content: bytes) -> Floats:
        try:
            prepared = await asyncio.wrap_future(self._readers.submit(self._prepared, content))
        except PhotoError as error:
            raise RequestError(422, f"{name}: {error.reason}") from error
        awaited: Future[Floats] = Future()
        self._queue.put((prepared, awaited))
        return await asyncio.wrap_future(awaited)

    def _prepared(self, content: bytes) -> Any:
        image = read_photo(content, self.limits.pixels)
        try:
            return self.backbone.prepare(image)
        except Exception as error:  # extreme aspect ratios can break a transform
            raise PhotoError("the backbone cannot preprocess it") from error

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            self._extract(self._gathered(first))

    def _gathered(self, first: Waiting) -> list[Waiting]:
        """Collect a batch: the first photo and those that arrive within a few milliseconds."""
        batch, until = [first], time.monotonic() + self.limits.gather_seconds
        while len(batch) < self.limits.batch:
            try:
                one = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            if one is None:  # stop signal; put it back for after this batch
                self._queue.put(None)
                break
            batch.append(one)
        return batch

    def _extract(self, batch: list[Waiting]) -> None:
        """Set the features of photos whose requests were not cancelled."""
        wanted = [(prepared, awaited) for prepared, awaited in batch if awaited.set_running_or_notify_cancel()]
        if wanted:
            self._run_backbone(wanted)

    def _run_backbone(self, batch: list[Waiting]) -> None:
        self._batched(len(batch))
        try:
            rows = self.backbone([prepared for prepared, _ in batch])
            if len(rows) != len(batch):
                raise RuntimeError(f"the backbone returned {len(rows)} rows for {len(batch)} photos")
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            for one in batch:  # one bad photo must not fail the others
                self._run_backbone([one])
        else:
            for (_, awaited), row in zip(batch, rows, strict=True):
                awaited.set_result(row)
