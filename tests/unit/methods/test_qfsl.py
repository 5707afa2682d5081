"""QFSL: losses compared with explicit loops, and the effect of adapting."""

import math

import pytest
import torch

from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.qfsl import QFSL, EmbeddingTraining, QuasiFullySupervised, bias_loss
from sightunseen.methods.shared.networks import Perceptron


def literal_probabilities(scores: list[float]) -> list[float]:
    exponentials = [math.exp(score) for score in scores]
    return [value / sum(exponentials) for value in exponentials]


def test_bias_loss_is_negative_log_probability_of_unseen_classes() -> None:
    scores = 3 * torch.randn(6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = 0.0
    for row in scores.tolist():
        expected -= math.log(sum(literal_probabilities(row)[4:])) / 6
    assert float(bias_loss(scores, 4)) == pytest.approx(expected, rel=1e-12)


def test_bias_loss_of_saturated_scores_is_finite() -> None:
    scores = torch.tensor([[500.0, 0.0, -500.0], [-500.0, 0.0, 500.0]])
    assert float(bias_loss(scores, 1)) == pytest.approx(250)


@torch.no_grad()
def test_loss_is_cross_entropy_plus_weighted_bias_loss() -> None:
    rng = torch.Generator().manual_seed(0)
    network = Perceptron((4, 3), rng).double()
    vectors, seen, unlabelled = (torch.randn(n, d, generator=rng, dtype=torch.float64) for n, d in ((5, 3), (6, 4), (7, 4)))
    targets = torch.tensor([0, 1, 2, 2, 1, 0])
    objective = QuasiFullySupervised(EmbeddingTraining(network, vectors, seen, targets, 2, 0), unlabelled, 3, 3, 0.7)
    found = objective.loss({"rows": torch.tensor([4, 1]), "unlabelled": torch.tensor([6, 0, 6])})

    def probabilities(x: torch.Tensor) -> list[float]:
        embedded = network(x).tolist()
        return literal_probabilities([sum(e * a for e, a in zip(embedded, v, strict=True)) for v in vectors.tolist()])

    expected = sum(-math.log(probabilities(seen[row])[targets[row]]) for row in (4, 1)) / 2
    expected += 0.7 * sum(-math.log(sum(probabilities(unlabelled[row])[3:])) for row in (6, 0, 6)) / 3
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_adapt_raises_accuracy_of_unseen_classes_among_all() -> None:
    world = make_world(
        World(n_seen=40, n_unseen=5, n_attributes=12, n_features=32, images_per_class=12, private=0.3, noise=0.5)
    )
    model = QFSL(hidden=32, n_steps=100, learning_rate=1e-2, device="cpu").fit(world.train.X, world.train.y, world.classes)
    X, y = world.test_unseen.X, world.test_unseen.y
    adapted = model.adapt(X, n_steps=50, learning_rate=1e-2)
    unweighted = model.adapt(X, n_steps=50, learning_rate=1e-2, bias_weight=0.0)
    assert adapted.score(X, y) > max(model.score(X, y), unweighted.score(X, y)) + 0.1
    assert adapted.score(X, y, "unseen") > model.score(X, y, "unseen") - 0.05
    assert adapted.score(world.test_seen.X, world.test_seen.y) > 0.7  # chance is 0.02
