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
from sightunseen.core.randomness import derive_seed
from sightunseen.training.episodes import draw_uniform

LEAK = 0.2  # negative slope of the leaky ReLU
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda values: values,
    "relu": torch.relu,
    "leaky relu": lambda values: functional.leaky_relu(values, LEAK),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "unit": lambda values: functional.normalize(values, dim=-1),
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

    def forward(self, values: Tensor, factors: Sequence[Tensor | float] = ()) -> Tensor:
        """Map (..., first size) to (..., last size); the input of each layer is multiplied by its factors, if there are any."""
        *hidden, last = self.layers
        multiply = iter(factors)
        for layer in hidden:
            values = ACTIVATIONS[self.activation](layer(values * next(multiply) if factors else values))
        return ACTIVATIONS[self.last](last(values * next(multiply) if factors else values))

    def dropout_factors(self, rate: float, seed: int, step: Tensor, n_rows: int) -> Sequence[Tensor]:
        """Draw the factors of dropout on the inputs of all layers.

        Parameters
        ----------
        rate : float
            Probability that a value is dropped, below 1; the others are divided by 1 - rate.
        seed : int
            Random seed.
        step : Tensor of shape ()
            Number of the training step.
        n_rows : int
            Number of inputs n.

        Returns
        -------
        sequence of Tensor of shape (n, inputs of the layer)
            Factors for :meth:`forward`; none if the rate is zero.
        """
        if not rate:
            return ()
        sizes = [layer.in_features for layer in self.layers]
        kept = draw_uniform(derive_seed(seed, "dropout"), step, (n_rows, sum(sizes))) >= rate
        return torch.split_with_sizes(kept / (1 - rate), sizes, dim=1)


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
