"""What every transductive method promises: ``adapt`` gives a new model, from unlabelled images of unseen classes."""

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import METHODS, AdaptableClassifier, load_model

# Every such method by name: settings that fit a small world in a tenth of a second, and settings that adapt as fast.
ADAPTATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ALE": ({"n_steps": 200, "learning_rate": 1e-2, "device": "cpu"}, {"neighbours": 3}),
    "CVC": ({"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "device": "cpu"}, {"rounds": 2, "steps_per_round": 20}),
    "DSRL": ({"components": 20, "steps": 2}, {"steps": 2, "neighbours": 5}),
    "Foresight": ({}, {"rounds": 3}),
    "GFZSL": ({}, {"steps": 5}),
    "QFSL": (
        {"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "batch_size": 64, "device": "cpu"},
        {"n_steps": 50, "learning_rate": 1e-2, "batch_size": 64, "unlabelled_batch_size": 32},
    ),
}
ADAPTABLE = sorted(name for name, method in METHODS.items() if issubclass(method, AdaptableClassifier))


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    """40 seen and 5 unseen classes that attributes tell nearly everything about, with little noise."""
    return make_world(World(n_seen=40, n_unseen=5, n_attributes=12, n_features=32, images_per_class=12, private=0.1, noise=0.5))


@pytest.fixture(scope="module", params=ADAPTABLE)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def fitted(name: str, world: ZeroShotDataset) -> AdaptableClassifier:
    """Shared; a test that changes the model takes a copy."""
    return fit(name, world)


@pytest.fixture(scope="module")
def adapted(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> AdaptableClassifier:
    """Shared, too."""
    return fitted.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])


def fit(name: str, data: ZeroShotDataset, **settings: Any) -> AdaptableClassifier:
    model = METHODS[name](**ADAPTATIONS[name][0], **settings)
    return model.fit(data.train.X, data.train.y, data.classes)


def all_test_images(data: ZeroShotDataset) -> np.ndarray:
    return np.concatenate([data.test_seen.X, data.test_unseen.X])


def assert_same_scores(one: AdaptableClassifier, other: AdaptableClassifier, X: np.ndarray) -> None:
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_every_adaptable_method_is_tested_here() -> None:
    assert set(ADAPTATIONS) == set(ADAPTABLE)


def test_the_values_worth_trying_are_settings_of_adapt(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    for setting, values in fitted.adaptation_space.items():
        fitted.adapt(world.test_unseen.X, **{**ADAPTATIONS[name][1], setting: values[0]})


# -- what comes out -----------------------------------------------------------------------------------------------------


def test_a_new_model_comes_out_and_the_old_one_stays_as_it_was(name: str, world: ZeroShotDataset) -> None:
    model, X = fit(name, world, seen_penalty=0.25), all_test_images(world)
    settings, before = model.get_params(), model.decision_function(X)
    adapted = model.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert type(adapted) is type(model)
    assert adapted is not model
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.get_params() == settings
    assert not np.array_equal(adapted.decision_function(X), before)
    adapted.add_classes({"otter": np.ones(12)})
    assert "otter" not in model.classes_


def test_the_penalty_on_seen_classes_is_dropped(name: str, adapted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    """It was chosen for a model that had not met unseen images."""
    penalised = fit(name, world, seen_penalty=5.0).adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert penalised.seen_penalty == 0.0
    assert_same_scores(penalised, adapted, all_test_images(world))


@pytest.mark.parametrize("word", ["all", "unseen", "seen"])
def test_any_image_can_be_classified_among_any_classes(word: str, adapted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    X = all_test_images(world) + np.float32(0.01)  # not the images it was adapted to
    labels, scores = adapted.candidates(word), adapted.decision_function(X, word)
    assert scores.shape == (len(X), len(labels))
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(adapted.predict(X, word), labels[scores.argmax(axis=1)])
    np.testing.assert_allclose(adapted.predict_proba(X, word).sum(axis=1), 1, rtol=1e-5)


def test_an_image_has_the_scores_alone_that_it_has_among_others(adapted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    X = all_test_images(world)
    together = adapted.decision_function(X)
    for row in (0, len(X) - 1):
        np.testing.assert_allclose(adapted.decision_function(X[row : row + 1])[0], together[row], rtol=1e-4, atol=1e-4)


def test_unseen_classes_are_recognised_at_least_as_well(
    fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    X, y = world.test_unseen.X, world.test_unseen.y
    assert adapted.score(X, y, "unseen") >= fitted.score(X, y, "unseen") - 0.05
    assert adapted.score(X, y, "unseen") > 0.6  # chance is 0.2
    assert adapted.score(X, y) > 0.2  # chance is 0.02
    assert adapted.score(world.test_seen.X, world.test_seen.y) > 0.3  # chance is 0.02


def test_a_few_of_the_unseen_classes_may_be_meant(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    few = world.unseen[:3]
    of_few = np.isin(world.test_unseen.y, few)
    adapted = fitted.adapt(world.test_unseen.X[of_few], few, **ADAPTATIONS[name][1])
    assert adapted.score(world.test_unseen.X[of_few], world.test_unseen.y[of_few], few) > 0.7  # chance is 0.33
    np.testing.assert_array_equal(adapted.unseen_classes_, np.sort(world.unseen))
    assert np.isfinite(adapted.decision_function(world.test_unseen.X[~of_few])).all()


def test_an_adapted_model_recognises_an_added_class(name: str, world: ZeroShotDataset) -> None:
    right = []
    for label in world.unseen[:3].tolist():
        table = world.classes.only([other for other in world.classes.labels if other != label])
        model = METHODS[name](**ADAPTATIONS[name][0]).fit(world.train.X, world.train.y, table)
        of_label = world.test_unseen.y == label
        adapted = model.adapt(world.test_unseen.X[~of_label], **ADAPTATIONS[name][1])
        adapted.add_classes(ClassTable([label], world.classes.vectors_of([label])))
        right.append(np.mean(adapted.predict(world.test_unseen.X[of_label], "unseen") == label))
    assert np.mean(right) > 0.4  # chance is 0.2, and of the other four classes images were met


# -- labels and randomness ----------------------------------------------------------------------------------------------


def test_the_labels_of_unlabelled_images_are_never_asked_for(fitted: AdaptableClassifier) -> None:
    parameters = inspect.signature(fitted.adapt).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    assert needed == ["X_unlabelled"]


def test_the_same_seed_gives_the_same_bits(
    name: str, fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    np.random.seed(1)  # global states must not matter
    torch.manual_seed(1)
    again = fitted.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert_same_scores(again, adapted, all_test_images(world))


def test_images_are_not_written_to(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    unlabelled, seen = world.test_unseen.X.copy(), world.train.X.copy()
    fitted.adapt(unlabelled, X_seen=seen, y_seen=world.train.y, **ADAPTATIONS[name][1])
    np.testing.assert_array_equal(unlabelled, world.test_unseen.X)
    np.testing.assert_array_equal(seen, world.train.X)


# -- saving and loading -------------------------------------------------------------------------------------------------


def test_an_adapted_model_is_saved_and_loaded(adapted: AdaptableClassifier, world: ZeroShotDataset, tmp_path: Path) -> None:
    model = copy.deepcopy(adapted)
    model.add_classes({"otter": np.arange(12.0)})
    model.save(tmp_path / "model")
    assert_same_scores(load_model(tmp_path / "model"), model, all_test_images(world))


def test_a_loaded_model_needs_the_seen_images_and_then_adapts_like_the_unsaved_one(
    name: str, fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    with pytest.raises(DataError, match=r"a loaded model does not carry them.*X_seen"):
        loaded.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    again = loaded.adapt(world.test_unseen.X, X_seen=world.train.X, y_seen=world.train.y, **ADAPTATIONS[name][1])
    assert_same_scores(again, adapted, all_test_images(world))


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_an_unknown_setting_is_named(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="no_such_setting"):
        fitted.adapt(world.test_unseen.X, no_such_setting=1)


@pytest.mark.parametrize("candidates", ["all", "seen"])
def test_seen_classes_are_not_adapted_to(candidates: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="some of the candidates are seen classes"):
        fitted.adapt(world.test_unseen.X, candidates)


def test_seen_images_come_with_their_labels(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    for alone in ({"X_seen": world.train.X}, {"y_seen": world.train.y}):
        with pytest.raises(DataError, match="give X_seen and y_seen together"):
            fitted.adapt(world.test_unseen.X, **alone)


def test_seen_images_are_of_the_classes_trained_on(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    fewer = world.train.y != world.seen[0]
    for X, y in ((world.test_unseen.X, world.test_unseen.y), (world.train.X[fewer], world.train.y[fewer])):
        with pytest.raises(DataError, match="exactly the classes that the model was trained on"):
            fitted.adapt(world.test_unseen.X, X_seen=X, y_seen=y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_images_that_are_not_finite_are_refused(bad: float, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    unlabelled, seen = world.test_unseen.X.copy(), world.train.X.copy()
    unlabelled[3, 2] = seen[3, 2] = bad
    with pytest.raises(DataError, match=r"NaN|infinity"):
        fitted.adapt(unlabelled)
    with pytest.raises(DataError, match=r"NaN|infinity"):
        fitted.adapt(world.test_unseen.X, X_seen=seen, y_seen=world.train.y)


def test_images_of_another_width_are_refused(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match=r"31 features.*expecting 32"):
        fitted.adapt(world.test_unseen.X[:, :31])
    with pytest.raises(DataError, match=r"31 features.*expecting 32"):
        fitted.adapt(world.test_unseen.X, X_seen=world.train.X[:, :31], y_seen=world.train.y)
