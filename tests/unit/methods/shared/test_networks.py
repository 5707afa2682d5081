"""Perceptron: layers and initial weights; episodes."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import ModelEpisodeObjective


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("activation", "last"), [("relu", "linear"), ("tanh", "relu"), ("leaky relu", "tanh")])
def test_layers_are_affine_with_activation(activation: str, last: str) -> None:
    plain = {
        "linear": lambda v: v,
        "relu": lambda v: max(v, 0.0),
        "tanh": math.tanh,
        "leaky relu": lambda v: v if v > 0 else 0.2 * v,
    }
    network = Perceptron((3, 5, 4, 2), seeded(), activation, last).double()
    values = [0.3, -1.2, 2.0]
    found = network(torch.tensor(values, dtype=torch.float64)).tolist()
    for k, layer in enumerate(network.layers):
        weights, biases = layer.weight.tolist(), layer.bias.tolist()
        sums = [sum(w * v for w, v in zip(row, values, strict=True)) + b for row, b in zip(weights, biases, strict=True)]
        values = [plain[last if k == 2 else activation](v) for v in sums]
    assert found == pytest.approx(values, rel=1e-12)


def test_initial_weights_depend_only_on_the_seed_and_have_he_deviation() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (Perceptron((400, 300, 10), seeded(seed)) for seed in (0, 0, 1))
    torch.manual_seed(5)
    assert all(
        torch.equal(a, b) for a, b in zip(one.parameters(), Perceptron((400, 300, 10), seeded()).parameters(), strict=True)
    )
    torch.random.set_rng_state(before)
    assert torch.equal(one.layers[0].weight, same.layers[0].weight)
    assert not torch.equal(one.layers[0].weight, other.layers[0].weight)
    assert float(one.layers[0].weight.detach().std()) == pytest.approx(math.sqrt(2 / 400), rel=0.02)
    assert not any(layer.bias.any() for layer in one.layers)


def test_unknown_activation_is_named() -> None:
    with pytest.raises(SettingsError, match="activation"):
        Perceptron((2, 2), seeded(), "swish")


def test_episode_groups_images_by_class(stub_model: Any) -> None:
    targets = torch.arange(60) % 6
    networks = {"embedding": Perceptron((2, 3), seeded())}
    model = stub_model(networks, torch.zeros(6, 2), classes_per_episode=4, images_per_class=3)
    objective = ModelEpisodeObjective(model, torch.zeros(60, 3), targets)
    drawn = objective.draw(5, 7)
    assert drawn["classes"].shape == (7, 4)
    for classes, rows, labels in zip(drawn["classes"], drawn["rows"], drawn["labels"], strict=True):
        assert len(set(classes.tolist())) == 4
        assert len(set(rows.tolist())) == 12
        np.testing.assert_array_equal(targets[rows], classes[labels])
    again = objective.draw(8, 2)  # episodes 8 and 9 are the fourth and fifth of those above
    assert all(torch.equal(again[name], drawn[name][3:5]) for name in drawn)


def test_dropout_factors_drop_a_share_and_keep_the_mean() -> None:
    network = Perceptron((40, 60, 2), seeded())
    first, second = network.dropout_factors(0.25, seed=3, step=torch.tensor(7), n_rows=500)
    assert (first.shape, second.shape) == ((500, 40), (500, 60))
    for factors in (first, second):
        assert set(factors.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        assert factors.mean().item() == pytest.approx(1, abs=0.02)
    again, _ = network.dropout_factors(0.25, seed=3, step=torch.tensor(7), n_rows=500)
    assert torch.equal(first, again)
    assert len(network.dropout_factors(0.0, seed=3, step=torch.tensor(7), n_rows=500)) == 0
