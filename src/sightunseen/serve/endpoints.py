"""Endpoints of the HTTP API."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from sightunseen._version import __version__
from sightunseen.core.arrays import Floats
from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import Backbone
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.batches import BackboneBatcher
from sightunseen.serve.limits import Limits, RequestError
from sightunseen.serve.metrics import MEDIA, Metrics
from sightunseen.serve.reading import read_photos
from sightunseen.serve.schemas import ExampleOptions, Health, NewClass, Options, Probe
from sightunseen.serve.service import ModelService

JSON = "application/json"
NUMBER_BYTES = 32  # of a number in JSON, with spaces
OPTION_BYTES = 1 << 20  # of all that is not features: names, descriptions, attributes

Result = TypeVar("Result")


class Endpoints:
    """Endpoints of a model. One thread predicts, one changes the model, and one runs the backbone.

    Parameters
    ----------
    model, backbone, limits, folder
        See :func:`sightunseen.serve.app.create_app`.
    guarded : bool
        Whether changes need a token.
    metrics : Metrics
        Metrics to update.

    Raises
    ------
    SettingsError
        If the backbone has another number of features than the model.
    """

    def __init__(
        self,
        model: ZeroShotClassifier,
        backbone: Backbone | None,
        limits: Limits,
        folder: Path | None,
        guarded: bool,
        metrics: Metrics,
    ) -> None:
        if backbone is not None and backbone.size != model.n_features_in_:
            raise SettingsError(
                f"the backbone {backbone.name} has {backbone.size} features; the model expects {model.n_features_in_}."
            )
        self.service = ModelService(model, limits, folder, photos=backbone is not None, guarded=guarded)
        self.backbone = backbone
        self.limits = limits
        self.metrics = metrics
        self.stopping: Callable[[], bool] = lambda: False
        self.json_bytes = OPTION_BYTES + limits.images * int(model.n_features_in_) * NUMBER_BYTES
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._batcher: BackboneBatcher | None = None
        metrics.gauge("photos_waiting", "Photos that wait for the backbone.", lambda: self.waiting)
        metrics.gauge("classes", "Classes of the model.", lambda: len(self.service.model.classes_))

    @property
    def waiting(self) -> int:
        """Number of photos that wait for the backbone."""
        return 0 if self._batcher is None else self._batcher.waiting

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Start the threads with the application and stop them with it."""
        self._threads = {
            "predict": ThreadPoolExecutor(1, "predict"),
            "change": ThreadPoolExecutor(1, "change"),
        }
        if self.backbone is not None:
            self._batcher = BackboneBatcher(self.backbone, self.limits, self.metrics.batched)
        try:
            yield
        finally:
            threads, self._threads = self._threads, {}
            if self._batcher is not None:
                await asyncio.to_thread(self._batcher.close)
            for thread in threads.values():
                await asyncio.to_thread(thread.shutdown, cancel_futures=True)

    async def health(self) -> Health:
        """Describe the service: version, method, backbone, and numbers of features, classes and waiting photos."""
        return Health(
            version=__version__,
            method=type(self.service.model).__name__,
            backbone=None if self.backbone is None else self.backbone.name,
            features=int(self.service.model.n_features_in_),
            classes=len(self.service.model.classes_),
            waiting=self.waiting,
        )

    async def live(self) -> Probe:
        """Tell that the server answers requests."""
        return Probe()

    async def ready(self) -> Probe:
        """Tell whether the server can predict; 503 while it starts or stops, or if the thread of the backbone has died."""
        if not self._threads or self.stopping():
            raise RequestError(503, "the server is starting or stopping.", {"Retry-After": "1"}, "not ready")
        if self._batcher is not None:
            self._batcher.check()
        return Probe()

    async def measured(self) -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(self.metrics.text(), media_type=MEDIA)

    async def classes(self, vectors: bool = False) -> Response:
        """List the classes, the attributes, and optionally the class vectors."""
        return Response(await self._in("predict", self.service.class_list, vectors), media_type=JSON)

    async def predict(self, request: Request, options: Any) -> Response:
        """Predict the classes of photos (multipart form) or of images given as features (JSON)."""
        features = _features(request, options.features)
        names = [str(number) for number in range(len(features))]
        return await self._answer("predict", self.service.predict, features, names, options)

    async def predict_photos(self, request: Request) -> Response:
        """Predict the classes of the photos of a form."""
        features, names, options = await self._photos(request, Options)
        return await self._answer("predict", self.service.predict, features, names, options)

    async def add(self, new: NewClass) -> Response:
        """Add a class by a description or attributes; attributes that are not given have their mean value."""
        return await self._changed("add class", 201, self.service.add, new)

    async def add_examples(self, request: Request, options: Any) -> Response:
        """Add photos (multipart form) or images given as features (JSON) as examples of a class."""
        features = _features(request, options.features)
        return await self._changed("add examples", 201, self.service.add_examples, options.name, features)

    async def add_photos(self, request: Request) -> Response:
        """Add the photos of a form as examples of a class."""
        features, _, options = await self._photos(request, ExampleOptions)
        return await self._changed("add examples", 201, self.service.add_examples, options.name, features)

    async def remove(self, name: str) -> Response:
        """Remove an unseen class."""
        return await self._changed("remove class", 200, self.service.remove, name)

    async def _photos(self, request: Request, kind: type[Any]) -> tuple[Floats, list[str], Any]:
        """Read the photos and options of a form; return features (n, d), names, and options of the schema ``kind``."""
        if self._batcher is None:
            raise RequestError(422, "the backbone of this model is unknown. Send features instead of photos.")
        photos, options = await read_photos(request, self.limits, kind)
        request.state.images = len(photos)
        return await self._batcher.features_of(photos), [name for name, _ in photos], options

    async def _changed(self, change: str, status: int, work: Callable[..., BaseModel], *arguments: Any) -> Response:
        response = await self._answer("change", work, *arguments)
        response.status_code = status
        self.metrics.changed(change)
        return response

    async def _answer(self, thread: str, work: Callable[..., BaseModel], *arguments: Any) -> Response:
        """Run a function in a thread and encode its result there, because a large one takes long."""
        return Response(await self._in(thread, lambda: work(*arguments).model_dump_json()), media_type=JSON)

    async def _in(self, thread: str, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function in a thread, after earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], work, *arguments)


def _features(request: Request, rows: list[list[float]]) -> Floats:
    request.state.images = len(rows)
    return np.array(rows, dtype=np.float32)
