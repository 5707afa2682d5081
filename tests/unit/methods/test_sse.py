"""SSE, compared with explicit loops and a general quadratic programming solver."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.sse import SSE, IntersectionEmbedding, MixtureAlignment, nearest_mixtures, projected_on_simplex

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=12, n_unseen=4, n_attributes=6, n_features=10, images_per_class=10))


def some_embedding(n_classes: int = 5, n_features: int = 7) -> IntersectionEmbedding:
    embedding = IntersectionEmbedding(n_classes, n_features, scale=3.0).double()
    with torch.no_grad():
        embedding.prototypes.copy_(torch.as_tensor(RNG.normal(size=(n_classes, n_features))))
        embedding.weights.copy_(torch.as_tensor(RNG.uniform(-0.3, 1, n_features)))
        embedding.size.fill_(0.7)
    return embedding


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0])
def test_mixtures_solve_the_quadratic_program(penalty: float) -> None:
    corners, targets = RNG.uniform(size=(6, 4)), RNG.uniform(size=(5, 4))
    found = nearest_mixtures(targets, corners, penalty)
    for target, shares in zip(targets, found, strict=True):

        def objective(z: np.ndarray, target: np.ndarray = target) -> float:
            return float(np.sum((target - z @ corners) ** 2) / 2 + penalty / 2 * z @ z)

        one = {"type": "eq", "fun": lambda z: z.sum() - 1}
        options = {"ftol": 1e-14, "maxiter": 1000}
        best = optimize.minimize(
            objective, np.full(6, 1 / 6), method="SLSQP", bounds=[(0, 1)] * 6, constraints=[one], options=options
        )
        assert shares.sum() == pytest.approx(1, abs=1e-12)
        assert shares.min() >= 0
        assert objective(shares) == pytest.approx(best.fun, rel=1e-6)
        assert objective(shares) <= best.fun + 1e-9


def test_projection_is_the_nearest_point_of_the_simplex() -> None:
    points = RNG.normal(size=(8, 5)) * 3
    projected = projected_on_simplex(points)
    np.testing.assert_allclose(projected.sum(axis=1), 1)
    assert projected.min() >= 0
    # The projection p of q satisfies (q - p)'(z - p) <= 0 for each corner z of the simplex.
    for point, nearest in zip(points, projected, strict=True):
        assert ((np.eye(5) - nearest) @ (point - nearest)).max() < 1e-12


def test_small_penalty_gives_one_hot_and_large_penalty_uniform_mixtures(world: ZeroShotDataset) -> None:
    def mixtures(penalty: float) -> np.ndarray:
        model = SSE(mixture_penalty=penalty, n_steps=1, device="cpu").fit(world.train.X, world.train.y, world.classes)
        return model.mixtures_of(model.seen_classes_)

    np.testing.assert_allclose(mixtures(1e-4), np.eye(12), atol=0.01)
    np.testing.assert_allclose(mixtures(1e4), np.full((12, 12), 1 / 12), atol=1e-3)


def test_similarity_is_a_weighted_intersection() -> None:
    embedding, X = some_embedding(), RNG.normal(size=(4, 7))
    found = embedding(torch.as_tensor(X)).detach().numpy()
    weights, prototypes = embedding.weights.detach().numpy(), embedding.prototypes.detach().numpy()
    assert weights.min() < 0 < weights.max()
    for i in range(4):
        for s in range(5):
            literal = sum(max(weights[k], 0) * min(X[i, k] / 0.7, prototypes[s, k]) for k in range(7))
            assert found[i, s] == pytest.approx(3 / np.sqrt(7) * literal, rel=1e-10)


def test_signed_features_intersect_where_signs_agree() -> None:
    embedding = IntersectionEmbedding(1, 3, scale=3**0.5, signed=True)
    embedding.start_at(torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([0]))
    size = float(embedding.size)
    found = embedding(torch.tensor([[2.0, -0.5, -4.0], [-1.0, 1.0, 0.25]])).detach().numpy()[:, 0]
    np.testing.assert_allclose(found, [(1 + 0.5 + 0) / size, (0 + 0 + 0.25) / size], rtol=1e-5)


def test_sse_relu_with_negative_weights_ranks_as_sse_int() -> None:
    """For each image, the two scores differ by the same number for all classes."""
    x, prototypes, weights = RNG.normal(size=7), RNG.normal(size=(5, 7)), RNG.normal(size=7)
    mixtures = RNG.dirichlet(np.ones(5), size=3)
    intersection = mixtures @ np.minimum(x, prototypes) @ weights
    rectified = mixtures @ np.maximum(x - prototypes, 0) @ -weights
    np.testing.assert_allclose(np.ptp(intersection - rectified), 0, atol=1e-12)


def test_loss_is_hinge_of_images_plus_hinge_of_class_means_plus_penalties(stub_model: Any) -> None:
    embedding, X, targets = some_embedding(), RNG.normal(size=(20, 7)), np.repeat(np.arange(5), 4)
    mixtures, margins = RNG.dirichlet(np.ones(5), size=5), RNG.uniform(0.5, 2, (5, 5)) * (1 - np.eye(5))
    hyperparameters = {"classes_per_episode": 3, "images_per_class": 2, "alignment": 0.7}
    hyperparameters |= {"weight_penalty": 0.4, "prototype_penalty": 1.3, "embedding_": embedding}
    model = stub_model({"embedding": embedding}, torch.zeros(5, 3), **hyperparameters)
    objective = MixtureAlignment(model, torch.as_tensor(X), torch.as_tensor(targets))
    objective.mixtures, objective.margins = torch.as_tensor(mixtures), torch.as_tensor(margins)
    episode = {name: array[1] for name, array in objective.draw(4, 2).items()}
    classes, rows = episode["classes"].numpy(), episode["rows"].numpy().reshape(3, 2)
    assert classes.shape == (3,)
    np.testing.assert_array_equal(targets[rows], np.repeat(classes[:, None], 2, axis=1))

    def hinge(similarity: np.ndarray, y: int) -> float:
        scores = [float(z @ similarity) for z in mixtures]
        return max(margins[y, c] + scores[c] - scores[y] for c in range(5))

    similarity = embedding(torch.as_tensor(X)).detach().numpy()
    of_images = np.mean([hinge(similarity[row], y) for y, group in zip(classes, rows, strict=True) for row in group])
    of_classes = np.mean([hinge(similarity[group].mean(axis=0), y) for y, group in zip(classes, rows, strict=True)])
    w, v = embedding.weights.tolist(), embedding.prototypes.flatten().tolist()
    penalties = 0.4 / 2 * sum(x**2 for x in w) / len(w) + 1.3 / 2 * sum(x**2 for x in v) / len(v)
    assert penalties > 0.1
    assert objective.loss(episode).item() == pytest.approx(of_images + 0.7 * of_classes + penalties, rel=1e-10)
    parameters = [embedding.prototypes, embedding.weights]
    assert torch.autograd.gradcheck(lambda *_: objective.loss(episode), parameters, eps=1e-7, atol=1e-5)


def test_prototypes_start_at_class_means() -> None:
    X, targets = RNG.normal(size=(9, 4)), np.array([0, 1, 2, 0, 1, 2, 0, 0, 0])
    embedding = IntersectionEmbedding(3, 4, scale=1.0)
    embedding.start_at(torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(targets))
    means = np.stack([X[targets == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose((embedding.prototypes * embedding.size).detach().numpy(), means, rtol=1e-5, atol=1e-6)


def test_training_lowers_the_loss(world: ZeroShotDataset) -> None:
    trained, still = (
        SSE(n_steps=200, learning_rate=rate, device="cpu").fit(world.train.X, world.train.y, world.classes)
        for rate in (0.03, 0.0)
    )
    assert trained.losses_[-1]["loss"] < 0.8 * still.losses_[-1]["loss"]  # on the same episodes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mixture_penalty", 0),
        ("alignment", -1.0),
        ("weight_penalty", -0.1),
        ("prototype_penalty", "large"),
        ("initial_scale", 0),
        ("images_per_class", 0),
    ],
)
def test_invalid_hyperparameter_is_named(name: str, value: object, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        SSE(**{name: value}).fit(world.train.X, world.train.y, world.classes)
