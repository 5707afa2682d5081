"""Objective shared by the tests of the engines and of the loop."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Draw, Objective


class SmallObjective(Objective):
    """A tiny conditional classifier in double precision."""

    def __init__(self, device: str, round_size: int | None = 7, seed: int = 0) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.generator = ClassifierGenerator(5, 8, 6, True, "he", rng).double().to(device)
        self.score = Score("cosine", 10.0).double().to(device)
        self.vectors = torch.rand(4, 5, generator=rng, dtype=torch.float64).to(device)
        self.features = torch.rand(20, 6, generator=rng, dtype=torch.float64).to(device)
        super().__init__([*self.generator.parameters(), *self.score.parameters()])
        self.round_size = round_size

    def draw(self, first: int, n_steps: int) -> Draw:
        rngs = [np.random.default_rng(step) for step in range(first, first + n_steps)]
        drawn = {"rows": [rng.integers(0, 20, 9) for rng in rngs], "labels": [rng.integers(0, 4, 9) for rng in rngs]}
        return {name: torch.from_numpy(np.stack(array)).to(self.features.device) for name, array in drawn.items()}

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy(self.score(self.features[batch["rows"]], self.generator(self.vectors)), batch["labels"])
