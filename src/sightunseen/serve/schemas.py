"""What is asked and answered over HTTP, and how requests are read into it."""

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, FiniteFloat, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request

from sightunseen.serve.limits import Limits, Refused

Message = TypeVar("Message", bound=BaseModel)
Row = Annotated[list[FiniteFloat], FailFast()]


class Asked(BaseModel):
    """What a client sends; nothing is converted, and nothing unknown is passed over."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewClass(Asked):
    """A class described: a sentence where the model knows classes by text, attributes where it knows them by those."""

    name: str
    description: str | None = None
    attributes: dict[str, FiniteFloat] | None = None


class Options(Asked):
    """How to answer."""

    candidates: Literal["all", "seen", "unseen"] | list[str] = Field("all", description="a word, or names of classes")
    top: int = Field(5, ge=1, description="classes an image, best first")
    reasons: bool = Field(True, description="attributes that speak for and against the best class")
    none: bool = Field(True, description="say 'none of these' of an image that fits no class; false: always name a class")
    also: list[NewClass] = Field([], description="classes that stand to choice in this answer alone")
    with_features: bool = Field(False, description="give the images' features, too, to ask about them again")


class Question(Options):
    """Images given by their features."""

    features: Annotated[list[Row], FailFast()] = Field(description="a row of numbers an image")


class Rank(BaseModel):
    """One class of an image's answer."""

    name: str
    confidence: float
    seen: bool


class Reason(BaseModel):
    """An attribute of the best class: what it contributes to the score, its value, and the mean of the seen classes."""

    attribute: str
    contribution: float
    value: float
    usual: float


class ImageAnswer(BaseModel):
    """The classes of one image, best first, and what spoke for and against the first.

    Where ``none`` is true, the image fits no class: "none of these" stands first, and guesses follow. The contributions of
    the attributes given and that of all ``others`` sum to ``total``: the score over that of the mean of the seen classes.
    """

    image: str
    none: bool = False
    classes: list[Rank]
    speaks_for: list[Reason] = []
    speaks_against: list[Reason] = []
    others: float | None = None
    total: float | None = None
    features: list[float] | None = None


class Answer(BaseModel):
    """The answers of all images asked about; notes say what was filled in or left out."""

    answers: list[ImageAnswer]
    notes: list[str] = []


class Slider(BaseModel):
    """An attribute, the range of its values among the classes, and their mean."""

    name: str
    lowest: float
    highest: float
    mean: float


class KnownClass(BaseModel):
    """A class; ``added`` says that it came while the server ran."""

    name: str
    seen: bool
    added: bool
    vector: list[float] | None = None


class Classes(BaseModel):
    """The classes, and what they are known by; whether photos are taken, and whether changes need a token."""

    semantics: str
    attributes: list[Slider]
    classes: list[KnownClass]
    photos: bool
    guarded: bool


class Changed(BaseModel):
    """A class was added or removed."""

    name: str
    classes: int
    notes: list[str] = []


async def read_json(request: Request, kind: type[Message]) -> Message:
    """The message in a request's body, which must be JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "send JSON, with the header Content-Type: application/json.")
    content = await request.body()
    try:
        return await run_in_threadpool(kind.model_validate_json, content)
    except ValidationError as error:
        raise _refusal(error) from error


async def read_photos(request: Request, limits: Limits) -> tuple[list[tuple[str, bytes]], Options]:
    """The names and contents of the photos in a form, and the options beside them."""
    async with request.form(max_files=limits.photos, max_fields=len(Options.model_fields)) as form:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        photos = [(_shown(one.filename), await one.read()) for one in files]
        given = {name: _value(text) for name, text in form.items() if isinstance(text, str)}
    if not photos:
        raise Refused(422, "there is no photo in the form. Send one as a file, as in curl -F photo=@bird.jpg")
    try:
        return photos, Options.model_validate(given)
    except ValidationError as error:
        raise _refusal(error) from error


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The schema of a message, whole in itself."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})
    text = json.dumps(schema)
    for name, part in parts.items():
        text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(part))
    return dict(json.loads(text))


def _shown(name: str | None) -> str:
    """A file's name without its folders: it is shown, and never opened."""
    return (name or "photo").replace("\\", "/").rsplit("/", 1)[-1][-200:] or "photo"


def _value(text: str) -> Any:
    """A field's value: ``5``, ``true`` and ``["a", "b"]`` as JSON, all else as the text it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _refusal(error: ValidationError) -> Refused:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return Refused(400, f"the body is not JSON ({first['msg'].removeprefix('Invalid JSON: ')}).")
    place = ".".join(str(part) for part in first["loc"])[:200]
    return Refused(422, f"{place}: {first['msg']}" if place else first["msg"])
