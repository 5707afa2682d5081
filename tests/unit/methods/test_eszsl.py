"""Closed form of ESZSL: the gradient of the objective is zero, and nearby points have a higher objective."""

from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ESZSL


def objective(model: ESZSL, V: torch.Tensor, X: np.ndarray, y: np.ndarray) -> torch.Tensor:
    """Eq. 3, with relative penalties as documented."""
    X = torch.tensor(model.scaling_(X), dtype=torch.float64)
    S = torch.tensor(model._vectors_of(model.seen_classes_))
    Y = torch.full((len(X), len(S)), -1.0, dtype=torch.float64)
    for row, label in enumerate(y.tolist()):
        Y[row, model.seen_classes_.tolist().index(label)] = 1.0
    gamma = model.feature_penalty * (X**2).sum() / X.shape[1]
    lamda = model.semantic_penalty * (S**2).sum() / S.shape[1]
    error = ((X @ V @ S.T - Y) ** 2).sum()
    return error + gamma * ((V @ S.T) ** 2).sum() + lamda * ((X @ V) ** 2).sum() + gamma * lamda * (V**2).sum()


@pytest.mark.parametrize("hyperparameters", [{}, {"feature_penalty": 0.1, "semantic_penalty": 2.0, "feature_scaling": "none"}])
def test_gradient_is_zero_at_the_solution(small_world: ZeroShotDataset, hyperparameters: dict[str, float]) -> None:
    X, y = small_world.train.X, small_world.train.y
    model = ESZSL(**hyperparameters).fit(X, y, small_world.classes)
    V = torch.tensor(model.map_, requires_grad=True)
    value = objective(model, V, X, y)
    (gradient,) = torch.autograd.grad(value, V)
    elsewhere = torch.zeros_like(V, requires_grad=True)
    (at_zero,) = torch.autograd.grad(objective(model, elsewhere, X, y), elsewhere)
    assert gradient.norm() < 1e-6 * at_zero.norm()  # scaled images are in single precision
    nudged = V.detach() + 1e-3 * torch.randn(V.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert objective(model, nudged, X, y) > value


def test_scores_are_bilinear(small_world: ZeroShotDataset) -> None:
    model = ESZSL(feature_scaling="none").fit(small_world.train.X, small_world.train.y, small_world.classes)
    X, labels = small_world.test_unseen.X[:5], small_world.unseen
    vectors = small_world.classes.vectors_of(labels)
    vectors = vectors * np.sqrt(vectors.shape[1]) / np.linalg.norm(vectors, axis=1, keepdims=True)
    slow = [[sum(x[i] * model.map_[i] @ vector for i in range(len(x))) for vector in vectors] for x in X.astype(float)]
    np.testing.assert_allclose(model.decision_function(X, labels), slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["feature_penalty", "semantic_penalty"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "much"])
def test_penalty_must_be_positive(name: str, value: object, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        ESZSL(**{name: value}).fit(small_world.train.X, small_world.train.y, small_world.classes)


def test_fewer_images_than_features_match_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    X, y, vectors = rng.standard_normal((8, 40)).astype(np.float32), np.arange(8) % 3, rng.standard_normal((3, 5))
    model = ESZSL(0.2, 0.4, feature_scaling="none", semantic_norm=None).fit(X, y, ClassTable(np.arange(3), vectors))
    wide, Y = X.astype(np.float64), 2.0 * np.eye(3)[y] - 1
    left = wide.T @ wide + 0.2 * np.sum(wide**2) / 40 * np.eye(40)
    right = vectors.T @ vectors + 0.4 * np.sum(vectors**2) / 5 * np.eye(5)
    expected = np.linalg.inv(left) @ wide.T @ Y @ vectors @ np.linalg.inv(right)
    np.testing.assert_allclose(model.map_, expected, atol=1e-10)


def test_fit_sharing_equals_fit(small_world: ZeroShotDataset) -> None:
    shared: dict[str, Any] = {}
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    for chosen in (
        {},
        {"semantic_penalty": 3.0},
        {"feature_penalty": 1.0},
        {"feature_scaling": "unit"},
        {"semantic_norm": None},
    ):
        together = ESZSL(**chosen).fit_sharing(shared, X, y, classes)
        np.testing.assert_array_equal(together.map_, ESZSL(**chosen).fit(X, y, classes).map_)
    assert len(shared) == 6  # the moments, the scatters, and a solution for each
