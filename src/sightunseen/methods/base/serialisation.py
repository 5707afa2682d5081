"""Conversion of fitted models to the content of model folders and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen

from sightunseen.core.array_checks import Expected, check_arrays
from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.documents import STRICT, quoted, validated
from sightunseen.core.errors import ModelError
from sightunseen.core.limits import CLASSES, FEATURES, LABEL_LENGTH, LARGEST, MODEL_TEXT_LENGTH
from sightunseen.core.model_files import ModelFiles
from sightunseen.core.plugins import import_path
from sightunseen.core.records import RunRecord
from sightunseen.methods.base.feature_scaling import AUTO, AUTOMATIC, FeatureScaling, scaling_arrays
from sightunseen.semantics.class_vectors import AttributeScaling

if TYPE_CHECKING:
    from sightunseen.methods.base.classifier import ZeroShotClassifier

ATTRIBUTE_SCALING = tuple(f"attribute_scaling.{name}" for name in ("shift", "factor", "means"))
TRIED = 8  # classes among which an image is scored when a model is loaded; all of them would take as long as loading
SCHEMA = {**STRICT, "extra": "ignore", "allow_inf_nan": False}
Name = Annotated[str, MaxLen(LABEL_LENGTH)]
Whole = Annotated[int, Ge(-(2**63)), Le(2**63 - 1)]
Real = Annotated[float, Ge(-LARGEST), Le(LARGEST)]
Scalar = bool | Whole | Real | Name | None
Settings = dict[Name, Scalar | list[Scalar]]
Labels = Annotated[list[Name] | list[bool] | list[Whole] | list[Real], MinLen(1), MaxLen(CLASSES)]


@dataclass(frozen=True)
class Content:
    """Schema of the content of ``model.json``; folders written by earlier releases lack the last five entries.

    Parameters
    ----------
    settings : dict
        Hyperparameters by name.
    labels : list of str or of numbers
        All classes, in the order of their vectors.
    seen : list of str or of numbers
        The classes with training images, sorted.
    semantics : str
        Name of the class vectors.
    attribute_names : list of str or None
        Names of the dimensions of a class vector.
    n_features : int
        Number of features.
    calibration : Calibration or None, default=None
        Temperature and rejection threshold.
    adaptation : dict or None, default=None
        Hyperparameters of ``adapt``.
    feature_names : list of str or None, default=None
        Names of the features.
    texts : list of str or None, default=None
        Descriptions of the classes, in the order of the labels, with an empty text for an unknown one.
    scaling : str or None, default=None
        Feature scaling that ``feature_scaling="auto"`` chose.
    """

    __pydantic_config__ = SCHEMA

    settings: Settings
    labels: Labels
    seen: Labels
    semantics: Name
    attribute_names: list[Name] | None
    n_features: Annotated[int, Ge(1), Le(FEATURES)]
    calibration: Calibration | None = None
    adaptation: Settings | None = None
    feature_names: list[Name] | None = None
    texts: Annotated[list[str], MaxLen(CLASSES)] | None = None
    scaling: Name | None = None


def method_name(kind: type) -> str:
    """Name a method in ``model.json``: the class of this package, or the import path of a plug-in.

    Parameters
    ----------
    kind : type
        Estimator class.

    Returns
    -------
    str
        The name.
    """
    return kind.__name__ if kind.__module__.startswith("sightunseen.") else import_path(kind)


def as_files(model: "ZeroShotClassifier", record: RunRecord | None) -> ModelFiles:
    """Convert a fitted model to the content of a model folder.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    record : RunRecord or None
        Record of the run that produced it.

    Returns
    -------
    ModelFiles
        Content of the folder.
    """
    content = {
        "settings": _plain_mapping(model.get_params()),
        "labels": model.table_.labels.tolist(),
        "seen": model.seen_classes_.tolist(),
        "semantics": model.table_.use,
        "attribute_names": model.table_.attribute_names,
        "n_features": int(model.n_features_in_),
        "calibration": None if model.calibration_ is None else asdict(model.calibration_),
        "adaptation": _plain_mapping(getattr(model, "adaptation_", None)),
        "feature_names": getattr(model, "feature_names_in_", np.array([])).tolist() or None,
        "texts": _stored_texts(model.table_),
        "scaling": model.scaling_.kind if _scaling_setting(model) == AUTO else None,
    }
    scalings = {**model.scaling_.arrays(), **model.attribute_scaling_.arrays()}
    arrays = {**model._arrays(), **scalings, "class_vectors": model.table_.vectors}
    return ModelFiles(method_name(type(model)), content, arrays, record)


def take_files(model: "ZeroShotClassifier", files: ModelFiles) -> None:
    """Restore the fitted state of a model from the content of a model folder.

    Nothing in the folder is trusted. Hyperparameters, classes and arrays are checked first; then one image is scored.

    Parameters
    ----------
    model : ZeroShotClassifier
        Unfitted model; modified in place.
    files : ModelFiles
        Content of the folder.

    Raises
    ------
    ModelError, SettingsError, DataError, DocumentError or an error of a numerical library
        If the content cannot be used.
    """
    content = validated(Content, files.content)
    _check_settings(model, content.settings)
    model.set_params(**{**model.earlier_settings, **content.settings})
    model.check_restored_settings()
    expected = {"class_vectors": Expected("c a"), **{name: Expected("a", optional=True) for name in ATTRIBUTE_SCALING}}
    check_arrays(files.arrays, expected, {"c": len(content.labels)})
    model.seen_classes_ = np.array(content.seen)
    if not np.array_equal(np.unique(model.seen_classes_), model.seen_classes_):
        raise ModelError("the seen classes are not sorted, or one is repeated")
    model.attribute_scaling_ = AttributeScaling.of_arrays(files.arrays)
    texts = {label: text for label, text in zip(content.labels, content.texts or (), strict=False) if text}
    vectors = {content.semantics: files.arrays["class_vectors"]}
    table = ClassTable(content.labels, vectors, content.attribute_names, texts=texts)
    table.rows_of(model.seen_classes_)
    model._know(table)
    model.n_features_in_ = content.n_features
    if content.feature_names:
        if len(content.feature_names) != content.n_features:
            raise ModelError(f"there are {len(content.feature_names)} feature names; expected {content.n_features}")
        model.feature_names_in_ = np.array(content.feature_names, dtype=object)
    kind = _fitted_scaling(model, content)
    model.scaling_ = FeatureScaling(kind)  # its number of views is one of the sizes
    expected = {**scaling_arrays(kind), **model._expected_arrays(files.arrays)}
    check_arrays(files.arrays, expected, _sizes(model))
    model.scaling_ = FeatureScaling.of_arrays(kind, files.arrays)
    model._take_arrays(files.arrays)
    model.record_, model.calibration_ = files.record, content.calibration
    if content.adaptation is not None:
        model.adaptation_ = content.adaptation
    _check_scores(model)


def _stored_texts(table: ClassTable) -> list[str] | None:
    """Descriptions in the order of the labels; None if the class vectors are not made of them, or if they are too long."""
    if not table.texts or table.use.partition(":")[0] not in ("text", "names", "both"):
        return None
    texts = [table.texts.get(label, "") for label in table.labels.tolist()]
    return texts if sum(map(len, texts)) <= MODEL_TEXT_LENGTH else None


def _check_settings(model: "ZeroShotClassifier", settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(settings) - set(model.get_params()))
    if unknown:
        raise ModelError(f"{type(model).__name__} has no hyperparameter '{quoted(unknown[0])}'")


def _scaling_setting(model: "ZeroShotClassifier") -> str:
    """Value of the hyperparameter ``feature_scaling``; "none" for a method without it."""
    return str(getattr(model, "feature_scaling", "none"))


def _fitted_scaling(model: "ZeroShotClassifier", content: Content) -> str:
    """Kind of the fitted feature scaling of a saved model."""
    kind = _scaling_setting(model)
    if kind != AUTO:
        return kind
    if content.scaling is None or content.scaling not in AUTOMATIC:
        found = quoted(repr(content.scaling))
        raise ModelError(f"scaling must be one of {AUTOMATIC} with feature_scaling='auto'; found {found}")
    return content.scaling


def _sizes(model: "ZeroShotClassifier") -> dict[str, int]:
    """Sizes by the letters of :class:`~sightunseen.core.array_checks.Expected`."""
    n_classes, n_seen = len(model.classes_), len(model.seen_classes_)
    sizes = {"d": model.n_features_in_, "v": model.n_features_in_ * model.scaling_.views}
    return {**sizes, "c": n_classes, "s": n_seen, "u": n_classes - n_seen, "a": model.table_.vectors.shape[1]}


def _check_scores(model: "ZeroShotClassifier") -> None:
    """Score one image of zeros among a few classes."""
    labels = model.classes_[:: max(1, len(model.classes_) // TRIED)]
    with np.errstate(all="ignore"):
        image = model.scaling_(np.zeros((1, model.n_features_in_), dtype=np.float32))
        scores = model._scorer(labels)(image)
    if scores.shape != (1, len(labels)) or not np.isfinite(scores).all():
        raise ModelError(f"the scores of an image, of shape {scores.shape}, are not one finite number for each class")


def _plain_mapping(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Convert numpy values to Python objects that JSON can represent."""
    if parameters is None:
        return None
    return {name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for name, value in parameters.items()}
