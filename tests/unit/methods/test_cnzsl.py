"""CN-ZSL: class normalisation, initial variances and loss, compared with explicit loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods.cnzsl import CNZSL, SMALLEST_VARIANCE, PrototypeNetwork, PrototypeTraining, class_normalised


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def literal_normalisation(values: list[list[float]], n_seen: int, power: float = 0.5) -> list[list[float]]:
    found = [[0.0] * len(values[0]) for _ in values]
    for column in range(len(values[0])):
        seen = [values[k][column] for k in range(n_seen)]
        mean = sum(seen) / n_seen
        divisor = (sum((value - mean) ** 2 for value in seen) / n_seen + SMALLEST_VARIANCE) ** power
        for k in range(len(values)):
            found[k][column] = (values[k][column] - mean) / divisor
    return found


@pytest.mark.parametrize("n_seen", [1, 2, 5, 7])
def test_class_normalisation_uses_statistics_of_seen_classes(n_seen: int) -> None:
    values = 3 * torch.randn(7, 4, generator=rng(), dtype=torch.float64) + 2
    found = class_normalised(values, n_seen)
    np.testing.assert_allclose(found.numpy(), literal_normalisation(values.tolist(), n_seen), rtol=1e-10)
    by_variance = class_normalised(values, n_seen, "variance")
    np.testing.assert_allclose(by_variance.numpy(), literal_normalisation(values.tolist(), n_seen, 1.0), rtol=1e-10)


@torch.no_grad()
def test_loss_matches_explicit_loops(stub_model: Any) -> None:
    network = PrototypeNetwork(3, 6, 4, rng()).double()
    network.least.fill_(0.0)
    vectors, X = torch.rand(5, 3, generator=rng(1), dtype=torch.float64), torch.rand(8, 4, generator=rng(2)).double()
    targets, rows = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2]), torch.tensor([7, 0, 3, 3])
    model = stub_model({"prototypes": network}, vectors, scale=3.0, batch_size=4)
    found = PrototypeTraining(model, X, targets).loss({"rows": rows})

    def layer(linear: torch.nn.Linear, inputs: list[list[float]]) -> list[list[float]]:
        pairs = list(zip(linear.weight.tolist(), linear.bias.tolist(), strict=True))
        return [[sum(w * v for w, v in zip(weights, row, strict=True)) + bias for weights, bias in pairs] for row in inputs]

    def rectified(inputs: list[list[float]]) -> list[list[float]]:
        return [[max(value, 0.0) for value in row] for row in inputs]

    values = layer(network.second, rectified(layer(network.first, vectors.tolist())))
    values = literal_normalisation(rectified(literal_normalisation(values, 5)), 5)
    prototypes = rectified(layer(network.last, values))
    total = 0.0
    for row in rows.tolist():
        x = X[row].tolist()
        cosines = [sum(a * b for a, b in zip(x, p, strict=True)) / math.hypot(*x) / math.hypot(*p) for p in prototypes]
        exponentials = [math.exp(9.0 * cosine) for cosine in cosines]
        total -= math.log(exponentials[targets[row]] / sum(exponentials))
    assert float(found) == pytest.approx(total / 4, rel=1e-10)


@torch.no_grad()
def test_initial_scores_have_the_variance_of_the_features() -> None:
    """Eq. 10: products of features of variance v with initial prototypes have variance v; He initialisation gives about d v."""
    semantic_size, hidden, feature_size = 40, 300, 500
    network = PrototypeNetwork(semantic_size, hidden, feature_size, rng())
    prototypes = network(torch.randn(100, semantic_size, generator=rng(1)), 100)
    features = 1.7 * torch.randn(400, feature_size, generator=rng(2))
    assert float((features @ prototypes.T).var()) == pytest.approx(1.7**2, rel=0.1)
    assert float(prototypes.square().sum(dim=1).mean()) == pytest.approx(1, rel=0.1)


def test_prototypes_are_non_negative_if_features_are(small_world: ZeroShotDataset) -> None:
    quick = {"hidden": 16, "n_steps": 20, "device": "cpu"}
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    for features, rectified in ((X, True), (X - 1, False)):
        model = CNZSL(**quick).fit(features, y, classes)
        prototypes = model._prepare(model.classes_).detach()
        assert (float(prototypes.min()) >= 0) == rectified


def test_score_does_not_depend_on_other_candidates(small_world: ZeroShotDataset) -> None:
    model = CNZSL(hidden=16, n_steps=20, device="cpu").fit(small_world.train.X, small_world.train.y, small_world.classes)
    X, one = small_world.test_unseen.X, small_world.unseen[1]
    among_all = model.decision_function(X, "all")[:, list(model.classes_).index(one)]
    np.testing.assert_allclose(model.decision_function(X, [one])[:, 0], among_all, rtol=1e-4, atol=1e-4)


def test_divisor_is_used_in_training_and_prediction(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    scores = []
    for divisor in ("deviation", "variance"):
        model = CNZSL(hidden=16, divisor=divisor, n_steps=5, device="cpu").fit(*images)
        network = model.networks_["prototypes"]
        assert isinstance(network, PrototypeNetwork)
        assert network.divisor == divisor
        scores.append(model.decision_function(small_world.test_unseen.X))
    assert not np.allclose(*scores)


def test_unknown_divisor_is_named(small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="divisor"):
        CNZSL(divisor="range").fit(small_world.train.X, small_world.train.y, small_world.classes)
