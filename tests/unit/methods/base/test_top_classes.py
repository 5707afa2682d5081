"""The best classes in blocks of images and candidates are those of the whole matrix of scores."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightunseen.core import blocks
from sightunseen.core.blocks import named_blocks
from sightunseen.core.calibration import NONE, Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import METHODS, Foresight, ZeroShotClassifier
from sightunseen.methods.base import top_classes
from sightunseen.methods.base.top_classes import top_columns
from sightunseen.prediction import ranked

QUICK = {"n_steps": 20, "classifier_steps": 20, "hidden": 16, "device": "cpu", "components": 6}
# Candidates, held classifiers and images at a time; the last one computes classifiers again for every 11 images.
SIZES = [(7, 1 << 30, 1), (3, 1 << 30, 1), (4, 0, 11)]


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=14, n_unseen=9, n_attributes=10, n_features=12, images_per_class=6))


@pytest.fixture(scope="module", params=sorted(METHODS))
def fitted(request: pytest.FixtureRequest, world: ZeroShotDataset) -> ZeroShotClassifier:
    method = METHODS[request.param]
    chosen = {name: value for name, value in QUICK.items() if name in method._get_param_names()}
    classes = world.classes
    if request.param == "CLIP":  # embeddings of images and texts have one size
        classes = ClassTable(classes.labels, np.resize(classes.vectors, (len(classes.labels), world.train.X.shape[1])))
    return method(**chosen).fit(world.train.X, world.train.y, classes).set_params(seen_penalty=0.05)


@pytest.fixture(params=SIZES, ids=str)
def in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("CLASSES", "HELD_BYTES", "IMAGES"), request.param, strict=True):
        monkeypatch.setattr(top_classes, name, value)
    monkeypatch.setattr(blocks, "ROWS", 5)


def best_first(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")


# -- selection ---------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_top_columns_are_those_of_a_stable_sort(data: st.DataObject) -> None:
    n, c = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 30))
    values = data.draw(st.lists(st.integers(-2, 2), min_size=n * c, max_size=n * c))  # many are equal
    scores = np.array(values, dtype=np.float32).reshape(n, c)
    for k in range(1, c + 1):
        np.testing.assert_array_equal(top_columns(scores, k), best_first(scores)[:, :k])


# -- all methods -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("candidates", ["all", "unseen", "in order"])
def test_every_method_predicts_the_same_in_blocks(fitted: ZeroShotClassifier, world: ZeroShotDataset, candidates: Any) -> None:
    if candidates == "in order":  # some blocks have only seen, some only unseen classes
        candidates = np.concatenate([fitted.seen_classes_, fitted.unseen_classes_])
    X, labels = world.test_unseen.X, fitted.candidates(candidates)
    scores = fitted.decision_function(X, labels)
    np.testing.assert_array_equal(fitted.predict(X, candidates), labels[scores.argmax(axis=1)])
    found, values = fitted.top_classes(X, 4, candidates)
    np.testing.assert_array_equal(found, labels[best_first(scores)[:, :4]])
    np.testing.assert_allclose(values, -np.sort(-scores, axis=1)[:, :4], rtol=1e-4, atol=1e-4 * np.abs(scores).max())


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("top", [1, 2, 5, 40])
@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_confidence_and_rejection_are_the_same_in_blocks(world: ZeroShotDataset, top: int, temperature: float) -> None:
    model = Foresight(seen_penalty=0.3).fit(world.train.X, world.train.y, world.classes)
    X, labels = world.test_unseen.X, model.classes_
    scores = model.decision_function(X)
    threshold = float(np.median(scores.max(axis=1)))
    model.calibration_ = Calibration(none_below=threshold, temperature=temperature, ECE=1.0, ECE_before=2.0)
    batches = list(ranked(model, named_blocks(X), top))
    found = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    shares, expected = model.predict_proba(X), []
    for row, order in enumerate(best_first(scores)):
        answers = [(labels[k], shares[row, k]) for k in order]
        if scores[row].max() < threshold:
            answers.insert(0, (NONE, 1 - shares[row].max()))
        expected += [(str(row), *answer) for answer in answers[:top]]
    names, classes, confidence = zip(*expected, strict=True)
    assert found["path"].tolist() == list(names)
    assert found["class"].tolist() == list(classes)
    np.testing.assert_allclose(found["confidence"], confidence, rtol=1e-3, atol=1e-5)
    assert 0 < sum(label == NONE for label in classes) < len(X)


# -- Foresight ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_blocks")
def test_of_classes_with_equal_scores_the_first_candidate_is_the_best(world: ZeroShotDataset) -> None:
    X, y = world.train.X, world.train.y
    model = Foresight().fit(X, y, world.classes)
    twin = world.classes.vectors_of([y[0]])[0]
    model.add_classes({f"twin {k:02d}": twin for k in range(20)})
    twins = [f"twin {k:02d}" for k in reversed(range(20))]
    assert set(model.predict(X[:30], twins)) == {"twin 19"}
    assert (model.top_classes(X[:30], 12, twins)[0] == twins[:12]).all()


def test_more_classes_than_candidates_gives_all_of_them(world: ZeroShotDataset) -> None:
    model = Foresight().fit(world.train.X, world.train.y, world.classes)
    labels, scores = model.top_classes(world.test_unseen.X, 100, "unseen")
    assert labels.shape == scores.shape == (len(world.test_unseen.X), 9)
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("k", [0, -1, 1.5, "two"])
def test_number_of_classes_must_be_positive_and_whole(world: ZeroShotDataset, k: Any) -> None:
    model = Foresight().fit(world.train.X, world.train.y, world.classes)
    with pytest.raises(SettingsError, match="k must be a whole number"):
        model.top_classes(world.test_unseen.X, k)


@pytest.mark.usefixtures("in_blocks")
def test_invalid_features_raise_an_error(world: ZeroShotDataset) -> None:
    model = Foresight().fit(world.train.X, world.train.y, world.classes)
    for X in (world.test_unseen.X[:, :5], world.test_unseen.X[:0], world.test_unseen.X[0]):
        with pytest.raises(DataError):
            model.top_classes(X)
        with pytest.raises(DataError):
            model.predict(X)


@pytest.mark.parametrize("held", [1 << 30, 0], ids=["held", "computed again"])
def test_memory_is_far_below_the_matrix_of_scores(world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(top_classes, "HELD_BYTES", held)
    model = Foresight().fit(world.train.X, world.train.y, world.classes)
    count, images = 40_000, 2048
    vectors = np.random.default_rng(0).normal(size=(count, 10))
    model.add_classes(ClassTable([f"new {k}" for k in range(count)], vectors))
    X = np.resize(world.test_unseen.X, (images, 12))
    tracemalloc.start()
    try:
        labels, _ = model.top_classes(X, 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert labels.shape == (images, 3)
    assert peak < 4 * count * images / 4
