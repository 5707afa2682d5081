"""Eq. 1: the generator f, which turns semantic vectors of classes into their classifiers."""

import math

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_choice

INITIALISATIONS = ("he", "normal")


class ClassifierGenerator(nn.Module):
    """W = f(A): FC-ReLU-FC-ReLU, from class vectors (c, a) to classifiers (c, d).

    Parameters
    ----------
    semantic_size, hidden, feature_size : a, the width between, d.
    rectify : whether the last ReLU is there. The paper's features are averages of ReLU outputs and so never negative;
        its classifiers live in the same orthant. Features with negative values need classifiers that can be negative.
    initialisation : ``he`` or ``normal`` (standard deviation 0.02, the authors' choice); biases start at zero.
    rng : the random numbers of the first weights.
    """

    def __init__(
        self, semantic_size: int, hidden: int, feature_size: int, rectify: bool, initialisation: str, rng: torch.Generator
    ) -> None:
        super().__init__()
        check_choice("initialisation", initialisation, INITIALISATIONS)
        self.rectify = rectify
        self.first = nn.Linear(semantic_size, hidden)
        self.second = nn.Linear(hidden, feature_size)
        for layer in (self.first, self.second):
            deviation = math.sqrt(2 / layer.in_features) if initialisation == "he" else 0.02
            nn.init.normal_(layer.weight, 0.0, deviation, generator=rng)
            nn.init.zeros_(layer.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """(c, a) -> (c, d)."""
        classifiers = self.second(torch.relu(self.first(vectors)))
        return torch.relu(classifiers) if self.rectify else classifiers
