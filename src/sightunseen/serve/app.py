"""The web application of a model: HTTP API and page."""

from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from sightunseen._version import __version__
from sightunseen.core.errors import SightUnseenError
from sightunseen.features.backbones import Backbone
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.endpoints import Endpoints
from sightunseen.serve.limits import LIMITS, Limits, RequestError
from sightunseen.serve.middleware import LimitsMiddleware
from sightunseen.serve.schemas import (
    ClassChange,
    ClassList,
    ExampleChange,
    ExampleOptions,
    NewClass,
    NewExamples,
    Options,
    PredictRequest,
    PredictResponse,
    schema_of,
)

MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def create_app(
    model: ZeroShotClassifier,
    backbone: Backbone | None = None,
    token: str | None = None,
    limits: Limits = LIMITS,
    folder: Path | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """Create the web application of a fitted model.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    backbone : Backbone, optional
        Network that extracts the model's features from photos. Without it the service accepts only features.
    token : str, optional
        Token that requests that change the model must send as ``Authorization: Bearer TOKEN``. Default: no authentication.
    limits : Limits, optional
        Limits on requests.
    folder : Path, optional
        Model folder to save changes to. Default: changes are lost when the server stops.
    hosts : collection of str, optional
        Accepted host names of requests. Default: any.

    Returns
    -------
    FastAPI
        The application.

    Raises
    ------
    SettingsError
        If the backbone has another number of features than the model.
    """
    endpoints = Endpoints(model, backbone, token, limits, folder)
    # FastAPI's documentation pages load scripts from a CDN; the API is described at /openapi.json.
    app = FastAPI(title="sightunseen", version=__version__, docs_url=None, redoc_url=None, lifespan=endpoints.lifespan)
    app.add_middleware(LimitsMiddleware, limits=limits, hosts=hosts)
    for kind in (RequestError, SightUnseenError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _error)
    for file in files("sightunseen.serve").joinpath("page").iterdir():
        address = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(address, _page(file), include_in_schema=False)
    post: Any = {"methods": ["POST"], "responses": {422: {"description": "error message as 'error'"}}}
    predict_body = _body({"multipart/form-data": _form(Options), "application/json": schema_of(PredictRequest)})
    example_body = _body({"multipart/form-data": _form(ExampleOptions), "application/json": schema_of(NewExamples)})
    class_body = _body({"application/json": schema_of(NewClass)})
    app.add_api_route("/health", endpoints.health, response_model=dict[str, Any])
    app.add_api_route("/classes", endpoints.classes, response_model=ClassList)
    app.add_api_route("/predict", endpoints.predict, response_model=PredictResponse, openapi_extra=predict_body, **post)
    app.add_api_route("/classes", endpoints.add, response_model=ClassChange, status_code=201, openapi_extra=class_body, **post)
    created: Any = {"status_code": 201, "openapi_extra": example_body, **post}
    app.add_api_route("/examples", endpoints.add_examples, response_model=ExampleChange, **created)
    app.add_api_route("/classes/{name:path}", endpoints.remove, response_model=ClassChange, methods=["DELETE"])
    return app


def _page(file: Traversable) -> Callable[[], Awaitable[Response]]:
    content, media = file.read_bytes(), MEDIA[Path(file.name).suffix]

    async def page() -> Response:
        return Response(content, media_type=media)

    return page


async def _error(_: Request, error: Exception) -> JSONResponse:
    """Answer every error with ``{"error": reason}``; details of internal errors are only in the log of the server."""
    headers: Any = getattr(error, "headers", None)
    if isinstance(error, RequestError):
        status, reason = error.status, error.reason
    elif isinstance(error, HTTPException):
        status, reason = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status, reason = 422, str(error.errors()[0]["msg"])
    elif isinstance(error, SightUnseenError):
        status, reason = 422, str(error)[:2000]
    else:
        status, reason = 500, "internal error of the server, not of the request. See the log of the server."
    return JSONResponse({"error": reason}, status, headers)


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """OpenAPI description of a request body, by media type."""
    content = {media: {"schema": schema} for media, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def _form(kind: type[BaseModel]) -> dict[str, Any]:
    schema = schema_of(kind)
    photo = {"type": "string", "format": "binary", "description": "photo (may be repeated)"}
    return {
        **schema,
        "properties": {"photo": photo, **schema["properties"]},
        "required": ["photo", *schema.get("required", [])],
    }
