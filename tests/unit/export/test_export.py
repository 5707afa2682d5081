"""ONNX files compared with the models they were exported from, with onnxruntime."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from sklearn.exceptions import NotFittedError

from sightunseen._version import __version__
from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import MissingDependencyError, ModelError, SettingsError, StorageError
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.core.records import RunRecord
from sightunseen.export import onnx_graph
from sightunseen.export.onnx_files import TOLERANCE, check_onnx, export_onnx
from sightunseen.methods import ALE, CVC, DEM, DEVISE, ESZSL, LATEM, SAE, SJE, Foresight, ZeroShotClassifier, load_model

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

QUICK: dict[str, Any] = {"n_steps": 20, "device": "cpu"}
EXPORTABLE = {
    "CVC": CVC(hidden=16, **QUICK),
    "CVC, dot": CVC(hidden=16, similarity="dot", output="linear", semantic_norm=None, **QUICK),
    "CVC, penalty": CVC(hidden=16, seen_penalty=2.5, semantic_norm=1.5, **QUICK),
    "DEM": DEM(hidden=16, **QUICK),
    "DEM, distance": DEM(hidden=16, similarity="distance", feature_scaling="unit", seen_penalty=0.2, **QUICK),
    "DEM, range": DEM(hidden=16, similarity="distance", feature_scaling="range", **QUICK),
    "ESZSL": ESZSL(seen_penalty=0.1),
    "ESZSL, range": ESZSL(feature_scaling="range"),
    "SAE": SAE(),
    "SAE, root": SAE(feature_scaling="root"),
    "SAE, whitened": SAE(feature_scaling="whitened-0.6"),
    "ESZSL, whitened": ESZSL(feature_scaling="whitened-0.3", seen_penalty=0.1),
    "CVC, whitened": CVC(hidden=16, feature_scaling="whitened-0.9", **QUICK),
    "DEM, whitened": DEM(hidden=16, similarity="distance", feature_scaling="whitened-0.1", **QUICK),
    "ALE": ALE(**QUICK),
    "DEVISE": DEVISE(feature_scaling="standard", **QUICK),
    "SJE": SJE(feature_scaling="none", semantic_norm=None, **QUICK),
    "Foresight": Foresight(),
    "Foresight, centred, penalty": Foresight(feature_scaling="centred", seen_penalty=3.0),
    "Foresight, linear": Foresight(generator="linear"),
    "Foresight, range": Foresight(feature_scaling="range", semantic_norm="sqrt"),
    "Foresight, linear generator": Foresight(generator="linear"),
    "Foresight, root": Foresight(feature_scaling="root"),
    "Foresight, equal lengths": Foresight(mean_length="equal", seen_penalty=0.5),
    "Foresight, centred, equal lengths": Foresight(feature_scaling="centred", mean_length="equal"),
    "Foresight, root, equal lengths": Foresight(feature_scaling="root", mean_length="equal"),
    "Foresight, standard, equal lengths": Foresight(feature_scaling="standard", mean_length="equal", generator="linear"),
}

Outputs = dict[str, np.ndarray]


def fitted(model: ZeroShotClassifier, data: ZeroShotDataset) -> ZeroShotClassifier:
    return model.fit(data.train.X, data.train.y, data.classes)


def run(path: Path, X: np.ndarray, vectors: np.ndarray, indices: Any = None) -> Outputs:
    """Run an ONNX file with inputs as another program would give them."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"features": X.astype(np.float32), "class_vectors": vectors.astype(np.float32)}
    if indices is not None:
        given["seen_indices"] = np.asarray(indices, dtype=np.int64)
    assert {entry.name for entry in session.get_inputs()} == set(given)
    return dict(zip(("scores", "probabilities"), session.run(["scores", "probabilities"], given), strict=True))


def seen_indices_of(model: ZeroShotClassifier, labels: Any) -> list[int] | None:
    """Indices of labels among the seen classes, if the file has that input."""
    if not model.seen_penalty and getattr(model, "learned_classifiers_", None) is None:
        return None
    seen = sorted(set(model.seen_classes_.tolist()))
    return [seen.index(label) if label in seen else -1 for label in list(labels)]


def assert_same(found: Outputs, model: ZeroShotClassifier, X: np.ndarray, labels: Any) -> None:
    expected = model.decision_function(X, labels)
    assert found["scores"].shape == found["probabilities"].shape == expected.shape
    assert np.abs(found["scores"] - expected).max() <= TOLERANCE * np.abs(expected).max()
    # A difference in scores becomes at most half of it in a probability.
    assert np.abs(found["probabilities"] - model.predict_proba(X, labels)).max() <= TOLERANCE * max(1, np.abs(expected).max())
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, rtol=1e-5)


@pytest.fixture(params=EXPORTABLE)
def model(request: pytest.FixtureRequest, small_world: ZeroShotDataset) -> ZeroShotClassifier:
    return fitted(EXPORTABLE[request.param], small_world)


