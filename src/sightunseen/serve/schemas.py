"""Schemas of requests and responses, and functions that read requests."""

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, FiniteFloat, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request

from sightunseen.serve.limits import Limits, RequestError

Schema = TypeVar("Schema", bound=BaseModel)
Row = Annotated[list[FiniteFloat], FailFast()]


class RequestSchema(BaseModel):
    """Base class of request schemas: no type conversion, and unknown fields are an error."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewClass(RequestSchema):
    """A new class, described by a sentence (models trained on text) or by attributes."""

    name: str
    description: str | None = None
    attributes: dict[str, FiniteFloat] | None = None


class Options(RequestSchema):
    """Options of a prediction."""

    candidates: Literal["all", "seen", "unseen"] | list[str] = Field(
        "all", description="candidate classes: a group, or a list of names"
    )
    top: int = Field(5, ge=1, description="number of classes per image")
    reasons: bool = Field(True, description="return the attributes that contribute most to the best class")
    none: bool = Field(True, description="apply open-set rejection: 'none of these' below the rejection threshold")
    also: list[NewClass] = Field([], description="temporary classes that are candidates in this request only")
    with_features: bool = Field(False, description="return the features of the images, for further requests")


class ExampleOptions(RequestSchema):
    """The class of examples."""

    name: str = Field(description="class that the images belong to: a class of the model, seen or unseen")


class NewExamples(ExampleOptions):
    """Examples of a class, given as features."""

    features: Annotated[list[Row], FailFast()] = Field(description="one row of features per image")


class PredictRequest(Options):
    """Prediction request with images given as features."""

    features: Annotated[list[Row], FailFast()] = Field(description="one row of features per image")


class RankedClass(BaseModel):
    """A predicted class of an image."""

    name: str
    confidence: float
    seen: bool


class Contribution(BaseModel):
    """Contribution of an attribute to the score of the best class, its value, and its mean over seen classes (``usual``)."""

    attribute: str
    contribution: float
    value: float
    usual: float


class ImagePrediction(BaseModel):
    """Predicted classes of an image, the best first, and attribute contributions to the best class.

    If ``none`` is true, the image was rejected: "none of these" is first, followed by the best classes. ``speaks_for`` and
    ``speaks_against`` are the largest positive and negative contributions. They and ``others``, the contribution of all other
    attributes, sum to ``total``, the difference between the score and that of the mean class vector of the seen classes.
    """

    image: str
    none: bool = False
    classes: list[RankedClass]
    speaks_for: list[Contribution] = []
    speaks_against: list[Contribution] = []
    others: float | None = None
    total: float | None = None
    features: list[float] | None = None


class PredictResponse(BaseModel):
    """Predictions of all images, and notes on the descriptions of temporary classes."""

    answers: list[ImagePrediction]
    notes: list[str] = []


class AttributeRange(BaseModel):
    """Range and mean of an attribute over the classes."""

    name: str
    lowest: float
    highest: float
    mean: float


class KnownClass(BaseModel):
    """A class of the model; ``added`` is true if a client added it, ``examples`` is the number of its examples."""

    name: str
    seen: bool
    added: bool
    examples: int = 0
    vector: list[float] | None = None


class ClassList(BaseModel):
    """Classes and attributes of the model.

    ``photos`` is whether photos are accepted, ``guarded`` whether changes need a token, ``takes_examples`` whether the model
    can use examples.
    """

    semantics: str
    attributes: list[AttributeRange]
    classes: list[KnownClass]
    photos: bool
    guarded: bool
    takes_examples: bool


class ClassChange(BaseModel):
    """Response to adding or removing a class: its name, the new number of classes, and notes."""

    name: str
    classes: int
    notes: list[str] = []


class ExampleChange(BaseModel):
    """Response to adding examples: the class, and how many examples it has now."""

    name: str
    examples: int


async def read_json(request: Request, kind: type[Schema]) -> Schema:
    """Read and validate a JSON request body.

    Parameters
    ----------
    request : Request
        The request.
    kind : type of BaseModel
        Expected schema.

    Returns
    -------
    BaseModel
        The body, an instance of ``kind``.

    Raises
    ------
    RequestError
        If the body is not JSON (400, 415), or does not match the schema (422).
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "the body must be JSON. Send it with the header Content-Type: application/json.")
    content = await request.body()
    try:
        return await run_in_threadpool(kind.model_validate_json, content)
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
        If there is no photo, or an option is not valid.
    """
    async with request.form(max_files=limits.photos, max_fields=len(kind.model_fields)) as form:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        photos = [(_shown(one.filename), await one.read()) for one in files]
        texts = {name: text for name, text in form.items() if isinstance(text, str)}
        given = {name: text if _is_text(kind, name) else _value(text) for name, text in texts.items()}
    if not photos:
        raise RequestError(422, "there is no photo in the form. Send a file, as in curl -F photo=@bird.jpg")
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
    return (name or "photo").replace("\\", "/").rsplit("/", 1)[-1][-200:] or "photo"


def _is_text(kind: type[BaseModel], name: str) -> bool:
    return name in kind.model_fields and kind.model_fields[name].annotation is str


def _value(text: str) -> Any:
    """Parse a form field as JSON, such as ``5``, ``true`` or ``["a", "b"]``; return other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _request_error(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return RequestError(400, f"the body is not valid JSON ({first['msg'].removeprefix('Invalid JSON: ')}).")
    field = ".".join(str(part) for part in first["loc"])[:200]
    return RequestError(422, f"{field}: {first['msg']}" if field else first["msg"])
