"""The HTTP API of a model, and its page."""

from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sightunseen._version import __version__
from sightunseen.core.errors import SightUnseenError
from sightunseen.features.backbones import Backbone
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.endpoints import Endpoints
from sightunseen.serve.limits import LIMITS, Limits, Refused
from sightunseen.serve.middleware import Guard
from sightunseen.serve.schemas import Answer, Changed, Classes, NewClass, Options, Question, schema_of

MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def create_app(
    model: ZeroShotClassifier,
    backbone: Backbone | None = None,
    token: str | None = None,
    limits: Limits = LIMITS,
    folder: Path | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """The application that serves a fitted model.

    Parameters
    ----------
    backbone : what turns photos into the model's features; without it only features are answered.
    token : what those who change classes must show, as ``Authorization: Bearer TOKEN``; None asks for nothing.
    limits : on size, time and number.
    folder : the model folder that changes of classes are saved to; None keeps them until the server ends.
    hosts : the names by which the server may be asked; None stands for any.
    """
    ends = Endpoints(model, backbone, token, limits, folder)
    # The usual pages about the API load their scripts from elsewhere; its description is at /openapi.json.
    app = FastAPI(title="sightunseen", version=__version__, docs_url=None, redoc_url=None, lifespan=ends.lifespan)
    app.add_middleware(Guard, limits=limits, hosts=hosts)
    for kind in (Refused, SightUnseenError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _error)
    for file in files("sightunseen.serve").joinpath("page").iterdir():
        address = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(address, _page(file), include_in_schema=False)
    post: Any = {"methods": ["POST"], "responses": {422: {"description": "what was wrong, as 'error'"}}}
    asked = _body({"multipart/form-data": _form(), "application/json": schema_of(Question)})
    added = _body({"application/json": schema_of(NewClass)})
    app.add_api_route("/health", ends.health, response_model=dict[str, Any])
    app.add_api_route("/classes", ends.classes, response_model=Classes)
    app.add_api_route("/predict", ends.predict, response_model=Answer, openapi_extra=asked, **post)
    app.add_api_route("/classes", ends.add, response_model=Changed, status_code=201, openapi_extra=added, **post)
    app.add_api_route("/classes/{name:path}", ends.remove, response_model=Changed, methods=["DELETE"])
    return app


def _page(file: Traversable) -> Callable[[], Awaitable[Response]]:
    content, media = file.read_bytes(), MEDIA[Path(file.name).suffix]

    async def page() -> Response:
        return Response(content, media_type=media)

    return page


async def _error(_: Request, error: Exception) -> JSONResponse:
    """Every error as ``{"error": reason}``; of one that nobody expected, the server's log has the rest."""
    headers: Any = getattr(error, "headers", None)
    if isinstance(error, Refused):
        status, reason = error.status, error.reason
    elif isinstance(error, HTTPException):
        status, reason = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status, reason = 422, str(error.errors()[0]["msg"])
    elif isinstance(error, SightUnseenError):
        status, reason = 422, str(error)[:2000]
    else:
        status, reason = 500, "something went wrong here, not with the request. The server's log says more."
    return JSONResponse({"error": reason}, status, headers)


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The part of an OpenAPI description that says what may be sent."""
    content = {media: {"schema": schema} for media, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def _form() -> dict[str, Any]:
    schema = schema_of(Options)
    photo = {"type": "string", "format": "binary", "description": "a photo; may be given several times"}
    return {**schema, "properties": {"photo": photo, **schema["properties"]}, "required": ["photo"]}
