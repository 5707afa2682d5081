"""SSE against literal loops and a generic solver of quadratic programmes."""

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
def test_mixtures_solve_the_quadratic_programme(penalty: float) -> None:
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


def test_no_point_of_the_simplex_is_nearer_than_the_projection() -> None:
    points = RNG.normal(size=(8, 5)) * 3
    projected = projected_on_simplex(points)
    np.testing.assert_allclose(projected.sum(axis=1), 1)
    assert projected.min() >= 0
    # The projection p of q makes (q - p)'(z - p) <= 0 for every corner z of the simplex.
    for point, nearest in zip(points, projected, strict=True):
        assert ((np.eye(5) - nearest) @ (point - nearest)).max() < 1e-12


def test_a_light_penalty_leaves_a_seen_class_to_itself_and_a_heavy_one_mixes_all(world: ZeroShotDataset) -> None:
    def mixtures(penalty: float) -> np.ndarray:
        model = SSE(mixture_penalty=penalty, n_steps=1, device="cpu").fit(world.train.X, world.train.y, world.classes)
        return model.mixtures_of(model.seen_classes_)

    np.testing.assert_allclose(mixtures(1e-4), np.eye(12), atol=0.01)
    np.testing.assert_allclose(mixtures(1e4), np.full((12, 12), 1 / 12), atol=1e-3)


def test_likeness_is_a_weighted_intersection() -> None:
    embedding, X = some_embedding(), RNG.normal(size=(4, 7))
    found = embedding(torch.as_tensor(X)).detach().numpy()
    weights, prototypes = embedding.weights.detach().numpy(), embedding.prototypes.detach().numpy()
    assert weights.min() < 0 < weights.max()
    for i in range(4):
        for s in range(5):
            literal = sum(max(weights[k], 0) * min(X[i, k] / 0.7, prototypes[s, k]) for k in range(7))
            assert found[i, s] == pytest.approx(3 / np.sqrt(7) * literal, rel=1e-10)


def test_signed_features_share_what_has_the_same_sign() -> None:
    embedding = IntersectionEmbedding(1, 3, scale=3**0.5, signed=True)
    embedding.start_at(torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([0]))
    size = float(embedding.size)
    found = embedding(torch.tensor([[2.0, -0.5, -4.0], [-1.0, 1.0, 0.25]])).detach().numpy()[:, 0]
    np.testing.assert_allclose(found, [(1 + 0.5 + 0) / size, (0 + 0 + 0.25) / size], rtol=1e-5)


def test_rectified_differences_rank_the_classes_alike_with_the_opposite_weights() -> None:
    """SSE-ReLU is SSE-INT: for each image the scores of all classes differ by the same number."""
    x, prototypes, weights = RNG.normal(size=7), RNG.normal(size=(5, 7)), RNG.normal(size=7)
    mixtures = RNG.dirichlet(np.ones(5), size=3)
    intersection = mixtures @ np.minimum(x, prototypes) @ weights
    rectified = mixtures @ np.maximum(x - prototypes, 0) @ -weights
    np.testing.assert_allclose(np.ptp(intersection - rectified), 0, atol=1e-12)


def test_the_loss_is_the_hinge_of_images_and_of_mean_embeddings() -> None:
    embedding, X, places = some_embedding(), RNG.normal(size=(20, 7)), np.repeat(np.arange(5), 4)
    mixtures, margins = RNG.dirichlet(np.ones(5), size=5), RNG.uniform(0.5, 2, (5, 5)) * (1 - np.eye(5))
    tensors = (torch.as_tensor(array) for array in (mixtures, margins, X, places))
    objective = MixtureAlignment(embedding, *tensors, (3, 2), alignment=0.7, seed=0)
    tasks = objective.draw(4, 2)
    task = {name: array[1] for name, array in tasks.items()}
    classes, rows = task["classes"].numpy(), task["rows"].numpy()
    assert classes.shape == (3,)
    np.testing.assert_array_equal(places[rows], np.repeat(classes[:, None], 2, axis=1))

    def hinge(likeness: np.ndarray, y: int) -> float:
        scores = [float(z @ likeness) for z in mixtures]
        return max(margins[y, c] + scores[c] - scores[y] for c in range(5))

    likeness = embedding(torch.as_tensor(X)).detach().numpy()
    of_images = np.mean([hinge(likeness[row], y) for y, group in zip(classes, rows, strict=True) for row in group])
    of_classes = np.mean([hinge(likeness[group].mean(axis=0), y) for y, group in zip(classes, rows, strict=True)])
    assert objective.loss(task).item() == pytest.approx(of_images + 0.7 * of_classes, rel=1e-10)
    parameters = [embedding.prototypes, embedding.weights]
    assert torch.autograd.gradcheck(lambda *_: objective.loss(task), parameters, eps=1e-7, atol=1e-5)


def test_training_starts_at_the_class_means() -> None:
    X, places = RNG.normal(size=(9, 4)), np.array([0, 1, 2, 0, 1, 2, 0, 0, 0])
    embedding = IntersectionEmbedding(3, 4, scale=1.0)
    embedding.start_at(torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(places))
    means = np.stack([X[places == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose((embedding.prototypes * embedding.size).detach().numpy(), means, rtol=1e-5, atol=1e-6)


def test_training_lowers_the_loss(world: ZeroShotDataset) -> None:
    trained, still = (
        SSE(n_steps=200, learning_rate=rate, device="cpu").fit(world.train.X, world.train.y, world.classes)
        for rate in (0.03, 0.0)
    )
    assert trained.losses_[-1]["loss"] < 0.8 * still.losses_[-1]["loss"]  # of the same tasks


@pytest.mark.parametrize(
    ("name", "value"), [("mixture_penalty", 0), ("alignment", -1.0), ("initial_scale", 0), ("images_per_class", 0)]
)
def test_a_bad_setting_is_named(name: str, value: object, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        SSE(**{name: value}).fit(world.train.X, world.train.y, world.classes)
