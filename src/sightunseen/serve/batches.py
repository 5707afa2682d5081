"""From the photos of many requests to their features: whatever waits goes through the backbone together."""

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from sightunseen.core.errors import PhotoError
from sightunseen.data.photo_files import read_photo
from sightunseen.features.backbones import Backbone, Floats
from sightunseen.serve.limits import Limits, Refused

READERS = 2  # photos decoded at a time: each may take its limit of pixels in memory

Waiting = tuple[Any, "Future[Floats]"]  # a prepared photo, and where its features (d,) are awaited


class Batches:
    """One worker that takes the photos that wait, a batch at a time, and runs the backbone once for them."""

    def __init__(self, backbone: Backbone, limits: Limits) -> None:
        self.backbone = backbone
        self.limits = limits
        self.waiting = 0  # photos under way; only the event loop's thread changes it
        self._readers = ThreadPoolExecutor(READERS, "photos")
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._worker = Thread(target=self._work, name="backbone", daemon=True)
        self._worker.start()

    async def features_of(self, photos: list[tuple[str, bytes]]) -> Floats:
        """The features (n, d) of n photos, given as names and contents."""
        if self.waiting + len(photos) > self.limits.waiting:
            raise Refused(429, f"{self.waiting} photos are waiting already. Try again in a moment.", {"Retry-After": "1"})
        self.waiting += len(photos)
        try:
            return np.stack(await asyncio.gather(*(self._features(name, content) for name, content in photos)))
        finally:
            self.waiting -= len(photos)

    def close(self) -> None:
        """Finish what waits, and end."""
        self._readers.shutdown()
        self._queue.put(None)
        self._worker.join()

    async def _features(self, name: str, content: bytes) -> Floats:
        try:
            prepared = await asyncio.wrap_future(self._readers.submit(self._prepared, content))
        except PhotoError as error:
            raise Refused(422, f"{name}: {error.reason}") from error
        awaited: Future[Floats] = Future()
        self._queue.put((prepared, awaited))
        return await asyncio.wrap_future(awaited)

    def _prepared(self, content: bytes) -> Any:
        image = read_photo(content, self.limits.pixels)
        try:
            return self.backbone.prepare(image)
        except Exception as error:  # a photo of one by a million pixels can be too much for a transform
            raise PhotoError("the backbone cannot prepare it") from error

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            self._answer(self._gathered(first))

    def _gathered(self, first: Waiting) -> list[Waiting]:
        """The first photo, and those that come within a few milliseconds."""
        batch, until = [first], time.monotonic() + self.limits.gather_seconds
        while len(batch) < self.limits.batch:
            try:
                one = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            if one is None:  # the end: it must be met once more, after this batch
                self._queue.put(None)
                break
            batch.append(one)
        return batch

    def _answer(self, batch: list[Waiting]) -> None:
        wanted = [(prepared, awaited) for prepared, awaited in batch if awaited.set_running_or_notify_cancel()]
        if not wanted:
            return
        try:
            rows = self.backbone([prepared for prepared, _ in wanted])
        except Exception as error:
            if len(wanted) == 1:
                wanted[0][1].set_exception(error)
                return
            for prepared, awaited in wanted:  # one photo must not spoil the answers of the others
                self._alone(prepared, awaited)
        else:
            for (_, awaited), row in zip(wanted, rows, strict=True):
                awaited.set_result(row)

    def _alone(self, prepared: Any, awaited: "Future[Floats]") -> None:
        try:
            awaited.set_result(self.backbone([prepared])[0])
        except Exception as error:
            awaited.set_exception(error)
