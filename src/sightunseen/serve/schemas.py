"""Schemas of requests and responses."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, FiniteFloat, create_model

from sightunseen.core.limits import LABEL_LENGTH
from sightunseen.serve.limits import CANDIDATES, DESCRIBED, DESCRIPTION_LENGTH, NAME_LENGTH, TOP, Limits

Label = Annotated[str, Field(min_length=1, max_length=LABEL_LENGTH)]


class RequestSchema(BaseModel):
    """Base class of request schemas: no type conversion, and unknown fields are an error."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewClass(RequestSchema):
    """A new class, described by a sentence (models trained on text) or by attributes."""

    name: str = Field(min_length=1, max_length=NAME_LENGTH, json_schema_extra={"pattern": r"^\S(.*\S)?$"})
    description: str | None = Field(None, min_length=1, max_length=DESCRIPTION_LENGTH)
    attributes: dict[Label, FiniteFloat] | None = Field(None, max_length=CANDIDATES)


class Options(RequestSchema):
    """Options of a prediction."""

    candidates: Literal["all", "seen", "unseen"] | Annotated[list[Label], Field(min_length=1, max_length=CANDIDATES)] = Field(
        "all", description="candidate classes: a group, or a list of names"
    )
    top: int = Field(5, ge=1, le=TOP, description="number of classes per image")
    reasons: bool = Field(True, description="return why the best class is ahead of the second-best one")
    none: bool = Field(True, description="apply open-set rejection: 'none of these' below the rejection threshold")
    also: list[NewClass] = Field(
        [], max_length=DESCRIBED, description="temporary classes that are candidates in this request only"
    )
    with_features: bool = Field(False, description="return the features of the images, for further requests")


class ExampleOptions(RequestSchema):
    """The class of examples."""

    name: Label = Field(description="class that the images belong to: a class of the model, seen or unseen")


def with_features(options: type[RequestSchema], name: str, size: int, limits: Limits) -> type[Any]:
    """Extend the schema of options by images, given as features.

    Parameters
    ----------
    options : type of RequestSchema
        Schema of the options.
    name : str
        Name of the new schema.
    size : int
        Number of features of an image.
    limits : Limits
        Limits on the number of images and on the value of a feature.

    Returns
    -------
    type of RequestSchema
        The schema, with the field ``features``.
    """
    most = limits.feature_magnitude
    number = Annotated[FiniteFloat, Field(ge=-most, le=most)]
    row = Annotated[list[number], Field(min_length=size, max_length=size), FailFast()]
    rows = Annotated[list[row], Field(min_length=1, max_length=limits.images), FailFast()]
    described = Field(description="one row of features per image")
    return create_model(
        name, __base__=options, __doc__=f"{options.__doc__} Images are given as features.", features=(rows, described)
    )


class RankedClass(BaseModel):
    """A predicted class of an image."""

    name: str
    confidence: float
    seen: bool


class Contribution(BaseModel):
    """Contribution of an attribute, or of words of a description, to the lead of the best class over the second-best one.

    ``phrase`` says what the best class has or lacks, such as "not jungle". ``value`` and ``other`` are the values of the
    attribute for both classes, and ``usual`` is its mean over the seen classes. Of words, the values are 1 or 0, for a
    description that has them or not, and ``usual`` is null.
    """

    attribute: str
    phrase: str
    contribution: float
    value: float
    other: float
    usual: float | None


class ImagePrediction(BaseModel):
    """Predicted classes of an image, the best first, and why the best class is ahead of ``runner_up``, the second-best one.

    If ``none`` is true, the image was rejected: "none of these" is first, followed by the best classes. ``speaks_for`` and
    ``speaks_against`` are the largest positive and negative contributions to ``total``, the score of the best class minus that
    of the second-best one. They, ``others`` (all other attributes and words) and ``beyond`` (training images and examples of
    the two classes, and the seen-class bias) sum to ``total``. All are null if the model has no reasons.
    """

    image: str
    none: bool = False
    classes: list[RankedClass]
    runner_up: str | None = None
    speaks_for: list[Contribution] = []
    speaks_against: list[Contribution] = []
    others: float | None = None
    beyond: float | None = None
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
    can use examples. ``no_reasons`` says why predictions have no reasons; it is null if they have. ``verdict`` says in
    sentences how well the model did on test images, if that was recorded.
    """

    semantics: str
    attributes: list[AttributeRange]
    classes: list[KnownClass]
    photos: bool
    guarded: bool
    takes_examples: bool
    no_reasons: str | None = None
    verdict: list[str] = []


class ClassChange(BaseModel):
    """Response to adding or removing a class: its name, the new number of classes, and notes."""

    name: str
    classes: int
    notes: list[str] = []


class ExampleChange(BaseModel):
    """Response to adding examples: the class, and how many examples it has now."""

    name: str
    examples: int


class Health(BaseModel):
    """Description of a running service."""

    status: Literal["ok"] = "ok"
    version: str
    method: str
    backbone: str | None
    features: int
    classes: int
    waiting: int


class Probe(BaseModel):
    """Liveness or readiness of a service."""

    status: Literal["ok"] = "ok"


class ErrorResponse(BaseModel):
    """An error: what was found, what was expected, and what to do."""

    error: str
