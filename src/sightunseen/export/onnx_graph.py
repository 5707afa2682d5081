"""ONNX graph of a model: class vectors to classifiers, then scores and probabilities of the features."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen._version import __version__
from sightunseen.core.errors import MissingDependencyError, SettingsError
from sightunseen.core.linear import SMALLEST_LENGTH, ClassifierMap, Layer
from sightunseen.methods import ZeroShotClassifier
from sightunseen.methods.base.feature_scaling import CENTRED, TWO_VIEWS, FeatureScaling
from sightunseen.methods.base.whitening import SymmetricWhitening
from sightunseen.methods.foresight.wide_generator import WideGenerator
from sightunseen.semantics.class_vectors import MISSING, AttributeScaling, length_of

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, FORMAT = 17, 8  # released in 2022 and widely supported
MOST_BYTES = 2_000_000_000  # of constants and metadata; protobuf allows 2**31 bytes in total


def as_onnx(model: ZeroShotClassifier) -> "ModelProto":
    """Convert a fitted model to an ONNX model in memory.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.

    Returns
    -------
    onnx.ModelProto
        Model with the inputs and outputs described in :func:`sightunseen.export.onnx_files.export_onnx`.

    Raises
    ------
    MissingDependencyError
        If the package onnx is not installed.
    SettingsError
        If the scores of the model are not linear in the features, or the file would be too large for the format.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingDependencyError("ONNX export needs the package onnx: pip install 'sightunseen[onnx]'") from error
    made_of, metadata = model.classifier_map(), _metadata(model)
    vectors = int(model.table_.vectors.shape[1])
    graph = _Graph()
    scaled = graph.class_vectors(model.attribute_scaling_, length_of(getattr(model, "semantic_norm", None), vectors))
    graph.outputs(made_of, model.scaling_, scaled, float(model.seen_penalty), model.temperature_)
    size = sum(len(constant.raw_data) for constant in graph.constants) + sum(map(len, metadata.values()))
    if size > MOST_BYTES:
        raise SettingsError(
            f"the ONNX file would have {size / 1e9:.1f} GB; the format allows {MOST_BYTES / 1e9:g} GB. "
            "Train a smaller model (hidden), or export linear classifiers of fixed classes (to_linear)."
        )

    def tensor(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [tensor("features", "images", int(model.n_features_in_)), tensor("class_vectors", "classes", vectors)]
    if model.seen_penalty or made_of.learned is not None:
        inputs.append(tensor("seen_indices", "classes", kind=TensorProto.INT64))
    outputs = [tensor(name, "images", "classes") for name in ("scores", "probabilities")]
    made = helper.make_model(
        helper.make_graph(graph.nodes, type(model).__name__, inputs, outputs, graph.constants),
        producer_name="sightunseen",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=FORMAT,
    )
    helper.set_model_props(made, metadata)
    checker.check_model(made, full_check=True)
    return made


class _Graph:
    """Nodes and constants of a graph under construction; each method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def outputs(
        self, made_of: ClassifierMap, scaling: FeatureScaling, vectors: str, penalty: float, temperature: float
    ) -> None:
        """Add the outputs ``scores`` and ``probabilities``, given scaled class vectors."""
        weights = self.classifiers(made_of, vectors)
        bias = None
        if made_of.similarity == "cosine":
            weights = self.node("Mul", self.node("Div", weights, self.norms(weights)), self.constant(made_of.scale))
        elif made_of.similarity == "distance":
            bias = self.node("ReduceSumSquare", weights, axes=[1], keepdims=0)  # (c,)
            weights = self.node("Mul", weights, self.constant(2))
        if made_of.projection is not None:
            weights = self.node("MatMul", weights, self.constant(made_of.projection))
        features = self.features(scaling)
        scores = self.node("Gemm", features, weights, transB=1)  # (n, c)
        if made_of.similarity == "cosine" or scaling.kind == "unit":
            # Dividing the (n, c) scores by the norms of the features is faster than dividing the (n, d) features.
            scores = self.node("Div", scores, self.norms(features))
        if bias is not None:
            scores = self.node("Sub", scores, bias)
        if penalty:
            subtracted = self.node("Where", self.is_seen(), self.constant(penalty), self.constant(0))  # (c,)
            scores = self.node("Sub", scores, subtracted)
        self.node("Identity", scores, result="scores")
        logits = "scores" if temperature == 1 else self.node("Div", "scores", self.constant(temperature))
        self.node("Softmax", logits, result="probabilities", axis=1)

    def class_vectors(self, scaling: AttributeScaling, length: float | None) -> str:
        """Impute and scale class vectors, (c, a) -> (c, a); they are normalised to ``length`` unless it is None."""
        values = "class_vectors"
        if scaling.means is not None:
            marked = self.node("Equal", values, self.constant(MISSING))
            values = self.node("Where", marked, self.constant(scaling.means), values)
        values = self.shifted(values, scaling)
        if length is None:
            return values
        return self.node("Mul", self.node("Div", values, self.norms(values)), self.constant(length))

    def classifiers(self, made_of: ClassifierMap, values: str) -> str:
        """Compute classifiers from scaled class vectors, (c, a) -> (c, d)."""
        for layer in made_of.layers:
            if isinstance(layer, WideGenerator):
                values = self.wide(layer, values)
                if layer.length:
                    values = self.node("Mul", self.node("Div", values, self.norms(values)), self.constant(layer.length))
                continue
            assert isinstance(layer, Layer)
            bias = () if layer.bias is None else (self.constant(layer.bias),)
            values = self.node("Gemm", values, self.constant(layer.weights), *bias, transB=1)
            values = self.node("Relu", values) if layer.rectify else values
        if made_of.learned is None:
            return values
        rows = self.node("Max", "seen_indices", self.constant(0, np.int64))  # the row of an unseen class is not used
        learned = self.node("Gather", self.constant(made_of.learned), rows, axis=0)
        is_seen = self.node("Unsqueeze", self.is_seen(), self.constant([1], np.int64))
        return self.node("Where", is_seen, learned, values)

    def wide(self, generator: WideGenerator, values: str) -> str:
        """Evaluate kernel ridge regression with the linear or arc-cosine kernel, (c, a) -> (c, k)."""
        centred = self.node("Sub", values, self.constant(generator.centre))
        values = self.node("Div", centred, self.constant(generator.unit))
        if generator.linear:
            return self.node("MatMul", values, self.constant(generator.anchors.T @ generator.weights))
        # The anchors are L2-normalised here, so that the graph computes only the norms of the class vectors.
        sizes = np.maximum(np.linalg.norm(generator.anchors, axis=1, keepdims=True), SMALLEST_LENGTH)  # (s, 1)
        directions = self.constant(generator.anchors / sizes)
        cosine = self.node("Div", self.node("Gemm", values, directions, transB=1), self.norms(values))
        cosine = self.node("Clip", cosine, self.constant(-1), self.constant(1))
        angle = self.node("Acos", cosine)
        rest = self.node("Mul", self.node("Sub", self.constant(np.pi), angle), cosine)
        kernel = self.node("Mul", self.node("Add", self.node("Sin", angle), rest), self.norms(values))
        return self.node("MatMul", kernel, self.constant(sizes / np.pi * generator.weights))

    def features(self, scaling: FeatureScaling) -> str:
        """Scale features, (n, d) -> (n, views * d); the L2 normalisation of kind ``unit`` is applied to the scores."""
        if scaling.kind in CENTRED:
            root = self.node("Mul", self.node("Sign", "features"), self.node("Sqrt", self.node("Abs", "features")))
            views = {"centred": ["features"], TWO_VIEWS: [root, "features"]}.get(scaling.kind, [root])
            normalised = [self.node("Div", view, self.norms(view)) for view in views]
            centred = self.node("Sub", self.node("Concat", *normalised, axis=1), self.constant(scaling.shift))
            return centred if scaling.whitening is None else self.whitened(centred, scaling.whitening)
        values = self.shifted("features", scaling)
        return self.node("Clip", values, self.constant(0), self.constant(1)) if scaling.kind == "range" else values

    def whitened(self, values: str, whitening: SymmetricWhitening) -> str:
        """Whiten centred features, (n, d) -> (n, d)."""
        directions = self.constant(whitening.directions)
        removed = self.node("MatMul", self.node("Gemm", values, directions, transB=1), directions)
        return self.node("Sub", self.node("Mul", values, self.constant(whitening.scale)), removed)

    def shifted(self, values: str, scaling: FeatureScaling | AttributeScaling) -> str:
        """Compute (values - shift) * factor, if the scaling has both."""
        if scaling.shift is None or scaling.factor is None:
            return values
        return self.node("Mul", self.node("Sub", values, self.constant(scaling.shift)), self.constant(scaling.factor))

    def is_seen(self) -> str:
        return self.node("GreaterOrEqual", "seen_indices", self.constant(0, np.int64))

    def norms(self, rows: str) -> str:
        """L2 norms of rows, (n, k) -> (n, 1), bounded away from zero."""
        return self.node("Max", self.node("ReduceL2", rows, axes=[1], keepdims=1), self.constant(SMALLEST_LENGTH))

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind, order="C"), name))
        return name

    def node(self, operator: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        result = result or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result


def _metadata(model: ZeroShotClassifier) -> dict[str, str]:
    """Metadata of the file; values that are not plain strings are JSON."""
    table, record = model.table_, model.record_
    backbone = None if record is None else record.data.get("backbone")
    return {
        "method": type(model).__name__,
        "sightunseen_version": __version__,
        "semantics": table.use,
        "labels": json.dumps(table.labels.tolist(), ensure_ascii=False),
        "class_vectors": json.dumps(table.vectors.tolist()),
        "seen_indices": json.dumps(model.seen_indices(table.labels).tolist()),
        "attribute_names": json.dumps(table.attribute_names, ensure_ascii=False),
        "backbone": json.dumps(backbone, ensure_ascii=False),
        "temperature": json.dumps(model.temperature_),
        "none_below": json.dumps(None if model.calibration_ is None else model.calibration_.none_below),
    }
