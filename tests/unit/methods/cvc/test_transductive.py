"""``CVC.adapt``: true labels do not affect training, the original model is unchanged, invalid input raises."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.cvc.transductive import Adaptation
from sightunseen.pipeline import AdaptationSpecification, adapt
from sightunseen.selection.evaluation import evaluate

QUICK = {"rounds": 3, "steps_per_round": 20, "best_per_class": 5}


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> CVC:
    settings = {"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "seen_penalty": 1.0, "device": "cpu"}
    return CVC(**settings).fit(small_world.train.X, small_world.train.y, small_world.classes)


def weights(model: CVC) -> dict[str, np.ndarray]:
    """All learned arrays of a model."""
    found = {f"generator.{name}": tensor.numpy().copy() for name, tensor in model.generator_.state_dict().items()}
    found["scale"] = model.score_.scale.detach().numpy().copy()
    if model.learned_classifiers_ is not None:
        found["learned"] = model.learned_classifiers_.numpy().copy()
    return found


def assert_same_weights(one: CVC, other: CVC) -> None:
    found, expected = weights(one), weights(other)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


# -- true labels do not affect training --------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["none", "shuffled", "all wrong", "unknown"])
def test_true_labels_do_not_change_weights(labels: str, model: CVC, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    given = {
        "none": None,
        "shuffled": np.random.default_rng(0).permutation(y),
        "all wrong": np.roll(small_world.unseen, 1)[np.searchsorted(small_world.unseen, y)],
        "unknown": np.full(len(y), "unicorn"),
    }[labels]
    correct, other = model.adapt(X, true_labels=y, **QUICK), model.adapt(X, true_labels=given, **QUICK)
    assert_same_weights(other, correct)
    np.testing.assert_array_equal(other.decision_function(X), correct.decision_function(X))
    assert other.losses_ == correct.losses_
    # Only the history depends on them.
    assert all(("pool_accuracy" in entry) == (given is not None) for entry in other.history_)
    if given is not None:
        assert [e["pool_accuracy"] for e in other.history_] != [e["pool_accuracy"] for e in correct.history_]


def test_labels_of_the_data_set_do_not_change_weights(model: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    rows = small_world.test_unseen_rows
    labels = small_world.labels.copy()
    labels[rows] = np.random.default_rng(0).permutation(labels[rows])
    mislabelled = replace(small_world, labels=labels)
    one, other = (
        adapt(AdaptationSpecification(parameters=QUICK, search={}), model, data, tmp_path)
        for data in (small_world, mislabelled)
    )
    assert_same_weights(one, other)
    assert one.record_.results != other.record_.results


# -- the original model ------------------------------------------------------------------------------------------------


def test_original_model_is_unchanged(model: CVC, small_world: ZeroShotDataset) -> None:
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    before, scores, losses = weights(model), model.decision_function(X), copy.deepcopy(model.losses_)
    adapted = model.adapt(small_world.test_unseen.X, **QUICK)
    assert not np.array_equal(adapted.decision_function(X), scores)
    for name, array in weights(model).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    assert model.learned_classifiers_ is None
    assert model.losses_ == losses
    assert model.seen_penalty == 1.0
    assert not hasattr(model, "history_")


def test_adapt_is_deterministic(model: CVC, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    assert_same_weights(model.adapt(X, **QUICK), model.adapt(X, **QUICK))


def test_seed_defaults_to_that_of_the_model(model: CVC, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    other = copy.deepcopy(model).set_params(seed=7)
    images = {"X_seen": small_world.train.X, "y_seen": small_world.train.y}
    assert_same_weights(model.adapt(X, seed=7, **QUICK), other.adapt(X, **images, **QUICK))
    assert not np.array_equal(
        model.adapt(X, **QUICK).classifiers_of("seen"), other.adapt(X, **images, **QUICK).classifiers_of("seen")
    )


def test_adapted_model_has_no_seen_class_bias(model: CVC, small_world: ZeroShotDataset) -> None:
    adapted = model.adapt(small_world.test_unseen.X, **QUICK)
    rows = adapted.classifiers_of("seen").astype(float)
    X = small_world.test_seen.X.astype(float)
    cosines = (X @ rows.T) / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(rows, axis=1))
    found = adapted.decision_function(small_world.test_seen.X, "seen")
    np.testing.assert_allclose(found, adapted.score_.scale.item() * cosines, rtol=1e-4, atol=1e-4)


def test_only_classifiers_of_seen_classes_are_stored(model: CVC, small_world: ZeroShotDataset) -> None:
    adapted = model.adapt(small_world.test_unseen.X, **QUICK)
    np.testing.assert_array_equal(adapted.classifiers_of(small_world.seen), adapted.learned_classifiers_.numpy())
    vectors = small_world.classes.vectors_of(small_world.unseen)
    vectors = vectors * np.sqrt(vectors.shape[1]) / np.linalg.norm(vectors, axis=1, keepdims=True)
    with torch.no_grad():
        generated = adapted.generator_(torch.tensor(vectors, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(adapted.classifiers_of(small_world.unseen), generated, rtol=1e-5, atol=1e-6)


def test_adapted_model_predicts_an_added_class(model: CVC, small_world: ZeroShotDataset) -> None:
    label = small_world.unseen[0]
    table = small_world.classes.only([other for other in small_world.classes.labels if other != label])
    start = clone(model).fit(small_world.train.X, small_world.train.y, table)
    others = small_world.test_unseen.y != label
    adapted = start.adapt(small_world.test_unseen.X[others], **QUICK)
    adapted.add_classes(small_world.classes.only([label]))
    assert np.mean(adapted.predict(small_world.test_unseen.X[~others], "unseen") == label) > 0.4  # chance is 0.25


# -- results -----------------------------------------------------------------------------------------------------------


def test_history_has_one_entry_per_round(model: CVC, small_world: ZeroShotDataset) -> None:
    adapted = model.adapt(small_world.test_unseen.X, true_labels=small_world.test_unseen.y, **QUICK)
    assert [entry["round"] for entry in adapted.history_] == [1, 2, 3]
    for entry in adapted.history_:
        assert set(entry) == {"round", "loss", "pool", "changed_labels", "pool_accuracy"}
        assert entry["loss"] > 0
        assert 0 < entry["pool"] <= len(small_world.test_unseen)
        assert 0 <= entry["pool_accuracy"] <= 1
    assert adapted.history_[0]["changed_labels"] == len(small_world.test_unseen)
    assert adapted.history_[1]["changed_labels"] < len(small_world.test_unseen)
    steps = np.diff([0, *(e["steps"] for e in adapted.losses_)])  # of a loss; the last of a round has fewer
    by_step = np.average([e["loss"] for e in adapted.losses_], weights=steps)
    np.testing.assert_allclose(np.mean([e["loss"] for e in adapted.history_]), by_step, rtol=1e-6)


def test_adapt_by_the_authors_rule(model: CVC, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    rule = {"peakiness": "magnitude", "threshold": 1.2, "best_per_class": 5, "concatenated": True}
    adapted = model.adapt(X, true_labels=y, **{**QUICK, **rule})
    once = model.adapt(X, true_labels=y, **{**QUICK, **rule, "concatenated": False})
    strict = model.adapt(X, true_labels=y, **{**QUICK, **rule, "threshold": 1e6})
    assert strict.history_[0]["pool"] == 5 * len(small_world.unseen)  # none passes the ratio test
    assert adapted.history_[0]["pool"] > once.history_[0]["pool"]
    assert not np.array_equal(adapted.decision_function(X), once.decision_function(X))


def test_pool_accuracy_is_the_accuracy_of_pseudo_labels(model: CVC, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    adapted = model.adapt(
        X, true_labels=y, rounds=1, steps_per_round=1, peakiness="probability", threshold=1.0, best_per_class=0
    )
    correct = [guess == truth for guess, truth in zip(model.predict(X, "unseen").tolist(), y.tolist(), strict=True)]
    assert adapted.history_[0]["pool"] == len(y)  # the largest score always exceeds the second largest
    assert adapted.history_[0]["pool_accuracy"] == pytest.approx(sum(correct) / len(correct), rel=1e-12)


def test_adapt_improves_accuracy_on_separable_classes(model: CVC, small_world: ZeroShotDataset) -> None:
    before = evaluate(clone(model).set_params(seen_penalty=0.0).fit(*_training(small_world)), small_world)
    after = evaluate(model.adapt(small_world.test_unseen.X), small_world)
    assert after.T1 > before.T1
    assert after.U > before.U
    assert after.H > before.H + 10


def _training(data: ZeroShotDataset) -> tuple[Any, Any, Any]:
    return data.train.X, data.train.y, data.classes


def test_difference_from_cross_entropy_grows_with_q(model: CVC, small_world: ZeroShotDataset) -> None:
    def scores(**loss: Any) -> np.ndarray:
        return model.adapt(small_world.test_unseen.X, **QUICK, **loss).decision_function(small_world.test_unseen.X)

    plain = scores(loss="xe")
    away = [np.abs(scores(loss="gxe", q=q) - plain).mean() for q in (1e-4, 0.1, 0.5, 1.0)]
    assert away[0] < 1e-2 * away[-1]
    assert away == sorted(away)


def test_candidates_may_be_a_subset_of_the_unseen_classes(model: CVC, small_world: ZeroShotDataset) -> None:
    two = small_world.unseen[[2, 0]]
    images = np.isin(small_world.test_unseen.y, two)
    y = small_world.test_unseen.y[images]
    adapted = model.adapt(small_world.test_unseen.X[images], two, true_labels=y, **QUICK)
    assert set(adapted.predict(small_world.test_unseen.X, "unseen").tolist()) <= set(small_world.unseen.tolist())
    assert adapted.score(small_world.test_unseen.X[images], y, two) > 0.6  # chance is 0.5
    assert adapted.history_[0]["pool_accuracy"] > 0.5


# -- invalid input -----------------------------------------------------------------------------------------------------


def test_loaded_model_requires_seen_images(model: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = CVC.load(tmp_path / "model")
    with pytest.raises(DataError, match=r"X_seen=data.train.X, y_seen=data.train.y"):
        loaded.adapt(small_world.test_unseen.X, **QUICK)
    images = {"X_seen": small_world.train.X, "y_seen": small_world.train.y}
    assert_same_weights(
        loaded.adapt(small_world.test_unseen.X, **images, **QUICK), model.adapt(small_world.test_unseen.X, **QUICK)
    )


@pytest.mark.parametrize("given", ["X_seen", "y_seen"])
def test_seen_images_and_labels_must_be_given_together(given: str, model: CVC, small_world: ZeroShotDataset) -> None:
    half = {"X_seen": small_world.train.X, "y_seen": small_world.train.y}[given]
    with pytest.raises(DataError, match="X_seen and y_seen together"):
        model.adapt(small_world.test_unseen.X, **{given: half}, **QUICK)


def test_seen_images_must_cover_exactly_the_seen_classes(model: CVC, small_world: ZeroShotDataset) -> None:
    some = small_world.train.y != small_world.seen[0]
    with pytest.raises(DataError, match="exactly the classes"):
        model.adapt(small_world.test_unseen.X, X_seen=small_world.train.X[some], y_seen=small_world.train.y[some], **QUICK)


@pytest.mark.parametrize("candidates", ["seen", "all", "one of each"])
def test_seen_candidates_raise(candidates: str, model: CVC, small_world: ZeroShotDataset) -> None:
    wanted = [small_world.unseen[0], small_world.seen[0]] if candidates == "one of each" else candidates
    with pytest.raises(DataError, match="some of the candidates are seen classes"):
        model.adapt(small_world.test_unseen.X, wanted, **QUICK)


@pytest.mark.parametrize("size", [1, 200])
def test_number_of_true_labels_must_match_the_images(size: int, model: CVC, small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="true_labels"):
        model.adapt(small_world.test_unseen.X, true_labels=np.resize(small_world.test_unseen.y, size), **QUICK)


@pytest.mark.parametrize("X", [np.full((3, 24), np.nan), np.ones((3, 23)), np.ones((0, 24))], ids=["nan", "width", "none"])
def test_unlabelled_images_are_validated(X: np.ndarray, model: CVC) -> None:
    with pytest.raises(ValueError, match=r"NaN|features|0 sample"):
        model.adapt(X, **QUICK)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 0),
        ("steps_per_round", 0),
        ("classes_per_episode", 0),
        ("images_per_class", 0),
        ("peakiness", "entropy"),
        ("concatenated", "both"),
        ("threshold", 0.99),
        ("threshold", float("nan")),
        ("best_per_class", -1),
        ("loss", "mae"),
        ("q", 0.0),
        ("q", -0.5),
        ("q", 1.01),
        ("q", float("nan")),
        ("learning_rate", -1e-3),
        ("learning_rate", float("nan")),
        ("schedule", "linear"),
        ("weight_decay", -1e-3),
        ("weight_decay", float("inf")),
        ("clip_norm", -1.0),
        ("clip_norm", float("nan")),
    ],
)
def test_invalid_hyperparameter_is_named(name: str, value: Any, model: CVC, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        Adaptation(**{name: value})
    with pytest.raises(SettingsError, match=name):
        model.adapt(small_world.test_unseen.X, **{**QUICK, name: value})
