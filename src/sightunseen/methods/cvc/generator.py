"""Classifier generator f (Eq. 1): a network from class vectors to classifiers."""

import math

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_choice

INITIALISATIONS = ("he", "normal")


class ClassifierGenerator(nn.Module):
    """FC-ReLU-FC-ReLU network from class vectors (c, a) to classifiers (c, d): W = f(A).

    Parameters
    ----------
    semantic_size : int
        Dimension of the class vectors (a).
    hidden : int
        Width of the hidden layer.
    feature_size : int
        Dimension of the features (d).
    rectify : bool
        Whether the output has a ReLU. The features of the paper are averages of ReLU outputs and therefore non-negative, and
        so are its classifiers. Features with negative values need classifiers with negative values.
    initialisation : {"he", "normal"}
        Distribution of the initial weights: He initialisation, or a normal distribution with standard deviation 0.02 as in the
        authors' code. Biases are initialised to zero.
    rng : torch.Generator
        Random generator of the initial weights.

    Raises
    ------
    SettingsError
        If the initialisation is unknown.

    Examples
    --------
    >>> generator = ClassifierGenerator(5, 16, 8, True, "he", torch.Generator().manual_seed(0))
    >>> generator(torch.ones(3, 5)).shape
    torch.Size([3, 8])
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
        """Generate classifiers (c, d) from class vectors (c, a)."""
        classifiers = self.second(torch.relu(self.first(vectors)))
        return torch.relu(classifiers) if self.rectify else classifiers
