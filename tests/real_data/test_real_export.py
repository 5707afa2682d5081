"""Models of real birds outside of Python: ONNX and linear classifiers answer as the model does."""

import json
from pathlib import Path

import numpy as np
import pytest

from sightunseen import load_gbu
from sightunseen.dataset import ZeroShotDataset
from sightunseen.export.onnx_files import TOLERANCE, export_onnx
from sightunseen.methods import CVC, ESZSL, ZeroShotClassifier

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def birds(benchmark_folder: Path) -> ZeroShotDataset:
    return load_gbu(benchmark_folder / "CUB", features="res50")


@pytest.fixture(scope="module", params=["CVC", "CVC adapted", "ESZSL"])
def model(request: pytest.FixtureRequest, birds: ZeroShotDataset) -> ZeroShotClassifier:
    if request.param == "ESZSL":
        return ESZSL(seen_penalty=0.1).fit(birds.train.X, birds.train.y, birds.classes)
    quick = CVC(n_tasks=100, seen_penalty=1.0, device="cpu").fit(birds.train.X, birds.train.y, birds.classes)
    return quick.adapt(birds.test_unseen.X, rounds=2, tasks_per_round=20) if request.param == "CVC adapted" else quick


def test_a_file_answers_as_the_model_does(model: ZeroShotClassifier, birds: ZeroShotDataset, tmp_path: Path) -> None:
    written = export_onnx(model, tmp_path / "model.onnx")
    assert written.difference is not None
    assert written.difference <= TOLERANCE
    session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    labels = np.array(json.loads(metadata["labels"]))
    X = np.concatenate([birds.test_unseen.X[::3], birds.test_seen.X[::3]]).astype(np.float32)
    given = {
        "features": X,
        "class_vectors": np.array(json.loads(metadata["class_vectors"]), dtype=np.float32),
        "seen_places": np.array(json.loads(metadata["seen_places"])),
    }
    scores, probabilities = session.run(["scores", "probabilities"], {name: given[name] for name in written.inputs})
    expected = model.decision_function(X, labels)
    assert np.abs(scores - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert np.abs(probabilities - model.predict_proba(X, labels)).max() <= 1e-4
    assert (labels[scores.argmax(axis=1)] == model.predict(X, labels)).mean() > 0.999  # all but ties


def test_linear_classifiers_answer_as_the_model_does(model: ZeroShotClassifier, birds: ZeroShotDataset) -> None:
    X = birds.test_unseen.X
    for candidates in ("all", "unseen"):
        expected = model.decision_function(X, candidates)
        linear = model.to_linear(candidates)
        assert np.abs(linear.scores(X) - expected).max() <= TOLERANCE * np.abs(expected).max()
        assert (linear.predict(X) == model.predict(X, candidates)).mean() > 0.999
