"""The graph of an ONNX file: class vectors to classifiers, features against them, scores and probabilities."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen._version import __version__
from sightunseen.core.errors import MissingDependencyError, SettingsError
from sightunseen.core.linear import SMALLEST_LENGTH, ClassifierMap, Layer
from sightunseen.methods import ZeroShotClassifier
from sightunseen.methods.base.feature_scaling import CENTRED, FeatureScaling
from sightunseen.methods.foresight.wide_generator import WideGenerator
from sightunseen.semantics.class_vectors import AttributeScaling, length_of

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, FORMAT = 17, 8  # of 2022: what reads ONNX today reads these
MOST_BYTES = 2_000_000_000  # of constants and metadata: protobuf ends at 2**31, and the nodes need some, too


def as_onnx(model: ZeroShotClassifier) -> "ModelProto":
    """The file of a fitted model, in memory; what it takes and gives, see :func:`sightunseen.export.onnx_files.export_onnx`."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingDependencyError("ONNX files need the package onnx: pip install 'sightunseen[onnx]'") from error
    made_of, metadata = model.classifier_map(), _metadata(model)
    vectors = int(model.table_.vectors.shape[1])
    graph = _Graph()
    scaled = graph.class_vectors(model.attribute_scaling_, length_of(getattr(model, "semantic_norm", None), vectors))
    graph.answers(made_of, model.scaling_, scaled, float(model.seen_penalty), model.temperature_)
    size = sum(len(constant.raw_data) for constant in graph.constants) + sum(map(len, metadata.values()))
    if size > MOST_BYTES:
        raise SettingsError(
            f"this model would make an ONNX file of {size / 1e9:.1f} GB; the format ends at {MOST_BYTES / 1e9:g} GB. "
            "Train a smaller one (hidden), or use to_linear for a fixed list of classes."
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
    """The nodes and constants of a graph in the making; every step returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def answers(
        self, made_of: ClassifierMap, scaling: FeatureScaling, vectors: str, penalty: float, temperature: float
    ) -> None:
        """The whole of it, from scaled class vectors on."""
        weights = self.classifiers(made_of, vectors)
        bias = None
        if made_of.similarity == "cosine":
            weights = self.step("Mul", self.step("Div", weights, self.lengths(weights)), self.constant(made_of.scale))
        elif made_of.similarity == "distance":
            bias = self.step("ReduceSumSquare", weights, axes=[1], keepdims=0)  # (c,)
            weights = self.step("Mul", weights, self.constant(2))
        if made_of.projection is not None:
            weights = self.step("MatMul", weights, self.constant(made_of.projection))
        features = self.features(scaling)
        scores = self.step("Gemm", features, weights, transB=1)  # (n, c)
        if made_of.similarity == "cosine" or scaling.kind == "unit":
            # Divided by the features' lengths at the end: a pass over (n, c) numbers rather than (n, d).
            scores = self.step("Div", scores, self.lengths(features))
        if bias is not None:
            scores = self.step("Sub", scores, bias)
        if penalty:
            subtracted = self.step("Where", self.is_seen(), self.constant(penalty), self.constant(0))  # (c,)
            scores = self.step("Sub", scores, subtracted)
        self.step("Identity", scores, result="scores")
        cooled = "scores" if temperature == 1 else self.step("Div", "scores", self.constant(temperature))
        self.step("Softmax", cooled, result="probabilities", axis=1)

    def class_vectors(self, scaling: AttributeScaling, length: float | None) -> str:
        """Class vectors as the method meets them, (c, a); ``length`` None leaves them as long as they are."""
        values = self.shifted("class_vectors", scaling)
        if length is None:
            return values
        return self.step("Mul", self.step("Div", values, self.lengths(values)), self.constant(length))

    def classifiers(self, made_of: ClassifierMap, values: str) -> str:
        """Scaled class vectors (c, a) -> what images are compared with, (c, d)."""
        for layer in made_of.layers:
            if isinstance(layer, WideGenerator):
                values = self.wide(layer, values)
                continue
            assert isinstance(layer, Layer)
            bias = () if layer.bias is None else (self.constant(layer.bias),)
            values = self.step("Gemm", values, self.constant(layer.weights), *bias, transB=1)
            values = self.step("Relu", values) if layer.rectify else values
        if made_of.learned is None:
            return values
        rows = self.step("Max", "seen_indices", self.constant(0, np.int64))  # any row will do for an unseen class
        learned = self.step("Gather", self.constant(made_of.learned), rows, axis=0)
        is_seen = self.step("Unsqueeze", self.is_seen(), self.constant([1], np.int64))
        return self.step("Where", is_seen, learned, values)

    def wide(self, generator: WideGenerator, values: str) -> str:
        """The infinitely wide generator: (c, a) -> (c, k)."""
        centred = self.step("Sub", values, self.constant(generator.centre))
        values = self.step("Div", centred, self.constant(generator.unit))
        if generator.linear:
            return self.step("MatMul", values, self.constant(generator.anchors.T @ generator.weights))
        # The anchors are brought to length one here, so that of the lengths only those of the classes are left to compute.
        sizes = np.maximum(np.linalg.norm(generator.anchors, axis=1, keepdims=True), SMALLEST_LENGTH)  # (s, 1)
        directions = self.constant(generator.anchors / sizes)
        cosine = self.step("Div", self.step("Gemm", values, directions, transB=1), self.lengths(values))
        cosine = self.step("Clip", cosine, self.constant(-1), self.constant(1))
        angle = self.step("Acos", cosine)
        rest = self.step("Mul", self.step("Sub", self.constant(np.pi), angle), cosine)
        kernel = self.step("Mul", self.step("Add", self.step("Sin", angle), rest), self.lengths(values))
        return self.step("MatMul", kernel, self.constant(sizes / np.pi * generator.weights))

    def features(self, scaling: FeatureScaling) -> str:
        """Features as the method meets them, (n, d); but of kind ``unit`` the division by their length comes later."""
        if scaling.kind in CENTRED:
            values = "features"
            if scaling.kind == "root":
                values = self.step("Mul", self.step("Sign", values), self.step("Sqrt", self.step("Abs", values)))
            return self.step("Sub", self.step("Div", values, self.lengths(values)), self.constant(scaling.shift))
        values = self.shifted("features", scaling)
        return self.step("Clip", values, self.constant(0), self.constant(1)) if scaling.kind == "range" else values

    def shifted(self, values: str, scaling: FeatureScaling | AttributeScaling) -> str:
        """(values - shift) * factor, where there is anything to scale."""
        if scaling.shift is None or scaling.factor is None:
            return values
        return self.step("Mul", self.step("Sub", values, self.constant(scaling.shift)), self.constant(scaling.factor))

    def is_seen(self) -> str:
        return self.step("GreaterOrEqual", "seen_indices", self.constant(0, np.int64))

    def lengths(self, rows: str) -> str:
        """(n, k) -> (n, 1), none of them zero."""
        return self.step("Max", self.step("ReduceL2", rows, axes=[1], keepdims=1), self.constant(SMALLEST_LENGTH))

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind, order="C"), name))
        return name

    def step(self, operator: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        result = result or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result


def _metadata(model: ZeroShotClassifier) -> dict[str, str]:
    """What the file says of itself: words, and JSON for everything that is more than a word."""
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
