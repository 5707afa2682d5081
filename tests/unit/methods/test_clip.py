"""CLIP: cosines of image and text embeddings; part of the contract of all methods, on features of a dual encoder."""

import numpy as np
import pytest
from sklearn.base import clone

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.export.onnx_files import export_onnx
from sightunseen.methods import CLIP, load_model
from sightunseen.pipeline.specification import TrainingSpecification

LABELS = [f"class {k}" for k in range(8)]


@pytest.fixture(scope="module")
def texts() -> np.ndarray:
    """Embeddings (8, 16) with one dimension that is far larger than the others, as in CLIP."""
    vectors = np.random.default_rng(0).normal(size=(8, 16))
    vectors[:, 3] += 40
    return vectors


@pytest.fixture(scope="module")
def data(texts: np.ndarray) -> ZeroShotDataset:
    """Images near the embedding of their class; the last three classes are unseen."""
    rng = np.random.default_rng(1)
    labels = np.repeat(LABELS, 10)
    X = (np.repeat(texts, 10, axis=0) + rng.normal(size=(80, 16)) * 0.3) * rng.uniform(0.5, 2, size=(80, 1))
    split = np.where(np.arange(80) < 50, np.where(np.arange(80) % 5 == 0, "test_seen", "train"), "test_unseen")
    return ZeroShotDataset.from_arrays(X, labels, ClassTable(LABELS, texts), split)


@pytest.fixture
def model(data: ZeroShotDataset) -> CLIP:
    return CLIP().fit(data.train.X, data.train.y, data.classes)


def test_scores_are_scaled_cosines_of_unscaled_vectors(model: CLIP, data: ZeroShotDataset, texts: np.ndarray) -> None:
    X = data.test_unseen.X
    cosines = (X / np.linalg.norm(X, axis=1, keepdims=True)) @ (texts / np.linalg.norm(texts, axis=1, keepdims=True)).T
    np.testing.assert_allclose(model.decision_function(X), 100 * cosines, rtol=1e-5)
    np.testing.assert_allclose(clone(model).set_params(logit_scale=1.0).fit(data.train.X, data.train.y, data.classes)
                               .decision_function(X), cosines, rtol=1e-5)  # fmt: skip


def test_unseen_classes_are_recognised_without_training(model: CLIP, data: ZeroShotDataset) -> None:
    assert model.score(data.test_unseen.X, data.test_unseen.y, "unseen") > 0.9
    assert model.score(data.test_unseen.X, data.test_unseen.y) > 0.9


def test_images_only_define_the_seen_classes(model: CLIP, data: ZeroShotDataset) -> None:
    first = [np.flatnonzero(data.train.y == label)[0] for label in data.seen]
    one = CLIP().fit(data.train.X[first] * -7, data.train.y[first], data.classes)
    np.testing.assert_array_equal(one.decision_function(data.test_unseen.X), model.decision_function(data.test_unseen.X))
    np.testing.assert_array_equal(one.seen_classes_, data.seen)


def test_saved_model_is_restored(model: CLIP, data: ZeroShotDataset, tmp_path) -> None:
    model.set_params(seen_penalty=0.5).save(tmp_path / "model")
    restored = load_model(tmp_path / "model")
    assert restored.get_params() == {"logit_scale": 100.0, "seen_penalty": 0.5}
    np.testing.assert_array_equal(restored.decision_function(data.test_seen.X), model.decision_function(data.test_seen.X))


def test_classes_are_added_and_removed(model: CLIP, data: ZeroShotDataset, texts: np.ndarray) -> None:
    before = model.decision_function(data.test_seen.X)
    model.add_classes({"new": -texts[0]})
    assert model.predict(-texts[:1]).tolist() == ["new"]
    model.remove_classes("new")
    np.testing.assert_array_equal(model.decision_function(data.test_seen.X), before)


def test_joint_embedding_and_export(model: CLIP, data: ZeroShotDataset, tmp_path) -> None:
    images, classes = model.compared(data.test_seen.X, "all")
    np.testing.assert_allclose(100 * images @ classes.T, model.decision_function(data.test_seen.X), rtol=1e-4)
    np.testing.assert_allclose(model.to_linear().scores(data.test_seen.X), model.decision_function(data.test_seen.X), rtol=1e-4)
    pytest.importorskip("onnx")
    assert export_onnx(model, tmp_path / "clip.onnx").inputs["class_vectors"] == ("classes", 16)


@pytest.mark.parametrize("scale", [0, -1, "large", float("nan")])
def test_invalid_scale_raises(scale: object, data: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="logit_scale"):
        CLIP(logit_scale=scale).fit(data.train.X, data.train.y, data.classes)  # type: ignore[arg-type]


def test_vectors_of_another_size_are_refused(data: ZeroShotDataset) -> None:
    table = ClassTable(LABELS, {"names:all-MiniLM-L6-v2": np.ones((8, 5))})
    with pytest.raises(DataError, match=r"16 features and 5 numbers per class \('names:all-MiniLM-L6-v2'\).*--backbone hf:"):
        CLIP().fit(data.train.X, data.train.y, table)
    with pytest.raises(DataError, match="CLIP needs class vectors"):
        CLIP().fit(data.train.X, data.train.y)


@pytest.mark.parametrize(
    ("backbone", "semantics", "fits"),
    [
        ({"name": "hf:clip", "text_encoder": "hf:clip"}, "names:hf:clip", True),
        ({"name": "hf:clip", "text_encoder": "hf:clip"}, "text:hf:clip", True),
        (None, "attributes", True),  # embeddings of the user's own
        ({"name": "hf:clip", "text_encoder": "hf:clip"}, "attributes", False),
        ({"name": "hf:clip", "text_encoder": "hf:clip"}, "names:hf:siglip", False),
        ({"name": "efficientnet_lite0"}, "names:all-MiniLM-L6-v2", False),
        ({"name": "hf:vit"}, "attributes", False),
    ],
)
def test_features_and_class_vectors_must_come_from_one_encoder(
    data: ZeroShotDataset, backbone: dict[str, str] | None, semantics: str, fits: bool
) -> None:
    from dataclasses import replace

    found = replace(data, backbone=backbone, classes=ClassTable(LABELS, {semantics: data.classes.vectors}))
    specification = TrainingSpecification(method=CLIP, select="none")
    if fits:
        specification.check_data(found)
    else:
        with pytest.raises(DataError, match="needs features and class vectors of one dual encoder"):
            specification.check_data(found)
