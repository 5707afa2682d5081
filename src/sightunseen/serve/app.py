"""The web application of a model: HTTP API and page."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from sightunseen._version import __version__
from sightunseen.core.documents import quoted
from sightunseen.features.backbones import Backbone
from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.access_log import AccessLog
from sightunseen.serve.admission import Admission
from sightunseen.serve.endpoints import OPTION_BYTES, Endpoints
from sightunseen.serve.exchange import Observers
from sightunseen.serve.limits import LIMITS, Limits
from sightunseen.serve.metrics import Metrics
from sightunseen.serve.middleware import Access, RequestMiddleware
from sightunseen.serve.openapi import errors, form_body
from sightunseen.serve.reading import body_route, invalid
from sightunseen.serve.schemas import (
    ClassChange,
    ClassList,
    ExampleChange,
    ExampleOptions,
    Health,
    Options,
    PredictResponse,
    Probe,
    with_features,
)

PAGE_MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def create_app(
    model: ZeroShotClassifier,
    backbone: Backbone | None = None,
    token: str | None = None,
    limits: Limits = LIMITS,
    folder: Path | None = None,
    hosts: Collection[str] | None = None,
    token_for: str = "changes",
    metrics: bool = True,
    access_log: AccessLog | None = None,
) -> FastAPI:
    """Create the web application of a fitted model.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    backbone : Backbone, optional
        Network that extracts the model's features from photos. Without it the service accepts only features.
    token : str, optional
        Token that requests must send as ``Authorization: Bearer TOKEN``. Default: no authentication.
    limits : Limits, optional
        Limits on requests.
    folder : Path, optional
        Model folder to save changes to; it must contain the model. Default: changes are lost when the server stops.
    hosts : collection of str, optional
        Accepted host names of requests. Default: any.
    token_for : {"changes", "everything"}, default="changes"
        Which requests need the token: those that change the model, or all but the page and ``/health/live`` and
        ``/health/ready``.
    metrics : bool, default=True
        Whether ``GET /metrics`` returns metrics.
    access_log : AccessLog, optional
        Log of requests. Default: none.

    Returns
    -------
    FastAPI
        The application.

    Raises
    ------
    SettingsError
        If the backbone has another number of features than the model.
    """
    measured, admission = Metrics(), Admission(limits)
    observers: Observers = (measured,) if access_log is None else (measured, access_log)
    endpoints = Endpoints(model, backbone, limits, folder, token is not None, measured)
    endpoints.stopping = lambda: admission.stopping
    measured.gauge("buffered_bytes", "Bytes of request bodies in memory.", lambda: admission.buffered)
    measured.gauge("requests_processed", "Requests that are being processed.", lambda: admission.processed)
    # FastAPI's documentation pages load scripts from a CDN; the API is described at /openapi.json.
    app = FastAPI(
        title="sightunseen",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=endpoints.lifespan,
    )
    app.state.admission, app.state.metrics, app.state.observers = admission, measured, observers
    for kind in (HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _error)
    page = {"/" if file.name == "index.html" else f"/{file.name}": file for file in _page_files()}
    for address, file in page.items():
        app.add_api_route(address, _page(file), include_in_schema=False)
    open_paths = frozenset((*page, "/health/live", "/health/ready"))
    access = Access(hosts, token, token_for == "everything", open_paths)
    app.add_middleware(RequestMiddleware, access=access, admission=admission, observers=observers)
    _add_api(app, endpoints, access, metrics)
    return app


def _add_api(app: FastAPI, endpoints: Endpoints, access: Access, metrics: bool) -> None:
    limits, size = endpoints.limits, int(endpoints.service.model.n_features_in_)
    predict_request = with_features(Options, "PredictRequest", size, limits)
    new_examples = with_features(ExampleOptions, "NewExamples", size, limits)

    # FastAPI takes the schema of a body from the annotation, which depends on the number of features of the model.
    async def predict(request: Request, options: predict_request) -> Response:  # type: ignore[valid-type]
        return await endpoints.predict(request, options)

    async def add_examples(request: Request, options: new_examples) -> Response:  # type: ignore[valid-type]
        return await endpoints.add_examples(request, options)

    predict.__doc__, add_examples.__doc__ = endpoints.predict.__doc__, endpoints.add_examples.__doc__
    reading: Any = _token(access, access.everything)
    changing: Any = _token(access, True)
    app.add_api_route("/health", endpoints.health, response_model=Health, responses=errors(), **reading)
    app.add_api_route("/health/live", endpoints.live, response_model=Probe, responses=errors())
    app.add_api_route("/health/ready", endpoints.ready, response_model=Probe, responses=errors(503))
    if metrics:
        app.add_api_route("/metrics", endpoints.measured, response_class=PlainTextResponse, responses=errors(), **reading)
    app.add_api_route("/classes", endpoints.classes, response_model=ClassList, responses=errors(422), **reading)
    app.router.add_api_route(
        "/predict",
        predict,
        methods=["POST"],
        response_model=PredictResponse,
        route_class_override=body_route(endpoints.json_bytes, endpoints.predict_photos),
        openapi_extra=form_body(Options, limits),
        responses=errors(403, 409, 415, 422, 503),
        **reading,
    )
    app.router.add_api_route(
        "/classes",
        endpoints.add,
        methods=["POST"],
        status_code=201,
        response_model=ClassChange,
        route_class_override=body_route(OPTION_BYTES),
        responses=errors(403, 409, 415, 422, 503),
        **changing,
    )
    app.router.add_api_route(
        "/examples",
        add_examples,
        methods=["POST"],
        status_code=201,
        response_model=ExampleChange,
        route_class_override=body_route(endpoints.json_bytes, endpoints.add_photos),
        openapi_extra=form_body(ExampleOptions, limits),
        responses=errors(403, 404, 409, 415, 422, 503),
        **changing,
    )
    app.add_api_route(
        "/classes/{name:path}",
        endpoints.remove,
        methods=["DELETE"],
        response_model=ClassChange,
        responses=errors(403, 404, 409, 422, 503),
        **changing,
    )


def _token(access: Access, needed: bool) -> dict[str, Sequence[Any]]:
    """Declare the token in the schema; the middleware checks it, before it receives the body."""
    return {"dependencies": [Security(HTTPBearer(auto_error=False))]} if needed and access.token is not None else {}


def _page_files() -> list[Traversable]:
    return list(files("sightunseen.serve").joinpath("page").iterdir())


def _page(file: Traversable) -> Callable[[], Awaitable[Response]]:
    content, media = file.read_bytes(), PAGE_MEDIA[Path(file.name).suffix]

    async def page() -> Response:
        return Response(content, media_type=media)

    return page


async def _error(_: Request, error: Exception) -> JSONResponse:
    """Answer errors of the framework as ``{"error": reason}``; all others are answered by the middleware."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": quoted(error.detail, 500)}, error.status_code, error.headers)
    assert isinstance(error, RequestValidationError)
    found = invalid(error.errors())
    return JSONResponse({"error": quoted(found.reason, 500)}, found.status)
