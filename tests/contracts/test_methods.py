"""Contract of all methods: a scikit-learn classifier that can also predict classes without training images."""

import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sightunseen.analysis.contributions import contributions
from sightunseen.core.blocks import ROWS as BLOCK
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import (
    ALE,
    CADAVAE,
    CEGZSL,
    CMT,
    CNZSL,
    CONSE,
    CVC,
    DAP,
    DEM,
    DEVISE,
    DSRL,
    ESZSL,
    EXEM,
    FCLSWGAN,
    FVAEGAN,
    GFZSL,
    LATEM,
    METHODS,
    PSR,
    QFSL,
    SAE,
    SJE,
    SPAEN,
    SSE,
    SYNC,
    TFVAEGAN,
    BiVAEGAN,
    Foresight,
    Projection,
    RelationNetwork,
    ZeroShotClassifier,
    load_model,
)
from sightunseen.methods.generative.base import GenerativeClassifier
from sightunseen.selection.evaluation import zsl_accuracy
from sightunseen.training import Hook, Training

# Each method with hyperparameters that fit a small world in a tenth of a second.
QUICK: dict[str, ZeroShotClassifier] = {
    "ALE": ALE(n_steps=100, learning_rate=1e-2, device="cpu"),
    "CADAVAE": CADAVAE(
        latent_size=16,
        feature_encoder_hidden=64,
        feature_decoder_hidden=64,
        vector_encoder_hidden=64,
        vector_decoder_hidden=32,
        kl_weight=1e-3,  # the other terms are sums over few features
        alignment_weight=1.0,
        n_synthesised=50,
        n_latent=50,
        classifier_steps=100,
        n_steps=400,
        learning_rate=5e-3,
        semantic_norm="sqrt",
        device="cpu",
    ),
    "CEGZSL": CEGZSL(
        hidden=64,
        noise_size=4,
        embedding_size=64,
        projection_size=16,
        comparator_hidden=32,
        class_level_weight=1.0,
        n_synthesised=20,
        classifier_steps=50,
        critic_steps=2,
        n_steps=150,
        batch_size=64,
        learning_rate=1e-2,
        seen_penalty=2.0,
        device="cpu",
    ),
    "BiVAEGAN": BiVAEGAN(
        hidden=64,
        n_synthesised=20,
        classifier_steps=50,
        critic_steps=2,
        adversarial_weight=1.0,
        n_steps=90,
        learning_rate=1e-2,
        device="cpu",
    ),
    "CMT": CMT(hidden=32, n_steps=80, learning_rate=5e-2, device="cpu"),
    "CNZSL": CNZSL(hidden=128, n_steps=60, learning_rate=1e-2, device="cpu"),
    "CONSE": CONSE(n_combined=10, penalty=0.1, seen_penalty=0.2),
    "CVC": CVC(hidden=32, n_steps=100, learning_rate=1e-2, device="cpu"),
    "DAP": DAP(feature_scaling="standard"),
    "DEM": DEM(hidden=64, n_steps=100, learning_rate=1e-2, device="cpu"),
    "DEVISE": DEVISE(n_steps=100, learning_rate=1e-2, device="cpu"),
    "DSRL": DSRL(components=20, steps=2),
    "ESZSL": ESZSL(),
    "EXEM": EXEM(),
    "FCLSWGAN": FCLSWGAN(
        hidden=64,
        noise_size=4,
        n_synthesised=20,
        classifier_steps=50,
        critic_steps=2,
        classification_weight=1.0,
        n_steps=90,
        learning_rate=1e-2,
        seen_penalty=2.0,
        device="cpu",
    ),
    "FVAEGAN": FVAEGAN(
        hidden=64,
        n_synthesised=20,
        classifier_steps=50,
        critic_steps=2,
        adversarial_weight=1.0,
        n_steps=90,
        learning_rate=1e-2,
        device="cpu",
    ),
    "Foresight": Foresight(),
    "GFZSL": GFZSL(),
    "LATEM": LATEM(n_steps=200, batch_size=32, learning_rate=2e-2, device="cpu"),
    "PSR": PSR(hidden=64, n_steps=100, learning_rate=1e-2, device="cpu"),
    "Projection": Projection(hidden=64, n_steps=100, learning_rate=1e-2, device="cpu"),
    "QFSL": QFSL(hidden=32, n_steps=100, learning_rate=1e-2, batch_size=64, device="cpu"),
    "RelationNetwork": RelationNetwork(hidden=64, n_steps=100, images_per_class=4, learning_rate=1e-2, device="cpu"),
    "SAE": SAE(),
    "SJE": SJE(n_steps=100, learning_rate=1e-2, device="cpu"),
    "SPAEN": SPAEN(hidden=128, n_steps=80, adversarial_weight=0.01, learning_rate=1e-2, device="cpu"),
    "SSE": SSE(mixture_penalty=10.0, n_steps=60, learning_rate=0.1, feature_scaling="none", device="cpu"),
    "SYNC": SYNC(),
    "TFVAEGAN": TFVAEGAN(
        hidden=64,
        n_synthesised=20,
        classifier_steps=50,
        critic_steps=2,
        adversarial_weight=1.0,
        n_steps=90,
        learning_rate=1e-2,
        device="cpu",
    ),
}

