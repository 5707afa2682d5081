"""Read the bodies of requests: JSON, or a form with photos."""

import asyncio
import json
import re
from concurrent.futures import Executor
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from sightunseen.serve.limits import Limits, RequestError

SMALL = 1 << 16  # bytes of JSON that are parsed without changing the thread

Schema = TypeVar("Schema", bound=BaseModel)


class _FormParser(MultiPartParser):
    """Parser that keeps photos in memory, where the body already is, instead of writing them to temporary files."""

    spool_max_size = 1 << 40


async def read_json(request: Request, kind: type[Schema], parser: Executor, most: int) -> Schema:
    """Read and validate a JSON request body.

    Parameters
    ----------
    request : Request
        The request.
    kind : type of BaseModel
        Expected schema.
    parser : Executor
        Parses large bodies; its number of threads bounds the memory of parsed bodies.
    most : int
        Largest number of bytes: parsed JSON takes many times as much memory.

    Returns
    -------
    BaseModel
        The body, an instance of ``kind``.

    Raises
    ------
    RequestError
        If the body is not JSON (400, 415), is too large (413), or does not match the schema (422).
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "the body must be JSON. Send it with the header Content-Type: application/json.")
    content = await request.body()
    if len(content) > most:
        raise RequestError(413, f"the JSON has {len(content):,} bytes; at most {most:,} are allowed here.", cause="size")
    try:
        if len(content) <= SMALL:
            return kind.model_validate_json(content)
        return await asyncio.get_running_loop().run_in_executor(parser, kind.model_validate_json, content)
    except ValidationError as error:
        raise _request_error(error) from error


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
        raise _request_error(error) from error


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """Build the JSON schema of a model without references.

    Parameters
    ----------
    kind : type of BaseModel
        Request schema.

    Returns
    -------
    dict
        JSON schema.
    """
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})
    text = json.dumps(schema)
    for name, part in parts.items():
        text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(part))
    return dict(json.loads(text))


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


def _request_error(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return RequestError(400, f"the body is not valid JSON ({first['msg'].removeprefix('Invalid JSON: ')}).")
    field = ".".join(str(part) for part in first["loc"])[:200]
    return RequestError(422, f"{field}: {first['msg']}" if field else first["msg"])
