"""Bodies of requests: checks before FastAPI parses JSON, and forms with photos."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from sightunseen.serve.limits import Limits, RequestError

Schema = TypeVar("Schema", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]


class _FormParser(MultiPartParser):
    """Parser that keeps photos in memory, where the body already is, instead of writing them to temporary files."""

    spool_max_size = 1 << 40


def body_route(most: int, form: Handler | None = None) -> type[APIRoute]:
    """Make the class of routes that accept JSON and, if there is a handler for them, forms.

    Parameters
    ----------
    most : int
        Largest number of bytes of JSON: parsed JSON takes many times as much memory.
    form : callable, optional
        Handler of requests whose body is a form.

    Returns
    -------
    type of APIRoute
        Routes that answer other media types with 415 and larger JSON with 413.
    """

    class BodyRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if form is not None and media == "multipart/form-data":
                    return await form(request)
                if media != "application/json":
                    raise RequestError(415, "the body must be JSON. Send it with the header Content-Type: application/json.")
                size = len(await request.body())
                if not size:
                    raise RequestError(400, "the body is empty; expected JSON.")
                if size > most:
                    raise RequestError(413, f"the JSON has {size:,} bytes; at most {most:,} are allowed here.", cause="size")
                return await handle(request)

            return checked

    return BodyRoute


async def read_photos(request: Request, limits: Limits, kind: type[Schema]) -> tuple[list[tuple[str, bytes]], Schema]:
    """Read the photos and options of a multipart form.

    Parameters
    ----------
    request : Request
        The request.
    limits : Limits
        Limits on the number of photos.
    kind : type of BaseModel
        Expected schema of the other fields.

    Returns
    -------
    photos : list of (str, bytes)
        Names and contents of the photos.
    options : BaseModel
        The other fields, an instance of ``kind``.

    Raises
    ------
    RequestError
        If the form is malformed (400), its encoding is not UTF-8 (415), there is no photo, or an option is not valid (422).
    """
    media = request.headers["content-type"].lower()
    if "charset" in media and not re.search(r'charset="?utf-?8"?\s*(;|$)', media):
        raise RequestError(415, "the form must be encoded as UTF-8.")
    fields = len(kind.model_fields)
    try:
        form = await _FormParser(request.headers, request.stream(), max_files=limits.photos, max_fields=fields).parse()
    except (MultiPartException, KeyError, UnicodeError) as error:
        why = error.message if isinstance(error, MultiPartException) else "there is no boundary"
        raise RequestError(400, f"the form is malformed: {why}") from error
    try:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        photos = [(_shown(one.filename), await one.read()) for one in files]
        texts = {name: text for name, text in form.items() if isinstance(text, str)}
    finally:
        await form.close()
    if not photos:
        raise RequestError(422, "there is no photo in the form. Send a file, as in curl -F photo=@bird.jpg")
    given = {name: text if _is_text(kind, name) else _value(text) for name, text in texts.items()}
    try:
        return photos, kind.model_validate(given)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from error


def invalid(errors: Sequence[Any]) -> RequestError:
    """Build the error of content that does not match its schema.

    Parameters
    ----------
    errors : sequence of dict
        Errors of pydantic; the first one is reported.

    Returns
    -------
    RequestError
        Status 400 if the body is not JSON, otherwise 422.
    """
    first = errors[0]
    if first["type"] == "json_invalid":
        return RequestError(400, f"the body is not valid JSON ({first.get('ctx', {}).get('error', first['msg'])}).")
    field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))[:200]
    return RequestError(422, f"{field}: {first['msg'][:300]}" if field else first["msg"][:300])


def _shown(name: str | None) -> str:
    """Name of an uploaded file without folders; it is only shown, never opened."""
    shown = (name or "photo").replace("\\", "/").rsplit("/", 1)[-1][-200:] or "photo"
    return shown.encode(errors="replace").decode()


def _is_text(kind: type[BaseModel], name: str) -> bool:
    return name in kind.model_fields and kind.model_fields[name].annotation is str


def _value(text: str) -> Any:
    """Parse a form field as JSON, such as ``5``, ``true`` or ``["a", "b"]``; return other text unchanged."""
    try:
        return from_json(text, allow_inf_nan=False)  # unlike json.loads, rejects halves of surrogate pairs
    except ValueError:
        return text
