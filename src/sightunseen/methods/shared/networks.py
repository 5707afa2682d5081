"""Fully connected networks whose first weights come from one seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice
from sightunseen.core.linear import Layer

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda values: values,
    "relu": torch.relu,
    "leaky relu": lambda values: functional.leaky_relu(values, 0.2),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


class Perceptron(nn.Module):
    """Fully connected layers of these sizes, first to last: ``(a, hidden, d)`` maps (..., a) to (..., d).

    Parameters
    ----------
    sizes : of the input, of every hidden layer and of the output.
    rng : the random numbers of the first weights, by He et al. (deviation sqrt(2 / inputs)); biases start at zero.
    activation, last : what follows every hidden layer, and the last one: a name of ``ACTIVATIONS``.
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
        self.layers = nn.ModuleList(layers)

    def forward(self, values: Tensor) -> Tensor:
        """(..., first size) -> (..., last size)."""
        *hidden, last = self.layers
        for layer in hidden:
            values = ACTIVATIONS[self.activation](layer(values))
        return ACTIVATIONS[self.last](last(values))


def as_layers(first: nn.Linear, last: nn.Linear, rectify: bool = False) -> tuple[Layer, Layer]:
    """A network FC-ReLU-FC in numpy; ``rectify`` says whether another ReLU ends it."""
    return _as_layer(first, True), _as_layer(last, rectify)


def _as_layer(layer: nn.Linear, rectify: bool) -> Layer:
    return Layer(layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy(), rectify)
