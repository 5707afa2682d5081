"""Write a model as an ONNX file with features and class vectors as inputs, so that it can score new classes."""

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

# Relative to the largest score. In single precision a sum of d products has a relative error of about sqrt(d) * 6e-8, which is
# 3e-6 for 2,048 features, and two programs add in different orders. A wrong graph differs by far more.
TOLERANCE = 1e-5
NEW_CLASSES = 10  # added to the classes of the model when a file is checked


@dataclass(frozen=True)
class OnnxFile:
    """Description of a written ONNX file.

    Parameters
    ----------
    path : Path
        The file.
    inputs, outputs : mapping of str to tuple
        Shapes of the tensors; dimensions that are not fixed have names.
    difference : float or None
        Largest difference from the scores of the model, relative to the largest score. None without onnxruntime.
    """

    path: Path
    inputs: Mapping[str, tuple[int | str, ...]]
    outputs: Mapping[str, tuple[int | str, ...]]
    difference: float | None


def export_onnx(model: ZeroShotClassifier, path: str | Path) -> OnnxFile:
    """Write a model as one ONNX file and, if onnxruntime is installed, compare it with the model.

    The inputs are ``features`` of shape (images, d) and ``class_vectors`` of shape (classes, a), unscaled: the graph contains
    the scaling of the model. The outputs are ``scores`` and ``probabilities`` of shape (images, classes). Any classes can be
    given, in any order.

    If the model treats seen classes differently, because of a seen penalty or of classifiers learned by ``adapt``, there is a
    third input: ``seen_indices`` of shape (classes,), the index of each class among the seen classes of the model, or -1. It
    is required, because a class vector alone does not identify its class.

    The metadata of the file contain the inputs for the classes of the model as JSON: ``labels``, ``class_vectors`` and
    ``seen_indices``. They also contain ``attribute_names``, ``semantics``, ``method``, ``backbone``, ``sightunseen_version``,
    the ``temperature`` (already applied to the probabilities) and the rejection threshold ``none_below`` (an image whose best
    score is lower belongs to none of the classes; null: no rejection).

    Classifiers are computed in every run, so one run with many images is faster than many runs with one. For fixed classes,
    ``model.to_linear()`` computes them once.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    path : str or Path
        File to write; its name must end in ``.onnx``.

    Returns
    -------
    OnnxFile
        Description of the file.

    Raises
    ------
    SettingsError
        If the name does not end in ``.onnx``, the scores of the model are not linear in the features, or the file would be too
        large for the format.
    MissingDependencyError
        If the package onnx is not installed.
    ModelError
        If the scores of the file differ from those of the model. No file is written.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from sightunseen.methods import ESZSL
    >>> model = ESZSL().fit(np.eye(4), ["cat", "cat", "dog", "dog"], {"cat": [1, 0], "dog": [0, 1], "owl": [1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(model, f"{folder}/model.onnx").inputs
    {'features': ('images', 4), 'class_vectors': ('classes', 2)}
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise SettingsError(f"the name of an ONNX file must end in .onnx; got {path}. Choose another name.")
    check_is_fitted(model)
    made = as_onnx(model)
    with written_atomically(path) as temporary:
        temporary.write_bytes(made.SerializeToString())
        difference = check_onnx(model, temporary) if find_spec("onnxruntime") else None
        if difference is not None and not difference <= TOLERANCE:  # also true for NaN
            raise ModelError(
                f"the scores of the ONNX file differ from the model's by {difference:.1e} of the largest score; expected at "
                f"most {TOLERANCE:.0e}. The file was not written. This is a bug: please report it, with {model}."
            )
    return OnnxFile(path, _shapes(made.graph.input), _shapes(made.graph.output), difference)


def check_onnx(model: ZeroShotClassifier, path: str | Path, images: int = 1000, seed: int = 0) -> float:
    """Compare the scores of an ONNX file and of its model on random images, with onnxruntime.

    The classes are those of the model and new ones with interpolated class vectors.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    path : str or Path
        ONNX file of the model.
    images : int, default=1000
        Number of random images.
    seed : int, default=0
        Random seed.

    Returns
    -------
    float
        Largest absolute difference, relative to the largest score.

    Raises
    ------
    MissingDependencyError
        If onnxruntime is not installed.
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
    """Copy a model and add classes, each with a class vector between those of two classes of the model."""
    table = model.table_
    one, other = rng.integers(len(table.labels), size=(2, NEW_CLASSES))
    share = rng.uniform(size=(NEW_CLASSES, 1))
    vectors = share * table.vectors[one] + (1 - share) * table.vectors[other]
    new = ClassTable(table.fresh_labels(NEW_CLASSES), {table.use: vectors}, table.attribute_names)
    return copy.deepcopy(model).add_classes(new)


def _random_features(model: ZeroShotClassifier, images: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Normally distributed features of shape (n, d), with the location and scale of the training images if known."""
    features, scaling = rng.standard_normal((images, int(model.n_features_in_)), dtype=np.float32), model.scaling_
    if scaling.shift is None or scaling.factor is None:
        return features
    return np.asarray(features / scaling.factor + scaling.shift)


def _shapes(tensors: Any) -> dict[str, tuple[int | str, ...]]:
    return {
        tensor.name: tuple(size.dim_param or size.dim_value for size in tensor.type.tensor_type.shape.dim) for tensor in tensors
    }
