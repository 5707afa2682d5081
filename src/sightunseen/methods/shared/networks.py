"""Fully connected networks with reproducible initial weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice
from sightunseen.core.linear import Layer

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda values: values,
    "relu": torch.relu,
    "leaky relu": lambda values: functional.leaky_relu(values, 0.2),
    "tanh": torch.tanh,
}


class Perceptron(nn.Module):
    """Multi-layer perceptron with He initialisation: ``sizes=(a, hidden, d)`` maps (..., a) to (..., d).

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the input, the hidden layers and the output.
    rng : torch.Generator
        Random numbers of the initial weights, with deviation sqrt(2 / inputs); biases start at zero.
    activation : str, default="relu"
        Activation of the hidden layers, a key of ``ACTIVATIONS``.
    last : str, default="linear"
        Activation of the last layer, a key of ``ACTIVATIONS``.

    Raises
    ------
    SettingsError
        If an activation is unknown.
    """

    def __init__(self, sizes: Sequence[int], rng: torch.Generator, activation: str = "relu", last: str = "linear") -> None:
        super().__init__()
        check_choice("activation", activation, tuple(ACTIVATIONS))
        check_choice("last", last, tuple(ACTIVATIONS))
        self.activation, self.last = activation, last
        layers = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)]
        for layer in layers:
            nn.init.normal_(layer.weight, 0.0, math.sqrt(2 / layer.in_features), generator=rng)
            nn.init.zeros_(layer.bias)
        self.layers = cast("Sequence[nn.Linear]", nn.ModuleList(layers))

    def forward(self, values: Tensor) -> Tensor:
        """Map (..., first size) to (..., last size)."""
        *hidden, last = self.layers
        for layer in hidden:
            values = ACTIVATIONS[self.activation](layer(values))
        return ACTIVATIONS[self.last](last(values))


def as_layers(first: nn.Linear, last: nn.Linear, rectify: bool = False) -> tuple[Layer, Layer]:
    """Convert a network FC-ReLU-FC to numpy.

    Parameters
    ----------
    first, last : torch.nn.Linear
        The two layers.
    rectify : bool, default=False
        Whether a ReLU follows the last layer.

    Returns
    -------
    tuple of Layer
        The layers.
    """
    return _as_layer(first, True), _as_layer(last, rectify)


def _as_layer(layer: nn.Linear, rectify: bool) -> Layer:
    return Layer(layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy(), rectify)