WHITENED = {  # a closed-form and a gradient-trained method on whitened features
    "ESZSL, whitened": ESZSL(feature_scaling="whitened-0.3"),
    "SJE, whitened": SJE(feature_scaling="whitened-0.6", n_steps=100, learning_rate=1e-2, device="cpu"),
}
VARIANTS = {"CMT*": CMT(novelty=True, hidden=32, kept=0.8, n_steps=80, learning_rate=5e-2, device="cpu")}
TESTED = {**QUICK, **WHITENED, **VARIANTS}


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    """40 seen and 5 unseen classes, determined by their attributes, with little noise."""
    return make_world(World(n_seen=40, n_unseen=5, n_attributes=12, n_features=32, images_per_class=12, private=0.0, noise=0.5))


@pytest.fixture(scope="module", params=sorted(TESTED))
def method(request: pytest.FixtureRequest) -> ZeroShotClassifier:
    return TESTED[request.param]


@pytest.fixture(scope="module")
def fitted(method: ZeroShotClassifier, world: ZeroShotDataset) -> ZeroShotClassifier:
    """Shared between tests; a test that changes the model copies it."""
    return fit(method, world)


def fit(method: ZeroShotClassifier, data: ZeroShotDataset, classes: Any = None) -> ZeroShotClassifier:
    return clone(method).fit(data.train.X, data.train.y, data.classes if classes is None else classes)


def assert_same_scores(one: ZeroShotClassifier, other: ZeroShotClassifier, X: np.ndarray) -> None:
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_all_methods_are_registered_by_name_and_tested() -> None:
    assert {name: method.__name__ for name, method in METHODS.items()} == {name: name for name in METHODS}
    assert set(QUICK) == set(METHODS) - {"CLIP"}  # needs features of a dual encoder: tests/unit/methods/test_clip.py


# -- scikit-learn ------------------------------------------------------------------------------------------------------


@parametrize_with_checks([TESTED[name] for name in sorted(TESTED)])
def test_scikit_learn_estimator_checks(estimator: ZeroShotClassifier, check: Any) -> None:
    check(estimator)