def test_scores_of_the_file_equal_those_of_the_model(
    model: ZeroShotClassifier, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    written = export_onnx(model, path)
    assert written.difference is not None
    assert written.difference <= TOLERANCE
    X = np.random.default_rng(5).normal(size=(1000, 24)).astype(np.float32) * small_world.train.X.std()
    mixed = np.random.default_rng(6).permutation(model.classes_)
    for n, labels in ((1000, mixed), (1, mixed), (7, mixed[:5]), (7, mixed[:1])):
        found = run(path, X[:n], model.table_.vectors_of(labels), seen_indices_of(model, labels))
        assert_same(found, model, X[:n], labels)


def test_new_classes_have_the_scores_of_the_model(
    model: ZeroShotClassifier, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    path, X = tmp_path / "model.onnx", small_world.test_unseen.X
    export_onnx(model, path)
    rng = np.random.default_rng(7)
    twin = small_world.classes.vectors_of(small_world.seen[:1])  # a new class with the vector of a seen one
    new = ClassTable(["n1", "n2", "n3", "twin"], np.concatenate([rng.normal(size=(3, 10)) + 1, twin]))
    model.add_classes(new)  # after the file was written
    labels = ["n3", small_world.seen[0], "twin", "n1", small_world.unseen[0], "n2"]
    assert_same(run(path, X, model.table_.vectors_of(labels), seen_indices_of(model, labels)), model, X, labels)


def test_adapted_model_uses_learned_classifiers_of_seen_classes(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    before = fitted(EXPORTABLE["CVC"], small_world)
    adapted = before.adapt(small_world.test_unseen.X, rounds=2, steps_per_round=20)
    path, X = tmp_path / "model.onnx", small_world.test_seen.X
    written = export_onnx(adapted, path)
    assert written.inputs["seen_indices"] == ("classes",)
    # It has the class vector of a seen class, but its classifier is generated.
    adapted.add_classes({"novel": small_world.classes.vectors_of(small_world.seen[3:4])[0]})
    labels = ["novel", *np.random.default_rng(0).permutation(small_world.classes.labels)]
    vectors = adapted.table_.vectors_of(labels)
    found = run(path, X, vectors, seen_indices_of(adapted, labels))
    assert_same(found, adapted, X, labels)
    generated = run(path, X, vectors, [-1] * len(labels))["scores"]
    seen = np.isin(labels, small_world.seen)
    np.testing.assert_allclose(generated[:, ~seen], found["scores"][:, ~seen], rtol=1e-4, atol=1e-4)
    assert np.abs(generated[:, seen] - found["scores"][:, seen]).max() > 0.1
    with pytest.raises(Exception, match="indices element out of data bounds"):
        run(path, X, vectors, [len(small_world.seen)] * len(labels))


@pytest.mark.parametrize("scaling", ["root", "centred", "root+centred"])
def test_adapted_and_calibrated_foresight(scaling: str, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    adapted = fitted(Foresight(feature_scaling=scaling), small_world).adapt(small_world.test_unseen.X)
    adapted.set_params(seen_penalty=2.0)
    adapted.calibration_ = Calibration(temperature=3.5, ECE=1.0, ECE_before=2.0)
    path, X = tmp_path / "model.onnx", np.concatenate([small_world.test_seen.X, np.zeros((1, 24), np.float32)])
    export_onnx(adapted, path)
    centre = adapted.table_.vectors_of(small_world.seen).mean(
        axis=0
    )  # the origin of the kernel, where directions are undefined
    adapted.add_classes({"novel": np.linspace(1, 0, 10), "mean": centre})
    labels = ["novel", "mean", *small_world.classes.labels[::-1]]
    found = run(path, X, adapted.table_.vectors_of(labels), seen_indices_of(adapted, labels))
    expected = adapted.decision_function(X, labels)
    assert np.abs(found["scores"] - expected).max() <= 1e-5 * np.ptp(expected)
    cooled = np.exp((expected - expected.max(axis=1, keepdims=True)).astype(float) / 3.5)
    np.testing.assert_allclose(found["probabilities"], cooled / cooled.sum(axis=1, keepdims=True), rtol=1e-3, atol=1e-5)


def test_seen_indices_are_an_input_only_if_needed(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    plain = export_onnx(fitted(CVC(hidden=16, **QUICK), small_world), tmp_path / "plain.onnx")
    assert plain.inputs == {"features": ("images", 24), "class_vectors": ("classes", 10)}
    assert plain.outputs == {"scores": ("images", "classes"), "probabilities": ("images", "classes")}
    export_onnx(fitted(CVC(hidden=16, seen_penalty=1.0, **QUICK), small_world), tmp_path / "penalised.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "penalised.onnx"), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="seen_indices"):
        session.run(None, {"features": np.ones((1, 24), np.float32), "class_vectors": np.ones((2, 10), np.float32)})


def test_metadata_contain_the_inputs_of_the_model_classes(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = fitted(CVC(hidden=16, seen_penalty=0.5, **QUICK), small_world)
    model.record_ = RunRecord("train", "CVC", {}, 0, "honest", {"backbone": {"name": "efficientnet_lite0", "size": 1280}})
    path = tmp_path / "model.onnx"
    export_onnx(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    assert (metadata["method"], metadata["sightunseen_version"]) == ("CVC", __version__)
    assert metadata["semantics"] == small_world.classes.use
    assert json.loads(metadata["attribute_names"]) == list(small_world.classes.attribute_names or ())
    assert json.loads(metadata["backbone"]) == {"name": "efficientnet_lite0", "size": 1280}
    labels = json.loads(metadata["labels"])
    assert labels == small_world.classes.labels.tolist()
    vectors, indices = (np.array(json.loads(metadata[name])) for name in ("class_vectors", "seen_indices"))
    X = small_world.test_seen.X
    assert_same(run(path, X, vectors, indices), model, X, labels)
    assert session.get_modelmeta().producer_name == "sightunseen"


def test_numeric_labels_and_feature_names(tmp_path: Path) -> None:
    columns = np.random.default_rng(0).normal(size=(3, 30))
    model = ESZSL().fit(pyarrow.table(dict(zip(("red", "green", "blue"), columns, strict=True))), np.arange(30) % 3 * 10)
    assert model.feature_names_in_.tolist() == ["red", "green", "blue"]
    export_onnx(model, tmp_path / "model.onnx")
    onnx_model = onnx.load(str(tmp_path / "model.onnx"))
    metadata = {entry.key: entry.value for entry in onnx_model.metadata_props}
    assert json.loads(metadata["labels"]) == [0, 10, 20]
    assert json.loads(metadata["attribute_names"]) is None
    assert json.loads(metadata["backbone"]) is None
    assert [entry.version for entry in onnx_model.opset_import] == [17]


def test_loaded_model_gives_the_same_file(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = fitted(EXPORTABLE["DEM"], small_world)
    model.save(tmp_path / "model")
    export_onnx(model, tmp_path / "one.onnx")
    export_onnx(load_model(tmp_path / "model"), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_zero_features(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = fitted(EXPORTABLE["CVC"], small_world)
    export_onnx(model, tmp_path / "model.onnx")
    X = np.zeros((2, 24))
    found = run(tmp_path / "model.onnx", X, model.table_.vectors)
    np.testing.assert_allclose(found["scores"], model.decision_function(X, model.table_.labels), atol=1e-6)


# -- the comparison, and errors --------------------------------------------------------------------------------------


def test_check_measures_the_difference(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    one, path = fitted(ESZSL(), small_world), tmp_path / "model.onnx"
    export_onnx(one, path)
    assert 0 < check_onnx(one, path, images=50, seed=3) < TOLERANCE
    one.map_ = one.map_ * 1.01  # every score is 1 % larger
    assert check_onnx(one, path) == pytest.approx(0.01 / 1.01, rel=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda right: ClassifierMap((Layer(right.layers[0].weights * 1.0001),)),
        lambda right: ClassifierMap((Layer(np.full_like(right.layers[0].weights, np.nan)),)),
    ],
    ids=["larger weights", "NaN"],
)
def test_differing_file_is_not_written(
    wrong: Callable[[ClassifierMap], ClassifierMap],
    small_world: ZeroShotDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = fitted(ESZSL(), small_world)
    (tmp_path / "model.onnx").write_text("an earlier one")
    right = model.classifier_map()
    monkeypatch.setattr(model, "classifier_map", lambda: wrong(right))
    with pytest.raises(ModelError, match=r"differ from the model's by .*ESZSL"):
        export_onnx(model, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "an earlier one"


def test_missing_packages(small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(ESZSL(), small_world)
    monkeypatch.setattr("sightunseen.export.onnx_files.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert export_onnx(model, tmp_path / "model.onnx").difference is None
    with pytest.raises(MissingDependencyError, match=r"onnxruntime: pip install 'sightunseen\[onnx\]'"):
        check_onnx(model, tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"onnx: pip install 'sightunseen\[onnx\]'"):
        export_onnx(model, tmp_path / "other.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_models_and_files_that_cannot_be_exported_are_errors(
    small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="this LATEM cannot be exported"):
        export_onnx(fitted(LATEM(n_steps=5, device="cpu"), small_world), tmp_path / "model.onnx")
    with pytest.raises(NotFittedError):
        export_onnx(CVC(), tmp_path / "model.onnx")
    model = fitted(ESZSL(), small_world)
    with pytest.raises(SettingsError, match=r"must end in \.onnx; got .*model\.bin"):
        export_onnx(model, tmp_path / "model.bin")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(StorageError, match=r"could not write .*folder\.onnx"):
        export_onnx(model, tmp_path / "folder.onnx")
    monkeypatch.setattr(onnx_graph, "MOST_BYTES", 4 * 24 * 10 - 1)
    with pytest.raises(SettingsError, match="GB"):
        export_onnx(model, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]
