"""Conversion of fitted models to the content of model folders and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.model_files import ModelFiles
from sightunseen.core.records import RunRecord
from sightunseen.methods.base.feature_scaling import FeatureScaling
from sightunseen.semantics.class_vectors import AttributeScaling

if TYPE_CHECKING:
    from sightunseen.methods.base.classifier import ZeroShotClassifier


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
    }
    scalings = {**model.scaling_.arrays(), **model.attribute_scaling_.arrays()}
    arrays = {**model._arrays(), **scalings, "class_vectors": model.table_.vectors}
    return ModelFiles(type(model).__name__, content, arrays, record)


def take_files(model: "ZeroShotClassifier", files: ModelFiles) -> None:
    """Restore the fitted state of a model from the content of a model folder.

    Parameters
    ----------
    model : ZeroShotClassifier
        Unfitted model with the hyperparameters of the folder; modified in place.
    files : ModelFiles
        Content of the folder.
    """
    content = files.content
    model.seen_classes_ = np.array(content["seen"])
    vectors = {content["semantics"]: files.arrays["class_vectors"]}
    model.attribute_scaling_ = AttributeScaling.of_arrays(files.arrays)
    model._know(ClassTable(content["labels"], vectors, content["attribute_names"]))
    model.n_features_in_ = content["n_features"]
    if content["feature_names"]:
        model.feature_names_in_ = np.array(content["feature_names"], dtype=object)
    model.scaling_ = FeatureScaling.of_arrays(getattr(model, "feature_scaling", "none"), files.arrays)
    model._take_arrays(files.arrays)
    model.record_ = files.record
    # Folders written by earlier releases lack these two entries.
    calibrated, adaptation = content.get("calibration"), content.get("adaptation")
    model.calibration_ = None if calibrated is None else Calibration(**calibrated)
    if adaptation is not None:
        model.adaptation_ = adaptation


def _plain_mapping(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Convert numpy values to Python objects that JSON can represent."""
    if parameters is None:
        return None
    return {name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for name, value in parameters.items()}
