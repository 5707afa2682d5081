"""SAE: closed form compared with a general solver and with its loss, scores compared with explicit cosines."""

from typing import Any

import numpy as np
import pytest
from scipy import linalg

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.span import Span
from sightunseen.methods.sae import SAE, SylvesterEquation


def images_and_vectors(data: ZeroShotDataset) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and S (n, a), the class vectors of the images."""
    return data.train.X.astype(np.float64), data.classes.vectors_of(data.train.y)


def equation(X: np.ndarray, S: np.ndarray) -> SylvesterEquation:
    """The equation of images (n, d) with class vectors (n, a) of their own."""
    span = Span.of(X)
    coordinates = Scatter(span.X, np.ones(len(X)), (np.zeros((span.X.shape[1],) * 2),))
    return SylvesterEquation.of(S, coordinates, span)


def absolute_weight(X: np.ndarray, S: np.ndarray, encoder_weight: float) -> float:
    return encoder_weight * np.mean(S**2) / np.mean(X**2)


@pytest.mark.parametrize("encoder_weight", [0.01, 1.0, 100.0])
def test_map_solves_the_sylvester_equation(small_world: ZeroShotDataset, encoder_weight: float) -> None:
    X, S = images_and_vectors(small_world)
    model = SAE(encoder_weight, feature_scaling="none", semantic_norm=None)
    model.fit(small_world.train.X, small_world.train.y, small_world.classes)
    weight = absolute_weight(X, S, encoder_weight)
    expected = linalg.solve_sylvester(S.T @ S, weight * X.T @ X, (1 + weight) * S.T @ X)
    np.testing.assert_allclose(model.map_, expected, rtol=1e-6, atol=1e-8 * abs(expected).max())


def test_map_minimises_the_loss(small_world: ZeroShotDataset) -> None:
    X, S = images_and_vectors(small_world)
    weight, rng = absolute_weight(X, S, 0.3), np.random.default_rng(0)

    def loss(W: np.ndarray) -> float:
        return float(np.sum((X - S @ W) ** 2) + weight * np.sum((X @ W.T - S) ** 2))

    W = equation(X, S).solve(0.3)
    for _ in range(20):
        step = rng.standard_normal(W.shape)
        step *= 1e-3 * np.linalg.norm(W) / np.linalg.norm(step)
        assert loss(W) < min(loss(W + step), loss(W - step))
        # At a stationary point the difference is the rounding error of the loss.
        assert abs(loss(W + step) - loss(W - step)) < 1e-9 * loss(W)


def test_singular_system_has_a_solution() -> None:
    rng = np.random.default_rng(0)
    X, S = rng.standard_normal((6, 9)), rng.standard_normal((6, 8))
    W = equation(X, S).solve(0.5)
    weight = absolute_weight(X, S, 0.5)
    np.testing.assert_allclose(S.T @ S @ W + weight * W @ X.T @ X, (1 + weight) * S.T @ X, atol=1e-8)


def test_scores_are_cosines_in_both_spaces(small_world: ZeroShotDataset) -> None:
    X, labels = small_world.test_unseen.X[:5], small_world.unseen
    vectors = small_world.classes.vectors_of(labels)
    for space in ("semantic", "feature"):
        model = SAE(space=space, feature_scaling="none", semantic_norm=None)
        model.fit(small_world.train.X, small_world.train.y, small_world.classes)
        scores = model.decision_function(X, labels)
        for i, x in enumerate(X.astype(np.float64)):
            for k, vector in enumerate(vectors):
                one, other = (model.map_ @ x, vector) if space == "semantic" else (x, vector @ model.map_)
                cosine = one @ other / np.sqrt((one @ one) * (other @ other))
                assert scores[i, k] == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize(("name", "value"), [("encoder_weight", 0.0), ("space", "both")])
def test_invalid_hyperparameter_is_named(name: str, value: object, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        SAE(**{name: value}).fit(small_world.train.X, small_world.train.y, small_world.classes)


@pytest.mark.parametrize("n_features", [12, 60])
def test_fewer_images_than_features_match_the_kronecker_system(n_features: int) -> None:
    """The minimum-norm solution of the equation as one linear system for all entries of W."""
    rng = np.random.default_rng(0)
    X, S = rng.standard_normal((6, n_features)), rng.standard_normal((6, 4))
    weight = absolute_weight(X, S, 0.5)
    system = np.kron(S.T @ S, np.eye(n_features)) + np.kron(np.eye(4), weight * X.T @ X)
    expected = np.linalg.lstsq(system, ((1 + weight) * S.T @ X).ravel(), rcond=1e-10)[0].reshape(4, n_features)
    found = equation(X, S).solve(0.5)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_fit_sharing_equals_fit(small_world: ZeroShotDataset) -> None:
    shared: dict[str, Any] = {}
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    for chosen in ({}, {"encoder_weight": 3.0}, {"feature_scaling": "unit"}, {"semantic_norm": None}, {"space": "semantic"}):
        together = SAE(**chosen).fit_sharing(shared, X, y, classes)
        np.testing.assert_array_equal(together.map_, SAE(**chosen).fit(X, y, classes).map_)
    assert sum(isinstance(value, SylvesterEquation) for value in shared.values()) == 3
