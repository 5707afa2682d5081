"""Parts of the OpenAPI description that FastAPI cannot derive: alternative bodies, and errors of the middleware."""

from typing import Any

from pydantic import BaseModel

from sightunseen.methods import ZeroShotClassifier
from sightunseen.serve.limits import Limits
from sightunseen.serve.reading import schema_of
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


def image_body(form: type[BaseModel], body: type[BaseModel], model: ZeroShotClassifier, limits: Limits) -> dict[str, Any]:
    """Describe a request body that is a form with photos or JSON with features.

    Parameters
    ----------
    form, body : type of BaseModel
        Schema of the other fields of the form, and of the JSON.
    model : ZeroShotClassifier
        Fitted model, whose number of features a row has.
    limits : Limits
        Limits on photos and images.

    Returns
    -------
    dict
        ``openapi_extra`` of a route.
    """
    features, most = int(model.n_features_in_), limits.feature_magnitude
    described = _schema(body, model)
    described["properties"]["features"] |= {"minItems": 1, "maxItems": limits.images}
    number = {"type": "number", "minimum": -most, "maximum": most}
    described["properties"]["features"]["items"] = {
        "type": "array",
        "items": number,
        "minItems": features,
        "maxItems": features,
    }
    return _body({"multipart/form-data": _form(form, limits.photos), "application/json": described})


def json_body(kind: type[BaseModel], model: ZeroShotClassifier) -> dict[str, Any]:
    """Describe a JSON request body.

    Parameters
    ----------
    kind : type of BaseModel
        Its schema.
    model : ZeroShotClassifier
        Fitted model, whose attributes can be given.

    Returns
    -------
    dict
        ``openapi_extra`` of a route.
    """
    return _body({"application/json": _schema(kind, model)})


def _body(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema} for media, schema in kinds.items()}}}


def _schema(kind: type[BaseModel], model: ZeroShotClassifier) -> dict[str, Any]:
    """JSON schema of a model, in which the names of attributes are those of the classifier."""
    schema = schema_of(kind)
    names = model.table_.attribute_names
    for part in (schema["properties"], schema["properties"].get("also", {}).get("items", {}).get("properties", {})):
        if names is not None and "attributes" in part:
            choice = next(one for one in part["attributes"]["anyOf"] if one.get("type") == "object")
            choice["propertyNames"] = {"enum": list(names)}
    return schema


def _form(kind: type[BaseModel], photos: int) -> dict[str, Any]:
    schema = schema_of(kind)
    photo = {"type": "string", "format": "binary"}
    described = {"type": "array", "items": photo, "minItems": 1, "maxItems": photos, "description": "photos"}
    fields = {name: _field(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": {"photo": described, **fields}, "required": ["photo", *schema.get("required", [])]}


def _field(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a field of a form: lists and objects are JSON in a text field."""
    if schema.get("type") in ("string", "integer", "boolean"):
        return schema
    what = schema.get("description", "")
    return {"type": "string", "contentMediaType": "application/json", "description": f"{what}, as JSON"}
