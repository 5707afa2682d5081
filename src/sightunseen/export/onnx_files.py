"""A model as an ONNX file: features and class vectors in, scores and probabilities out, so that new classes work there, too."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import MissingDependencyError, ModelError, SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.export.onnx_graph import as_onnx
from sightunseen.methods import ZeroShotClassifier

# Of the largest score. A sum of d products in single precision is off by about sqrt(d) * 6e-8 of their size, 3e-6 for 2,048
# features, and two programs add in different orders: closer is no promise, and a wrong graph is nowhere near it.
TOLERANCE = 1e-5
NEW_CLASSES = 10  # that a file is checked with, besides the model's own


@dataclass(frozen=True)
class OnnxFile:
    """A written file: the shapes of its inputs and outputs, and its difference from the model; None if not measured."""

    path: Path
    inputs: Mapping[str, tuple[int | str, ...]]
    outputs: Mapping[str, tuple[int | str, ...]]
    difference: float | None


def export_onnx(model: ZeroShotClassifier, path: str | Path) -> OnnxFile:
    """Write a model as one ONNX file, and measure it against the model where onnxruntime is installed.

    Inputs are ``features`` (images, d) and ``class_vectors`` (classes, a), both as the model takes them: the file does the
    model's own scaling. Outputs are ``scores`` and ``probabilities`` (images, classes). Any classes will do, in any order.

    Where the model treats seen classes in another way, by a penalty or, after ``adapt``, by learned classifiers, there is a
    third input: ``seen_indices`` (classes,), whole numbers, the place of a class among the model's seen ones, or -1. It must
    be given: a vector alone does not say which class it is of, and a guess could go wrong without a word.

    The file's metadata hold what there is to feed, as JSON: ``labels``, ``class_vectors`` and ``seen_indices`` of the model's
    classes; besides, ``attribute_names``, ``semantics``, ``method``, ``backbone`` and ``sightunseen_version``; and of the
    calibration the ``temperature``, already in the probabilities, and ``none_below``, the best score under which an image is
    none of the classes (null: never). Classifiers are made at every run, so many images at a time are cheaper than one by
    one; for a fixed list of classes ``model.to_linear()`` makes them once.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise SettingsError(f"the name of an ONNX file must end in .onnx; got {path}.")
    check_is_fitted(model)
    made = as_onnx(model)
    with written_atomically(path) as temporary:
        temporary.write_bytes(made.SerializeToString())
        difference = check_onnx(model, temporary) if find_spec("onnxruntime") else None
        if difference is not None and not difference <= TOLERANCE:  # so that NaN is refused, too
            raise ModelError(
                f"the scores of the ONNX file differ from the model's by {difference:.1e} of the largest one, more than "
                f"{TOLERANCE:.0e}; the file was not kept. This is a fault of sightunseen: please report it, with {model}."
            )
    return OnnxFile(path, _shapes(made.graph.input), _shapes(made.graph.output), difference)


def check_onnx(model: ZeroShotClassifier, path: str | Path, images: int = 1000, seed: int = 0) -> float:
    """The largest difference between the scores of the file and of the model, as a part of the largest score.

    Measured by onnxruntime on random images, over the model's classes and some new ones that lie between those.
    """
    try:
        from onnxruntime import InferenceSession
    except ImportError as error:
        raise MissingDependencyError("checking an ONNX file needs onnxruntime: pip install 'sightunseen[onnx]'") from error
    session = InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    model, features = _with_new_classes(model, rng), _random_features(model, images, rng)
    labels = model.table_.labels
    given = {
        "features": features,
        "class_vectors": model.table_.vectors.astype(np.float32),
        "seen_indices": model.seen_indices(labels),
    }
    (found,) = session.run(["scores"], {entry.name: given[entry.name] for entry in session.get_inputs()})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        expected = model.decision_function(features, labels)
    return float(np.abs(found - expected).max()) / (float(np.abs(expected).max()) or 1.0)


def _with_new_classes(model: ZeroShotClassifier, rng: np.random.Generator) -> ZeroShotClassifier:
    """A copy that knows some classes more, each between two of its own."""
    table = model.table_
    one, other = rng.integers(len(table.labels), size=(2, NEW_CLASSES))
    share = rng.uniform(size=(NEW_CLASSES, 1))
    vectors = share * table.vectors[one] + (1 - share) * table.vectors[other]
    new = ClassTable(table.fresh_labels(NEW_CLASSES), {table.use: vectors}, table.attribute_names)
    return copy.deepcopy(model).add_classes(new)


def _random_features(model: ZeroShotClassifier, images: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Normal ones, (n, d), moved to where the training images' features are as far as the model knows it."""
    features, scaling = rng.standard_normal((images, int(model.n_features_in_)), dtype=np.float32), model.scaling_
    if scaling.shift is None or scaling.factor is None:
        return features
    return np.asarray(features / scaling.factor + scaling.shift)


def _shapes(tensors: Any) -> dict[str, tuple[int | str, ...]]:
    return {
        tensor.name: tuple(size.dim_param or size.dim_value for size in tensor.type.tensor_type.shape.dim) for tensor in tensors
    }
