"""What each address of the API does."""

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
from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import Backbone, Floats
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.batches import Batches
from sightunseen.serve.image_answers import sliders_of
from sightunseen.serve.limits import Limits, Refused
from sightunseen.serve.schemas import Answer, Changed, Classes, KnownClass, NewClass, Question, read_json, read_photos
from sightunseen.serve.service import ServedModel, labels_of

Result = TypeVar("Result")


class Endpoints:
    """A served model behind its addresses. One thread answers and changes it; another runs the backbone."""

    def __init__(
        self, model: ZeroShotClassifier, backbone: Backbone | None, token: str | None, limits: Limits, folder: Path | None
    ) -> None:
        if backbone is not None and backbone.size != model.n_features_in_:
            raise SettingsError(
                f"the backbone {backbone.name} gives {backbone.size} features a photo; the model needs {model.n_features_in_}."
            )
        self.served = ServedModel(model, limits, folder)
        self.backbone = backbone
        self.token = token
        self.limits = limits
        self._thread: ThreadPoolExecutor | None = None
        self._batches: Batches | None = None

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """From the first request to the last: the threads that work."""
        self._thread = ThreadPoolExecutor(1, "model")
        self._batches = None if self.backbone is None else Batches(self.backbone, self.limits)
        try:
            yield
        finally:
            if self._batches is not None:
                await asyncio.to_thread(self._batches.close)
            self._thread.shutdown(cancel_futures=True)

    async def health(self) -> dict[str, Any]:
        """Whether the server is there, and what it serves."""
        return {
            "status": "ok",
            "version": __version__,
            "method": type(self.served.model).__name__,
            "backbone": None if self.backbone is None else self.backbone.name,
            "features": int(self.served.model.n_features_in_),
            "classes": len(self.served.model.classes_),
            "waiting": 0 if self._batches is None else self._batches.waiting,
        }

    async def classes(self, vectors: bool = False) -> Classes:
        """The classes, whether they were seen in training, and what they are known by; on request their vectors, too."""
        model, added = self.served.model, self.served.added
        seen, labels = set(model.seen_classes_.tolist()), labels_of(model)
        rows = model.table_.vectors_of(list(labels.values())).tolist() if vectors else [None] * len(labels)
        return Classes(
            semantics=model.table_.use,
            attributes=sliders_of(model.table_),
            classes=[
                KnownClass(name=name, seen=label in seen, added=name in added, vector=row)
                for (name, label), row in zip(labels.items(), rows, strict=True)
            ],
            photos=self.backbone is not None,
            guarded=self.token is not None,
        )

    async def predict(self, request: Request) -> Answer:
        """Ranked classes of photos (a form with files) or of images given by their features (JSON)."""
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            if self._batches is None:
                raise Refused(422, "this model does not say which backbone it needs: send features, not photos.")
            photos, options = await read_photos(request, self.limits)
            features, names = await self._batches.features_of(photos), [name for name, _ in photos]
        else:
            question = await read_json(request, Question)
            features, options = self._checked(question.features), question
            names = [str(number) for number in range(len(features))]
        return await self._in_turn(self.served.answer, features, names, options)

    async def add(self, request: Request) -> Changed:
        """Make a class recognisable, by a sentence or by attributes; those not given are filled with their mean."""
        self._check_token(request)
        return await self._in_turn(self.served.add, await read_json(request, NewClass))

    async def remove(self, name: str, request: Request) -> Changed:
        """Take an unseen class out of those that are recognised."""
        self._check_token(request)
        return await self._in_turn(self.served.remove, name)

    async def _in_turn(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Have the model's own thread do this, after what it was asked before."""
        assert self._thread is not None, "the application has not been started"
        return await asyncio.wrap_future(self._thread.submit(work, *arguments))

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            return
        shown = request.headers.get("authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
            reason = "changing classes needs the token: send the header Authorization: Bearer TOKEN."
            raise Refused(401, reason, {"WWW-Authenticate": "Bearer"})

    def _checked(self, rows: list[list[float]]) -> Floats:
        """Features (n, d) of the model's size."""
        needed = self.served.model.n_features_in_
        if not 1 <= len(rows) <= self.limits.images:
            raise Refused(422, f"features: {len(rows)} images; from 1 to {self.limits.images} are answered at once.")
        wrong = next((k for k, row in enumerate(rows) if len(row) != needed), None)
        if wrong is not None:
            raise Refused(422, f"features: image {wrong} has {len(rows[wrong])} of them; the model needs {needed}.")
        with np.errstate(over="ignore"):
            features = np.array(rows, dtype=np.float64).astype(np.float32)
        if not np.isfinite(features).all():
            raise Refused(422, "features: a number is too large.")
        return features
