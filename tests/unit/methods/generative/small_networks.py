"""A small world and networks by hand, for tests of VAE-GANs."""

import numpy as np
import torch
from torch import nn

from sightunseen.core.class_table import ClassTable
from sightunseen.training import Objective

SIZES = {
    "hidden": 5,
    "latent_size": 2,
    "batch_size": 6,
    "critic_steps": 2,
    "n_steps": 3,
    "classifier_steps": 3,
    "device": "cpu",
}


def small_world() -> tuple[np.ndarray, np.ndarray, ClassTable]:
    """Nine images of three seen classes, with four features and three attributes; the class d is unseen."""
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 4)).astype(np.float32), np.repeat(["a", "b", "c"], 3)
    return X, y, ClassTable(["a", "b", "c", "d"], rng.random((4, 3)))


def in_double_precision(networks: dict[str, nn.Module]) -> None:
    """Replace all weights by standard normal ones in double precision."""
    rng = np.random.default_rng(1)
    for network in networks.values():
        network.double()
        for parameter in network.parameters():
            parameter.data = torch.from_numpy(0.5 * rng.standard_normal(parameter.shape))


def updated_in_turns(objective: Objective, networks: dict[str, nn.Module], n_steps: int) -> list[set[str]]:
    """Names of the networks with a gradient in each of the first steps."""
    batches, found = objective.draw(0, n_steps), []
    for k in range(n_steps):
        for network in networks.values():
            network.zero_grad(set_to_none=True)
        objective.loss_in_turn({name: array[k] for name, array in batches.items()}, k % objective.turns).backward()
        found.append({name for name, network in networks.items() if any(p.grad is not None for p in network.parameters())})
    return found


def perceptron(network: nn.Module, values: np.ndarray) -> np.ndarray:
    """Output of a network with leaky ReLUs between its layers, one vector at a time, without the last activation."""
    *hidden, last = ((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in network.layers)
    for weight, bias in hidden:
        values = weight @ values + bias
        values = np.where(values > 0, values, 0.2 * values)
    return last[0] @ values + last[1]


def critic_loss_by_differences(
    critic: nn.Module, real: np.ndarray, fake: np.ndarray, share: np.ndarray, penalty: float, vectors: np.ndarray | None = None
) -> float:
    """Loss of a critic, image by image, with slopes by finite differences."""
    vectors = np.zeros((len(real), 0)) if vectors is None else vectors
    losses = []
    for x, other, weight, s in zip(real, fake, share, vectors, strict=True):

        def value(point: np.ndarray, s: np.ndarray = s) -> float:
            return float(perceptron(critic, np.concatenate([point, s]))[0])

        between = weight * x + (1 - weight) * other
        slopes = [(value(between + step) - value(between - step)) / 2e-6 for step in 1e-6 * np.eye(len(x))]
        losses.append(value(other) - value(x) + penalty * (np.linalg.norm(slopes) - 1) ** 2)
    return float(np.mean(losses))
