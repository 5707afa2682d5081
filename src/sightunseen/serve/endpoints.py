"""Endpoints of the HTTP API."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request

from sightunseen._version import __version__
from sightunseen.core.arrays import Floats
from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import Backbone
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.batches import BackboneBatcher
from sightunseen.serve.image_answers import attribute_ranges
from sightunseen.serve.limits import Limits, RequestError
from sightunseen.serve.schemas import (
    ClassChange,
    ClassList,
    ExampleChange,
    ExampleOptions,
    KnownClass,
    NewClass,
    NewExamples,
    Options,
    PredictRequest,
    PredictResponse,
    read_json,
    read_photos,
)
from sightunseen.serve.service import ModelService, labels_of

Result = TypeVar("Result")


class Endpoints:
    """Endpoints of a model. One thread predicts and changes the model; another runs the backbone.

    Parameters
    ----------
    model, backbone, token, limits, folder
        See :func:`sightunseen.serve.app.create_app`.

    Raises
    ------
    SettingsError
        If the backbone has another number of features than the model.
    """

    def __init__(
        self, model: ZeroShotClassifier, backbone: Backbone | None, token: str | None, limits: Limits, folder: Path | None
    ) -> None:
        if backbone is not None and backbone.size != model.n_features_in_:
            raise SettingsError(
                f"the backbone {backbone.name} has {backbone.size} features; the model expects {model.n_features_in_}."
            )
        self.service = ModelService(model, limits, folder)
        self.backbone = backbone
        self.token = token
        self.limits = limits
        self._thread: ThreadPoolExecutor | None = None
        self._batcher: BackboneBatcher | None = None

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Start the threads with the application and stop them with it."""
        self._thread = ThreadPoolExecutor(1, "model")
        self._batcher = None if self.backbone is None else BackboneBatcher(self.backbone, self.limits)
        try:
            yield
        finally:
            if self._batcher is not None:
                await asyncio.to_thread(self._batcher.close)
            self._thread.shutdown(cancel_futures=True)

    async def health(self) -> dict[str, Any]:
        """Describe the service: version, method, backbone, and numbers of features, classes and waiting photos."""
        return {
            "status": "ok",
            "version": __version__,
            "method": type(self.service.model).__name__,
            "backbone": None if self.backbone is None else self.backbone.name,
            "features": int(self.service.model.n_features_in_),
            "classes": len(self.service.model.classes_),
            "waiting": 0 if self._batcher is None else self._batcher.waiting,
        }

    async def classes(self, vectors: bool = False) -> ClassList:
        """List the classes, the attributes, and optionally the class vectors."""
        model, added = self.service.model, self.service.added
        seen, labels = set(model.seen_classes_.tolist()), labels_of(model)
        examples = model.example_counts
        rows = model.table_.vectors_of(list(labels.values())).tolist() if vectors else [None] * len(labels)
        return ClassList(
            semantics=model.table_.use,
            attributes=attribute_ranges(model.table_),
            classes=[
                KnownClass(name=name, seen=label in seen, added=name in added, examples=examples.get(label, 0), vector=row)
                for (name, label), row in zip(labels.items(), rows, strict=True)
            ],
            photos=self.backbone is not None,
            guarded=self.token is not None,
            takes_examples=model.takes_examples,
        )

    async def predict(self, request: Request) -> PredictResponse:
        """Predict the classes of photos (multipart form) or of images given as features (JSON)."""
        features, names, options = await self._images(request, Options, PredictRequest)
        return await self._in_thread(self.service.predict, features, names, options)

    async def add(self, request: Request) -> ClassChange:
        """Add a class by a description or attributes; attributes that are not given have their mean value."""
        self._check_token(request)
        return await self._in_thread(self.service.add, await read_json(request, NewClass))

    async def add_examples(self, request: Request) -> ExampleChange:
        """Add photos (multipart form) or images given as features (JSON) as examples of a class."""
        self._check_token(request)
        features, _, options = await self._images(request, ExampleOptions, NewExamples)
        return await self._in_thread(self.service.add_examples, options.name, features)

    async def remove(self, name: str, request: Request) -> ClassChange:
        """Remove an unseen class."""
        self._check_token(request)
        return await self._in_thread(self.service.remove, name)

    async def _images(self, request: Request, form: type[Any], body: type[Any]) -> tuple[Floats, list[str], Any]:
        """Read images and options; return features (n, d), names, and options of the schema ``form`` or ``body``."""
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            options = await read_json(request, body)
            features = self._checked(options.features)
            return features, [str(number) for number in range(len(features))], options
        if self._batcher is None:
            raise RequestError(422, "the backbone of this model is unknown. Send features instead of photos.")
        photos, options = await read_photos(request, self.limits, form)
        return await self._batcher.features_of(photos), [name for name, _ in photos], options

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function in the thread of the model, after earlier calls."""
        assert self._thread is not None, "the application has not been started"
        return await asyncio.wrap_future(self._thread.submit(work, *arguments))

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            return
        shown = request.headers.get("authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
            reason = "changing the model needs the token. Send the header Authorization: Bearer TOKEN."
            raise RequestError(401, reason, {"WWW-Authenticate": "Bearer"})

    def _checked(self, rows: list[list[float]]) -> Floats:
        """Convert rows to an array of shape (n, d); reject a wrong number of rows or features."""
        needed = self.service.model.n_features_in_
        if not 1 <= len(rows) <= self.limits.images:
            raise RequestError(422, f"features: found {len(rows)} images; expected 1 to {self.limits.images} per request.")
        wrong = next((k for k, row in enumerate(rows) if len(row) != needed), None)
        if wrong is not None:
            raise RequestError(422, f"features: image {wrong} has {len(rows[wrong])} features; the model expects {needed}.")
        with np.errstate(over="ignore"):
            features = np.array(rows, dtype=np.float64).astype(np.float32)
        if not np.isfinite(features).all():
            raise RequestError(422, "features: a number is too large for single precision.")
        return features
