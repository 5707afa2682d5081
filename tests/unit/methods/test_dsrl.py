"""DSRL, compared with its objective written out and with general solvers."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.dsrl import DSRL, Alignment, Factorisation, descend


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=20, n_unseen=5, n_attributes=8, n_features=24, images_per_class=15, private=0.0, noise=0.5))


def test_codes_solve_non_negative_least_squares() -> None:
    rng = np.random.default_rng(0)
    components, X = rng.random((5, 12)), rng.random((7, 12))
    codes = descend(components @ components.T, components @ X.T, np.zeros((5, 7)), sweeps=3000)
    np.testing.assert_allclose(codes.T, [nnls(components.T, x)[0] for x in X], atol=1e-6)


def test_map_minimises_ridge_loss_over_labelled_images() -> None:
    rng = np.random.default_rng(1)
    vectors, targets, codes = rng.random((4, 3)), np.array([0, 0, 1, 2, 2, 2, 3]), rng.random((2, 7))
    alignment = Alignment(vectors, targets, 0.5)
    alignment.improve(codes)

    def loss(flat: np.ndarray) -> float:
        W, b = flat[:6].reshape(3, 2), flat[6:]
        each = sum(((codes[:, i] - vectors[targets[i]] @ W - b) ** 2).sum() for i in range(7))
        return each + alignment.penalty * (W**2).sum()

    best = minimize(loss, np.zeros(8), tol=1e-12).x
    np.testing.assert_allclose(alignment.map, best[:6].reshape(3, 2), atol=1e-5)
    np.testing.assert_allclose(alignment.predicted_codes().T, (vectors @ best[:6].reshape(3, 2) + best[6:])[targets], atol=1e-5)


@pytest.mark.parametrize("signed", [False, True])
def test_steps_lower_the_objective(signed: bool) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 9)) if signed else rng.random((40, 9))
    vectors, targets, initial = (
        rng.random((5, 3)),
        rng.integers(5, size=25),
        X[:6] / np.linalg.norm(X[:6], axis=1, keepdims=True),
    )
    targets[:5] = range(5)
    alignment = Alignment(vectors, targets, 0.3)
    factors, values = Factorisation(X, alignment, initial, weight=2.0, shrinkage=0.05), []
    for _ in range(20):
        Z, b = factors.codes.T, alignment.centre - alignment.vector_centre @ alignment.map
        value = 0.5 * ((X - Z @ factors.components) ** 2).sum() + 0.05 * Z.sum()
        for i, target in enumerate(targets):
            value += 2.0 / 2 * ((Z[i] - vectors[target] @ alignment.map - b) ** 2).sum()
        values.append(value + 2.0 / 2 * alignment.penalty * (alignment.map**2).sum())
        factors.step()
    assert (np.diff(values) < 1e-9).all()
    assert values[-1] < 0.9 * values[0]
    assert (factors.codes >= 0).all()
    assert (np.linalg.norm(factors.components, axis=1) < 1 + 1e-9).all()
    assert (factors.components < 0).any() == signed


def test_scores_are_cosines_of_codes_and_predicted_codes_around_the_mean_code(world: ZeroShotDataset) -> None:
    model = DSRL(components=6, steps=3).fit(world.train.X, world.train.y, world.classes)
    X, components = model._features(world.test_unseen.X[:4]).astype(np.float64), model.components_
    codes = []
    for x in X:

        def loss(z: np.ndarray, x: np.ndarray = x) -> float:
            return float(0.5 * ((x - z @ components) ** 2).sum() + model.shrinkage_ * z.sum())

        codes.append(minimize(loss, np.full(6, 0.1), bounds=[(0, None)] * 6, tol=1e-12).x - model.centre_)
    intercept = model.centre_ - model.vector_centre_ @ model.map_
    predicted = model._vectors_of(world.unseen) @ model.map_ + intercept - model.centre_
    expected = [[z @ p / np.linalg.norm(z) / np.linalg.norm(p) for p in predicted] for z in codes]
    np.testing.assert_allclose(model.decision_function(world.test_unseen.X[:4], world.unseen), expected, atol=1e-3)


def test_adapt_keeps_accuracy_and_is_saved(world: ZeroShotDataset, tmp_path: Path) -> None:
    X, y = world.test_unseen.X, world.test_unseen.y
    model = DSRL(components=20, steps=3).fit(world.train.X, world.train.y, world.classes)
    adapted = model.adapt(X, world.unseen[::-1], neighbours=5)
    assert adapted.score(X, y, "unseen") >= model.score(X, y, "unseen") - 0.05
    assert adapted.score(world.test_seen.X, world.test_seen.y, "seen") > 0.3  # chance is 0.05
    assert not np.allclose(adapted.components_, model.components_)
    adapted.add_classes({"a": np.arange(8.0)}).save(tmp_path / "model")
    assert adapted.decision_function(X, ["a"]).shape == (len(X), 1)
    np.testing.assert_array_equal(DSRL.load(tmp_path / "model").decision_function(X), adapted.decision_function(X))
    assert not np.allclose(model.adapt(X, propagation=0.0).decision_function(X), model.adapt(X).decision_function(X))


def test_propagation_reduces_within_class_variance_of_scores(world: ZeroShotDataset) -> None:
    X, y = world.test_unseen.X, world.test_unseen.y
    model = DSRL(components=20, steps=3).fit(world.train.X, world.train.y, world.classes)

    def spread(scores: np.ndarray) -> float:
        within = np.mean([scores[y == label].var(axis=0).sum() for label in world.unseen])
        return within / scores.var(axis=0).sum()

    without, with_it = (model.adapt(X, propagation=alpha, neighbours=5).decision_function(X, "unseen") for alpha in (0.0, 0.8))
    assert spread(with_it) < spread(without)


@pytest.mark.parametrize(
    ("name", "value"),
    [("components", 0), ("alignment", -1.0), ("sparsity", -0.1), ("semantic_penalty", 0), ("steps", 0), ("seed", -1)],
)
def test_invalid_hyperparameter_is_named(name: str, value: float, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        DSRL(**{name: value}).fit(world.train.X, world.train.y, world.classes)


@pytest.mark.parametrize(("name", "value"), [("propagation", 1.0), ("neighbours", 0), ("steps", 0)])
def test_invalid_hyperparameter_of_adapt_is_named(name: str, value: float, world: ZeroShotDataset) -> None:
    model = DSRL(components=5, steps=1).fit(world.train.X, world.train.y, world.classes)
    with pytest.raises(SettingsError, match=name):
        model.adapt(world.test_unseen.X, **{name: value})
