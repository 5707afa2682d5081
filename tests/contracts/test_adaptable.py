"""Contract of transductive methods: ``adapt`` returns a new model, adapted to unlabelled images of unseen classes."""

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

# For each method, hyperparameters of the estimator and of ``adapt`` that need a tenth of a second on a small world.
VAEGAN = (
    {
        "hidden": 64,
        "n_synthesised": 20,
        "classifier_steps": 50,
        "critic_steps": 2,
        "adversarial_weight": 1.0,
        "n_steps": 90,
        "learning_rate": 1e-2,
        "device": "cpu",
    },
    {"unseen_weight": 1.0, "n_steps": 30, "learning_rate": 1e-2, "batch_size": 32},
)
ADAPTATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ALE": ({"n_steps": 200, "learning_rate": 1e-2, "device": "cpu"}, {"neighbours": 3}),
    "BiVAEGAN": (VAEGAN[0], {**VAEGAN[1], "rounds": 2}),
    "CVC": ({"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "device": "cpu"}, {"rounds": 2, "steps_per_round": 20}),
    "DSRL": ({"components": 20, "steps": 2}, {"steps": 2, "neighbours": 5}),
    "FVAEGAN": VAEGAN,
    "Foresight": ({}, {"rounds": 3}),
    "GFZSL": ({}, {"steps": 5}),
    "QFSL": (
        {"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "batch_size": 64, "device": "cpu"},
        {"n_steps": 50, "learning_rate": 1e-2, "batch_size": 64, "unlabelled_batch_size": 32},
    ),
    "TFVAEGAN": VAEGAN,
}
ADAPTABLE = sorted(name for name, method in METHODS.items() if issubclass(method, AdaptableClassifier))


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    """40 seen and 5 unseen classes, almost determined by their attributes, with little noise."""
    return make_world(World(n_seen=40, n_unseen=5, n_attributes=12, n_features=32, images_per_class=12, private=0.1, noise=0.5))


@pytest.fixture(scope="module", params=ADAPTABLE)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def fitted(name: str, world: ZeroShotDataset) -> AdaptableClassifier:
    """Shared between tests; a test that changes the model copies it."""
    return fit(name, world)


@pytest.fixture(scope="module")
def adapted(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> AdaptableClassifier:
    """Shared between tests, as ``fitted``."""
    return fitted.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])


def fit(name: str, data: ZeroShotDataset, **hyperparameters: Any) -> AdaptableClassifier:
    model = METHODS[name](**ADAPTATIONS[name][0], **hyperparameters)
    return model.fit(data.train.X, data.train.y, data.classes)


def all_test_images(data: ZeroShotDataset) -> np.ndarray:
    return np.concatenate([data.test_seen.X, data.test_unseen.X])


def assert_same_scores(one: AdaptableClassifier, other: AdaptableClassifier, X: np.ndarray) -> None:
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_all_adaptable_methods_are_tested() -> None:
    assert set(ADAPTATIONS) == set(ADAPTABLE)


def test_adaptation_space_names_hyperparameters_of_adapt(
    name: str, fitted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    for parameter, values in fitted.adaptation_space.items():
        fitted.adapt(world.test_unseen.X, **{**ADAPTATIONS[name][1], parameter: values[0]})


# -- the adapted model -------------------------------------------------------------------------------------------------


def test_adapt_returns_a_new_model_and_keeps_the_old_one(name: str, world: ZeroShotDataset) -> None:
    model, X = fit(name, world, seen_penalty=0.25), all_test_images(world)
    parameters, before = model.get_params(), model.decision_function(X)
    adapted = model.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert type(adapted) is type(model)
    assert adapted is not model
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.get_params() == parameters
    assert not np.array_equal(adapted.decision_function(X), before)
    adapted.add_classes({"otter": np.ones(12)})
    assert "otter" not in model.classes_


def test_fit_forgets_an_adaptation(name: str, world: ZeroShotDataset) -> None:
    again = fit(name, world).adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    again.fit(world.train.X, world.train.y, world.classes)
    fresh = fit(name, world)
    assert not again.is_adapted
    assert vars(again).keys() == vars(fresh).keys()
    assert_same_scores(again, fresh, all_test_images(world))


def test_adapt_resets_the_seen_penalty(name: str, adapted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    """It was selected for the model before adaptation."""
    penalised = fit(name, world, seen_penalty=5.0).adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert penalised.seen_penalty == 0.0
    assert_same_scores(penalised, adapted, all_test_images(world))


@pytest.mark.parametrize("word", ["all", "unseen", "seen"])
def test_new_images_are_classified_among_any_candidates(
    word: str, adapted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    X = all_test_images(world) + np.float32(0.01)  # not the images it was adapted to
    labels, scores = adapted.candidates(word), adapted.decision_function(X, word)
    assert scores.shape == (len(X), len(labels))
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(adapted.predict(X, word), labels[scores.argmax(axis=1)])
    np.testing.assert_allclose(adapted.predict_proba(X, word).sum(axis=1), 1, rtol=1e-5)


def test_scores_do_not_depend_on_other_images(adapted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    X = all_test_images(world)
    together = adapted.decision_function(X)
    for row in (0, len(X) - 1):
        np.testing.assert_allclose(adapted.decision_function(X[row : row + 1])[0], together[row], rtol=1e-4, atol=1e-4)


def test_adapt_does_not_lower_accuracy_of_unseen_classes(
    fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    X, y = world.test_unseen.X, world.test_unseen.y
    assert adapted.score(X, y, "unseen") >= fitted.score(X, y, "unseen") - 0.05
    assert adapted.score(X, y, "unseen") > 0.6  # chance is 0.2
    assert adapted.score(X, y) > 0.2  # chance is 0.02
    assert adapted.score(world.test_seen.X, world.test_seen.y) > 0.3  # chance is 0.02


def test_adapt_to_some_of_the_unseen_classes(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    few = world.unseen[:3]
    of_few = np.isin(world.test_unseen.y, few)
    adapted = fitted.adapt(world.test_unseen.X[of_few], few, **ADAPTATIONS[name][1])
    assert adapted.score(world.test_unseen.X[of_few], world.test_unseen.y[of_few], few) > 0.7  # chance is 0.33
    np.testing.assert_array_equal(adapted.unseen_classes_, np.sort(world.unseen))
    assert np.isfinite(adapted.decision_function(world.test_unseen.X[~of_few])).all()


def test_adapted_model_recognises_an_added_class(name: str, world: ZeroShotDataset) -> None:
    right = []
    for label in world.unseen[:3].tolist():
        table = world.classes.only([other for other in world.classes.labels if other != label])
        model = METHODS[name](**ADAPTATIONS[name][0]).fit(world.train.X, world.train.y, table)
        of_label = world.test_unseen.y == label
        adapted = model.adapt(world.test_unseen.X[~of_label], **ADAPTATIONS[name][1])
        adapted.add_classes(ClassTable([label], world.classes.vectors_of([label])))
        right.append(np.mean(adapted.predict(world.test_unseen.X[of_label], "unseen") == label))
    assert np.mean(right) > 0.4  # chance is 0.2; the model was adapted to the other four classes


# -- labels and randomness ---------------------------------------------------------------------------------------------


def test_adapt_requires_no_labels(fitted: AdaptableClassifier) -> None:
    parameters = inspect.signature(fitted.adapt).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    assert needed == ["X_unlabelled"]


def test_same_seed_gives_identical_scores(
    name: str, fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset
) -> None:
    np.random.seed(1)  # global states must not matter
    torch.manual_seed(1)
    again = fitted.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    assert_same_scores(again, adapted, all_test_images(world))


def test_images_are_not_modified(name: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    unlabelled, seen = world.test_unseen.X.copy(), world.train.X.copy()
    fitted.adapt(unlabelled, X_seen=seen, y_seen=world.train.y, **ADAPTATIONS[name][1])
    np.testing.assert_array_equal(unlabelled, world.test_unseen.X)
    np.testing.assert_array_equal(seen, world.train.X)


# -- saving and loading ------------------------------------------------------------------------------------------------


def test_adapted_model_is_saved_and_loaded(adapted: AdaptableClassifier, world: ZeroShotDataset, tmp_path: Path) -> None:
    model = copy.deepcopy(adapted)
    model.add_classes({"otter": np.arange(12.0)})
    model.save(tmp_path / "model")
    assert_same_scores(load_model(tmp_path / "model"), model, all_test_images(world))


def test_loaded_model_adapts_like_the_original_given_the_seen_images(
    name: str, fitted: AdaptableClassifier, adapted: AdaptableClassifier, world: ZeroShotDataset, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    if loaded.needs_seen_images:
        with pytest.raises(DataError, match=r"a loaded model does not contain them.*X_seen"):
            loaded.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
    else:
        alone = loaded.adapt(world.test_unseen.X, **ADAPTATIONS[name][1])
        assert_same_scores(alone, adapted, all_test_images(world))
    again = loaded.adapt(world.test_unseen.X, X_seen=world.train.X, y_seen=world.train.y, **ADAPTATIONS[name][1])
    assert_same_scores(again, adapted, all_test_images(world))


# -- invalid input -----------------------------------------------------------------------------------------------------


def test_unknown_hyperparameter_is_named(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="no_such_parameter"):
        fitted.adapt(world.test_unseen.X, no_such_parameter=1)


@pytest.mark.parametrize("candidates", ["all", "seen"])
def test_adapting_to_seen_classes_is_an_error(candidates: str, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="some of the candidates are seen classes"):
        fitted.adapt(world.test_unseen.X, candidates)


def test_seen_images_and_labels_are_given_together(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    for alone in ({"X_seen": world.train.X}, {"y_seen": world.train.y}):
        with pytest.raises(DataError, match="give X_seen and y_seen together"):
            fitted.adapt(world.test_unseen.X, **alone)


def test_seen_images_must_cover_the_seen_classes(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    fewer = world.train.y != world.seen[0]
    for X, y in ((world.test_unseen.X, world.test_unseen.y), (world.train.X[fewer], world.train.y[fewer])):
        with pytest.raises(DataError, match="exactly the classes that the model was trained on"):
            fitted.adapt(world.test_unseen.X, X_seen=X, y_seen=y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_images_are_an_error(bad: float, fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    unlabelled, seen = world.test_unseen.X.copy(), world.train.X.copy()
    unlabelled[3, 2] = seen[3, 2] = bad
    with pytest.raises(DataError, match=r"NaN|infinity"):
        fitted.adapt(unlabelled)
    with pytest.raises(DataError, match=r"NaN|infinity"):
        fitted.adapt(world.test_unseen.X, X_seen=seen, y_seen=world.train.y)


def test_wrong_number_of_features_is_an_error(fitted: AdaptableClassifier, world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match=r"31 features.*expecting 32"):
        fitted.adapt(world.test_unseen.X[:, :31])
    with pytest.raises(DataError, match=r"31 features.*expecting 32"):
        fitted.adapt(world.test_unseen.X, X_seen=world.train.X[:, :31], y_seen=world.train.y)
