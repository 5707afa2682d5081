"""Parts of the OpenAPI description that FastAPI cannot derive: forms beside JSON, and errors of the middleware."""

from typing import Any

from pydantic import BaseModel

from sightunseen.serve.limits import Limits
from sightunseen.serve.schemas import ErrorResponse

ERRORS = {
    400: "the request is malformed",
    401: "the token is missing or wrong",
    403: "the request comes from another origin",
    404: "there is no such class",
    408: "the request was not received or not processed in time",
    409: "the change conflicts with the model, or another process is changing it",
    413: "the body is too large",
    415: "the media type of the body is not supported",
    421: "the host is not accepted",
    422: "the content is not valid",
    429: "the service is busy, or the client sends too many requests; see Retry-After",
    503: "the service is not ready, or the model folder cannot be read or written",
}
ALWAYS = (400, 401, 408, 413, 421, 429)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of an endpoint.

    Parameters
    ----------
    *statuses : int
        Statuses besides those that the middleware can return for any request.

    Returns
    -------
    dict
        Responses by status, as FastAPI takes them.
    """
    return {status: {"model": ErrorResponse, "description": ERRORS[status]} for status in sorted({*ALWAYS, *statuses})}


def form_body(kind: type[BaseModel], limits: Limits) -> dict[str, Any]:
    """Describe a form with photos, the alternative to a JSON body.

    Parameters
    ----------
    kind : type of BaseModel
        Schema of the other fields of the form.
    limits : Limits
        Limits on photos.

    Returns
    -------
    dict
        ``openapi_extra`` of a route, which FastAPI merges with its description of the JSON body.
    """
    schema = kind.model_json_schema()
    schema.pop("$defs", None)
    photo = {"type": "string", "format": "binary"}
    described = {"type": "array", "items": photo, "minItems": 1, "maxItems": limits.photos, "description": "photos"}
    fields = {name: _field(field) for name, field in schema["properties"].items()}
    form = {**schema, "properties": {"photo": described, **fields}, "required": ["photo", *schema.get("required", [])]}
    return {"requestBody": {"content": {"multipart/form-data": {"schema": form}}}}


def _field(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a field of a form: lists and objects are JSON in a text field."""
    if schema.get("type") in ("string", "integer", "boolean"):
        return schema
    what = schema.get("description", "")
    return {"type": "string", "contentMediaType": "application/json", "description": f"{what}, as JSON"}
