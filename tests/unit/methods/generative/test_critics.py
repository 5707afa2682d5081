"""Losses of Wasserstein critics compared with autograd, and networks that are frozen for a while."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sightunseen.methods.generative.critics import critic_terms, initialised
from sightunseen.methods.shared.adversarial import frozen, gradient_penalty
from sightunseen.methods.shared.networks import Perceptron


def critic_and_points(n_vectors: int) -> tuple[Perceptron, dict[str, Tensor]]:
    """A critic of four features and ``n_vectors`` attributes with random weights and biases, and points for its loss."""
    rng = np.random.default_rng(0)
    critic = Perceptron((4 + n_vectors, 7, 1), torch.Generator().manual_seed(0), "leaky relu").double()
    for parameter in critic.parameters():
        parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape))
    shapes = {"real": (6, 4), "fake": (6, 4), "vectors": (6, n_vectors), "share": (6, 1)}
    return critic, {name: torch.from_numpy(rng.random(shape)) for name, shape in shapes.items()}


@pytest.mark.parametrize("n_vectors", [3, 0], ids=["conditional", "unconditional"])
def test_critic_terms_and_their_gradients_are_those_of_autograd(n_vectors: int) -> None:
    critic, points = critic_and_points(n_vectors)
    real, fake, vectors, share = points.values()

    def value(features: Tensor) -> Tensor:
        return critic(torch.cat([features, vectors], dim=1))

    parameters = list(critic.parameters())
    expected = value(real).mean() - value(fake).mean(), gradient_penalty(value, real, fake, share)
    for found, reference in zip(critic_terms(critic, real, fake, vectors, share), expected, strict=True):
        torch.testing.assert_close(found, reference)
        # The penalty does not depend on the biases.
        gradients = (torch.autograd.grad(term, parameters, materialize_grads=True) for term in (found, reference))
        torch.testing.assert_close(*gradients)


def test_frozen_network_passes_gradients_on() -> None:
    network, points = nn.Linear(3, 1), torch.ones(2, 3, requires_grad=True)
    with frozen(network):
        network(points).sum().backward()
    assert network.weight.grad is None
    torch.testing.assert_close(points.grad, network.weight.detach().expand(2, 3))
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_initial_weights_have_deviation_0_02() -> None:
    network = initialised(Perceptron((100, 200, 50), torch.Generator().manual_seed(0)), torch.Generator().manual_seed(1))
    assert [layer.weight.std().item() for layer in network.layers] == pytest.approx([0.02, 0.02], rel=0.03)
    assert not any(layer.bias.any() for layer in network.layers)