def test_clone_copies_hyperparameters_only(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copied.predict(world.test_unseen.X)


def test_set_params_and_get_params(method: ZeroShotClassifier) -> None:
    for name, value in method.get_params().items():
        other = {True: False, False: True}.get(value, "other") if isinstance(value, bool) else "other"
        assert clone(method).set_params(**{name: other}).get_params()[name] == other
    with pytest.raises(ValueError, match="no_such_parameter"):
        clone(method).set_params(no_such_parameter=1)


def test_pipeline_with_a_scaler(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    scaler = StandardScaler().fit(world.train.X)
    alone = clone(method).fit(scaler.transform(world.train.X), world.train.y, classes=world.classes)
    pipeline = Pipeline([("scale", StandardScaler()), ("classify", clone(method))])
    pipeline.fit(world.train.X, world.train.y, classify__classes=world.classes)
    X = world.test_unseen.X
    np.testing.assert_array_equal(pipeline.predict(X), alone.predict(scaler.transform(X)))
    np.testing.assert_array_equal(pipeline.predict(X, candidates="unseen"), alone.predict(scaler.transform(X), "unseen"))
    assert alone.score(scaler.transform(X), world.test_unseen.y, "unseen") > 0.5  # chance is 0.2


def test_grid_search_by_class_validates_on_unseen_classes(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    validated: list[set[str]] = []

    def scoring(model: ZeroShotClassifier, X: np.ndarray, y: np.ndarray) -> float:
        assert set(y.tolist()).isdisjoint(model.seen_classes_.tolist())
        assert set(model.predict(X, np.unique(y)).tolist()) <= set(y.tolist())
        validated.append(set(y.tolist()))
        return zsl_accuracy(model, X, y)

    search = GridSearchCV(clone(method), [{}], cv=GroupKFold(n_splits=3), scoring=scoring, error_score="raise")
    search.fit(world.train.X, world.train.y, groups=world.train.y, classes=world.classes)
    assert set().union(*validated) == set(world.seen.tolist())
    assert sum(map(len, validated)) == len(world.seen)
    assert search.best_score_ > 0.4  # among 13 or 14 classes chance is 0.08
    np.testing.assert_array_equal(search.best_estimator_.seen_classes_, world.seen)


def test_grid_search_selects_the_better_hyperparameter(world: ZeroShotDataset) -> None:
    grid = {"learning_rate": [1e-9, 1e-2]}
    search = GridSearchCV(clone(QUICK["CVC"]), grid, cv=GroupKFold(n_splits=3), scoring=zsl_accuracy, error_score="raise")
    search.fit(world.train.X, world.train.y, groups=world.train.y, classes=world.classes)
    assert search.best_params_ == {"learning_rate": 1e-2}


def test_grid_search_over_a_pipeline_validates_on_unseen_classes(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("classify", clone(method))])
    search = GridSearchCV(pipeline, [{}], cv=GroupKFold(n_splits=3), scoring=zsl_accuracy, error_score="raise")
    search.fit(world.train.X, world.train.y, groups=world.train.y, classify__classes=world.classes)
    assert search.best_score_ > 0.4


def test_score_is_per_class_accuracy(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    X, y = world.test_unseen.X[5:], world.test_unseen.y[5:]  # one class has fewer images than the others
    predicted = fitted.predict(X)
    accuracies = []
    for label in set(y.tolist()):
        right = [guess == label for guess, truth in zip(predicted.tolist(), y.tolist(), strict=True) if truth == label]
        accuracies.append(sum(right) / len(right))
    assert fitted.score(X, y) == pytest.approx(sum(accuracies) / len(accuracies), rel=1e-12)
    if not fitted.scores_jointly:  # with the same scores, fewer candidates cannot be worse
        assert fitted.score(X, y, candidates="unseen") >= fitted.score(X, y)


# -- the class table ---------------------------------------------------------------------------------------------------


def test_order_of_class_table_does_not_matter(
    method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    mixed = np.random.default_rng(0).permutation(len(world.classes.labels))
    table = ClassTable(world.classes.labels[mixed], world.classes.vectors[mixed])
    assert_same_scores(fitted, fit(method, world, table), world.test_unseen.X)


def test_class_table_can_be_a_mapping(method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    table = dict(zip(world.classes.labels.tolist(), world.classes.vectors, strict=True))
    assert_same_scores(fitted, fit(method, world, table), world.test_unseen.X)


def test_seen_and_unseen_classes_are_distinguished(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    np.testing.assert_array_equal(fitted.seen_classes_, np.unique(world.train.y))
    np.testing.assert_array_equal(fitted.unseen_classes_, np.unique(world.test_unseen.y))
    np.testing.assert_array_equal(fitted.classes_, np.unique(world.labels))


def test_unseen_classes_are_recognised(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    assert fitted.score(world.test_unseen.X, world.test_unseen.y, "unseen") > 0.6  # chance is 0.2
    assert fitted.score(world.test_seen.X, world.test_seen.y) > 0.4  # chance is 0.02


def test_label_without_vector_is_named(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    missing = world.seen[3]
    table = world.classes.only([label for label in world.classes.labels if label != missing])
    with pytest.raises(DataError, match=f"'{missing}' has no semantic vector"):
        fit(method, world, table)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_class_with_non_finite_vector_is_named(method: ZeroShotClassifier, world: ZeroShotDataset, bad: float) -> None:
    vectors = np.array(world.classes.vectors)
    vectors[2, 1] = bad
    with pytest.raises(DataError, match=str(world.classes.labels[2])):
        fit(method, world, ClassTable(world.classes.labels, vectors))


def test_zero_class_vector_is_an_error_before_training(world: ZeroShotDataset) -> None:
    class Started(Hook):
        chunks = 0

        def on_chunk(self, _training: Training) -> None:
            self.chunks += 1

    started = Started()
    vectors = np.array(world.classes.vectors)
    vectors[list(world.classes.labels).index(world.unseen[0])] = 0
    table = ClassTable(world.classes.labels, vectors)
    with pytest.raises(DataError, match="all zero"):
        clone(QUICK["CVC"]).fit(world.train.X, world.train.y, table, hooks=[started])
    assert started.chunks == 0


def test_refit_on_another_class_table(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    again = fit(method, world).fit(world.train.X[:, :20], world.train.y)  # one-hot vectors, fewer classes and features
    fresh = clone(method).fit(world.train.X[:, :20], world.train.y)
    assert_same_scores(again, fresh, world.test_seen.X[:, :20])


def test_labels_can_be_numbers(method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    """Numbers in the order of the names give the same model."""
    names, numbers = np.unique(world.labels, return_inverse=True)
    table = ClassTable(np.arange(len(names)), world.classes.vectors_of(names))
    model = clone(method).fit(world.train.X, numbers[world.train_rows], table)
    np.testing.assert_array_equal(model.decision_function(world.test_unseen.X), fitted.decision_function(world.test_unseen.X))
    np.testing.assert_array_equal(names[model.predict(world.test_unseen.X)], fitted.predict(world.test_unseen.X))


# -- randomness --------------------------------------------------------------------------------------------------------


def test_same_seed_gives_identical_scores(
    method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    np.random.seed(1)  # global random states must not matter
    torch.manual_seed(1)
    assert_same_scores(fitted, fit(method, world), world.test_unseen.X)


def test_another_seed_gives_other_scores(
    method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    if "seed" not in method.get_params():
        pytest.skip("this method is deterministic")
    other = fit(clone(method).set_params(seed=1), world)
    assert not np.array_equal(other.decision_function(world.test_unseen.X), fitted.decision_function(world.test_unseen.X))


# -- candidates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["all", "seen", "unseen"])
def test_candidates_by_word(fitted: ZeroShotClassifier, world: ZeroShotDataset, word: str) -> None:
    labels = {"all": np.unique(world.labels), "seen": world.seen, "unseen": world.unseen}[word]
    np.testing.assert_array_equal(fitted.candidates(word), labels)
    X = np.concatenate([world.test_seen.X, world.test_unseen.X])
    np.testing.assert_array_equal(fitted.decision_function(X, word), fitted.decision_function(X, labels))
    assert set(fitted.predict(X, word).tolist()) <= set(labels.tolist())


def test_zsl_predicts_unseen_and_gzsl_all_classes(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    X = np.concatenate([world.test_seen.X, world.test_unseen.X])
    zsl, gzsl = set(fitted.predict(X, "unseen").tolist()), set(fitted.predict(X).tolist())
    assert zsl == set(world.unseen.tolist())
    assert gzsl & set(world.unseen.tolist())
    assert gzsl & set(world.seen.tolist())
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict(X, "all"))


@pytest.mark.parametrize("word", ["all", "unseen", "few"])
def test_predictions_scores_and_probabilities_agree(fitted: ZeroShotClassifier, world: ZeroShotDataset, word: str) -> None:
    X = np.concatenate([world.test_seen.X, world.test_unseen.X])
    candidates = np.array([world.unseen[2], world.seen[7], world.unseen[0]]) if word == "few" else word
    labels = fitted.candidates(candidates)
    scores, p = fitted.decision_function(X, candidates), fitted.predict_proba(X, candidates)
    assert scores.shape == p.shape == (len(X), len(labels))
    np.testing.assert_array_equal(fitted.predict(X, candidates), labels[scores.argmax(axis=1)])
    np.testing.assert_array_equal(fitted.predict(X, candidates), labels[p.argmax(axis=1)])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    exponentials = np.exp(scores.astype(float) - scores.max(axis=1, keepdims=True))
    # Tiny probabilities underflow in single precision.
    np.testing.assert_allclose(p, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-30)


def test_columns_follow_order_of_candidates(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    mixed = np.random.default_rng(0).permutation(len(fitted.classes_))
    X = world.test_unseen.X
    found = fitted.decision_function(X, fitted.classes_[mixed])
    # The order of columns can change the order of summation: single precision, scores of magnitude up to about 20.
    np.testing.assert_allclose(found, fitted.decision_function(X)[:, mixed], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("candidates", "error", "message"),
    [
        ("unseeen", SettingsError, "all, seen, unseen; got 'unseeen'"),
        (["thing 000", "unicorn"], DataError, "'unicorn' has no semantic vector"),
        ([3], DataError, "'3' has no semantic vector"),
        (["thing 000", "thing 000"], DataError, "the candidate 'thing 000' is repeated"),
        ([], DataError, "no candidates"),
        (np.array([], dtype=str), DataError, "no candidates"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "predict_proba", "decision_function"])
def test_invalid_candidates_are_an_error(
    verb: str, candidates: Any, error: type[Exception], message: str, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    with pytest.raises(error, match=message):
        getattr(fitted, verb)(world.test_unseen.X, candidates)


def test_model_without_unseen_classes_has_no_unseen_candidates(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    model = clone(method).fit(world.train.X, world.train.y)
    with pytest.raises(DataError, match=r"no candidates .*\(unseen\)"):
        model.predict(world.test_unseen.X, "unseen")


def test_seen_penalty_is_subtracted_from_seen_classes_only(world: ZeroShotDataset) -> None:
    model = fit(QUICK["CVC"], world)
    before = model.decision_function(world.test_unseen.X).astype(float)
    after = model.set_params(seen_penalty=2.5).decision_function(world.test_unseen.X).astype(float)
    expected = np.where(np.isin(model.classes_, world.seen), 2.5, 0.0)
    np.testing.assert_allclose(before - after, np.broadcast_to(expected, before.shape), atol=1e-5)


# -- adding classes ----------------------------------------------------------------------------------------------------


def fit_without(label: str, method: ZeroShotClassifier, world: ZeroShotDataset) -> tuple[ZeroShotClassifier, str, np.ndarray]:
    """A model fitted without one unseen class, that class and its vector."""
    known = [other for other in world.classes.labels if other != label]
    return fit(method, world, world.classes.only(known)), label, world.classes.vectors_of([label])[0]


@pytest.fixture
def without_one(method: ZeroShotClassifier, world: ZeroShotDataset) -> tuple[ZeroShotClassifier, str, np.ndarray]:
    return fit_without(str(world.unseen[1]), method, world)


def test_added_class_is_recognised_without_training(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    among_unseen, among_all = [], []
    for unseen in world.unseen.tolist():
        model, label, vector = fit_without(unseen, method, world)
        images = world.test_unseen.X[world.test_unseen.y == label]
        with pytest.raises(DataError, match=label):
            model.predict(images, [label])
        assert model.add_classes({label: vector}) is model
        assert label in model.unseen_classes_
        among_unseen.append(np.mean(model.predict(images, "unseen") == label))
        among_all.append(np.mean(model.predict(images) == label))
    # Averaged over the unseen classes, because one class has only twelve images.
    assert np.mean(among_unseen) > 0.6  # chance is 0.2
    assert np.mean(among_all) > 0.3  # chance among all is 0.02


def test_added_class_has_the_scores_of_a_class_known_at_fit(
    without_one: tuple[ZeroShotClassifier, str, np.ndarray], fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    model, label, vector = without_one
    model.add_classes(ClassTable([label], [vector]))
    assert_same_scores(model, fitted, np.concatenate([world.test_unseen.X, world.test_seen.X]))


def test_class_that_is_replaced_has_the_scores_of_its_new_vector(
    without_one: tuple[ZeroShotClassifier, str, np.ndarray], fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    model, label, vector = without_one
    model.add_classes({label: np.abs(vector[::-1]) + 0.1}).remove_classes([label])
    model.add_classes({label: vector})
    assert_same_scores(model, fitted, world.test_unseen.X)


@pytest.mark.parametrize(
    ("added", "message"),
    [
        pytest.param({"thing 000": np.ones(12)}, "'thing 000' is already in", id="known"),
        pytest.param({"otter": np.ones(11)}, "vectors of length 12 .* got 11", id="too short"),
        pytest.param({"otter": np.ones(12), "seal": np.ones(13)}, r"lengths \[12, 13\]", id="of two lengths"),
        pytest.param({"otter": np.full(12, np.nan)}, "'otter'", id="nan"),
        pytest.param({"otter": np.full(12, -np.inf)}, "'otter'", id="infinite"),
        pytest.param({}, "empty", id="none"),
        pytest.param({"otter": np.zeros(12)}, "all zero", id="all zero"),
        pytest.param({7: np.ones(12)}, "one type for both", id="a number among names"),
    ],
)
def test_invalid_added_class_does_not_change_the_model(
    added: dict[Any, np.ndarray], message: str, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    model = copy.deepcopy(fitted)
    with pytest.raises(DataError, match=message):
        model.add_classes(added)
    assert_same_scores(model, fitted, world.test_unseen.X)


def test_adding_a_name_to_numeric_labels_is_an_error(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    names, numbers = np.unique(world.labels, return_inverse=True)
    table = ClassTable(np.arange(len(names)), world.classes.vectors_of(names))
    model = clone(method).fit(world.train.X, numbers[world.train_rows], table)
    with pytest.raises(DataError, match="one type for both"):
        model.add_classes({"otter": np.ones(12)})
    np.testing.assert_array_equal(model.unseen_classes_, np.unique(numbers[world.test_unseen_rows]))


# -- saving and loading ------------------------------------------------------------------------------------------------


def test_loaded_model_gives_the_same_scores(fitted: ZeroShotClassifier, world: ZeroShotDataset, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    for loaded in (load_model(tmp_path / "model"), type(fitted).load(tmp_path / "model")):
        assert type(loaded) is type(fitted)
        assert loaded.get_params() == fitted.get_params()
        assert loaded.table_.attribute_names == world.classes.attribute_names
        np.testing.assert_array_equal(loaded.seen_classes_, fitted.seen_classes_)
        assert_same_scores(loaded, fitted, world.test_unseen.X)


def test_added_classes_are_saved_and_classes_can_be_added_after_loading(
    fitted: ZeroShotClassifier, world: ZeroShotDataset, tmp_path: Path
) -> None:
    vectors = {"otter": np.arange(12.0), "seal": np.ones(12)}
    model = copy.deepcopy(fitted).add_classes(vectors)
    model.save(tmp_path / "with")
    assert_same_scores(load_model(tmp_path / "with"), model, world.test_unseen.X)
    fitted.save(tmp_path / "without")
    assert_same_scores(load_model(tmp_path / "without").add_classes(vectors), model, world.test_unseen.X)


def test_adapted_model_is_saved_with_its_classifiers(world: ZeroShotDataset, tmp_path: Path) -> None:
    model = fit(QUICK["CVC"], world).adapt(world.test_unseen.X, rounds=2, steps_per_round=20)
    model.add_classes({"otter": np.arange(12.0)})
    model.save(tmp_path / "model")
    assert_same_scores(load_model(tmp_path / "model"), model, np.concatenate([world.test_seen.X, world.test_unseen.X]))
    assert not np.allclose(model.classifiers_of(world.seen), fit(QUICK["CVC"], world).classifiers_of(world.seen))


@pytest.mark.parametrize("kind", [int, float, str])
def test_labels_keep_their_type_when_saved(kind: type, tmp_path: Path) -> None:
    X, y = np.eye(4, dtype=np.float32), np.array([kind(k) for k in (1, 2, 3, 4)])
    model = CVC(hidden=4, n_steps=5, device="cpu").fit(X, y)
    model.save(tmp_path / "model")
    answers = CVC.load(tmp_path / "model").predict(X)
    assert answers.dtype == model.predict(X).dtype == y.dtype
    np.testing.assert_array_equal(answers, model.predict(X))


def test_numpy_hyperparameters_can_be_saved(world: ZeroShotDataset, tmp_path: Path) -> None:
    """``GridSearchCV(..., {"hidden": np.array([32, 64])})`` sets numpy integers."""
    model = clone(QUICK["CVC"]).set_params(hidden=np.int64(16), learning_rate=np.float32(0.01), episodic=np.True_)
    fit(model, world).save(tmp_path / "model")
    assert CVC.load(tmp_path / "model").get_params()["hidden"] == 16


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_gpu_model_loads_without_a_gpu(world: ZeroShotDataset, tmp_path: Path) -> None:
    model = fit(QUICK["CVC"], world)
    model.device = "cuda"
    model.save(tmp_path / "model")
    loaded = CVC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(world.test_unseen.X), model.predict(world.test_unseen.X))


def test_model_of_an_unknown_method_is_an_error(fitted: ZeroShotClassifier, tmp_path: Path) -> None:
    later = type("Later", (type(fitted),), {"__module__": "sightunseen.methods.later"})
    fitted.save(tmp_path / "model")
    with pytest.raises(ModelError, match="not Later"):
        later.load(tmp_path / "model")
    model = copy.deepcopy(fitted)
    model.__class__ = later
    model.save(tmp_path / "later")
    with pytest.raises(ModelError, match=f"knows {', '.join(METHODS)}"):
        load_model(tmp_path / "later")


def test_model_folder_holds_only_json_and_safetensors(fitted: ZeroShotClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}
    assert (
        json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))["content"]["seen"] == fitted.seen_classes_.tolist()
    )


def test_saving_an_unfitted_model_is_an_error(method: ZeroShotClassifier, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        clone(method).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# -- types of features -------------------------------------------------------------------------------------------------


def as_memory_map(X: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "features.npy", X)
    return np.load(folder / "features.npy", mmap_mode="r")


FORMS = {
    "double": lambda X, _: X.astype(np.float64),
    "integer": lambda X, _: X.astype(np.int64),
    "Fortran": lambda X, _: np.asfortranarray(X),
    "every other column": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "memory-mapped": as_memory_map,
    "list": lambda X, _: X.tolist(),
    "Arrow table": lambda X, _: pyarrow.table({f"feature {k}": column for k, column in enumerate(X.T)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_type_of_features_does_not_matter(
    form: str, method: ZeroShotClassifier, world: ZeroShotDataset, tmp_path: Path
) -> None:
    train, test = (
        np.round(10 * world.train.X),
        np.round(10 * world.test_unseen.X),
    )  # integers, so that all types are exact
    plain = clone(method).fit(train, world.train.y, world.classes)
    (tmp_path / "train").mkdir()
    model = clone(method).fit(FORMS[form](train, tmp_path / "train"), world.train.y, world.classes)
    found = model.decision_function(FORMS[form](test, tmp_path))
    np.testing.assert_array_equal(model.predict(FORMS[form](test, tmp_path)), plain.predict(test))
    if form in ("Fortran", "Arrow table"):  # another memory layout can change the order of summation
        np.testing.assert_allclose(found, plain.decision_function(test), rtol=1e-5, atol=1e-4)
    else:
        np.testing.assert_array_equal(found, plain.decision_function(test))


def test_features_are_not_modified(method: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    train, test = world.train.X.copy(), world.test_unseen.X.copy()
    clone(method).fit(train, world.train.y, world.classes).predict(test)
    np.testing.assert_array_equal(train, world.train.X)
    np.testing.assert_array_equal(test, world.test_unseen.X)


def test_first_value_that_is_not_finite_is_named(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    X = np.resize(world.test_unseen.X, (2 * BLOCK + 9, world.test_unseen.X.shape[1]))
    X[BLOCK + 2, 3] = X[-1, 0] = np.nan
    for predict in (fitted.predict, fitted.decision_function, partial(fitted.predict_frame, output="pandas")):
        with pytest.raises(ValueError, match=f"NaN or infinite in row {BLOCK + 2}, column 3 "):
            predict(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_features_are_an_error(
    bad: float, method: ZeroShotClassifier, fitted: ZeroShotClassifier, world: ZeroShotDataset
) -> None:
    X = np.concatenate([world.train.X] * (BLOCK // len(world.train.X) + 1))  # the invalid row is in the second block
    X[-1, 3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted.predict(X)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(method).fit(X[-len(world.train.X) :], world.train.y, world.classes)


def test_predictions_do_not_depend_on_blocks_of_images(fitted: ZeroShotClassifier, world: ZeroShotDataset) -> None:
    X = np.concatenate([world.features] * (2 * BLOCK // len(world.features) + 1))
    assert len(X) > 2 * BLOCK
    scores, p, labels = fitted.decision_function(X), fitted.predict_proba(X), fitted.predict(X)
    assert len(scores) == len(p) == len(labels) == len(X)
    for row in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, len(X) - 1):
        alone = X[row : row + 1]
        np.testing.assert_allclose(fitted.decision_function(alone)[0], scores[row], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(fitted.predict_proba(alone)[0], p[row], rtol=1e-3, atol=1e-6)
        assert fitted.predict(alone)[0] == labels[row]


# -- explanations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_mean", [True, False], ids=["mean", "class"])
def test_attribute_contributions_sum_to_the_score_difference(
    fitted: ZeroShotClassifier, world: ZeroShotDataset, from_mean: bool
) -> None:
    X, (label, other) = world.test_unseen.X[:6], (world.unseen[1], world.unseen[0])
    before = fitted.decision_function(X)
    found = contributions(fitted, X, label, None if from_mean else other)
    assert found.values.shape == (6, 12)
    np.testing.assert_allclose(found.values.sum(axis=1), found.totals, rtol=1e-9, atol=1e-9)
    assert np.abs(found.values).max() > 0
    np.testing.assert_array_equal(fitted.decision_function(X), before)
    if not isinstance(fitted, GenerativeClassifier):  # whose classifiers depend on all classes
        start = world.classes.vectors_of(world.seen).mean(axis=0) if from_mean else world.classes.vectors_of([other])[0]
        extended = copy.deepcopy(fitted).add_classes({"end": world.classes.vectors_of([label])[0], "start": start})
        scores = extended.decision_function(X, ["end", "start"]).astype(np.float64)
        np.testing.assert_allclose(found.totals, scores[:, 0] - scores[:, 1], atol=1e-3 * np.abs(scores).max())


# -- hyperparameters of CVC --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output", "tanh"),
        ("similarity", "euclid"),
        ("initialisation", "xavier"),
        ("device", "tpu"),
        ("semantic_norm", "l2"),
        ("semantic_norm", 0),
        ("semantic_norm", -1.0),
        ("hidden", 0),
        ("n_steps", 0),
        ("classes_per_episode", 0),
        ("images_per_class", 0),
        ("learning_rate", -1e-3),
        ("learning_rate", float("nan")),
        ("weight_decay", -1.0),
        ("clip_norm", float("inf")),
        ("schedule", "linear"),
        ("schedule", "halve every 0"),
    ],
)
def test_invalid_hyperparameter_of_cvc_is_named(name: str, value: Any, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        fit(clone(QUICK["CVC"]).set_params(**{name: value}), world)
