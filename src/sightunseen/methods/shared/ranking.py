"""Scores x' W s learned by ranking: an image's own class must stand a margin above every other (ALE, DEVISE, SJE, LATEM).

The losses are functions of the scores (n, c) and of the columns (n,) the images belong to, as means over images. Every wrong
class is looked at, where the papers' stochastic gradient samples some of them.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.shared.objectives import BatchObjective


def violations(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """By how much each wrong class comes too close to the right one: max(0, margin + F(x, y) - F(x, y_n)), (n, c)."""
    right = targets.unsqueeze(-1)
    hinges = torch.relu(margin + scores - scores.gather(-1, right))
    return hinges.scatter(-1, right, 0.0)


def summed_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """The mean over images of the sum of all violations (DEVISE, Eq. 1)."""
    return violations(scores, targets, margin).sum(dim=-1).mean()


def structured_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """The mean over images of the largest violation (SJE)."""
    return violations(scores, targets, margin).amax(dim=-1).mean()


def weighted_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """The mean over images of l_r / r times the sum of violations, for r of them and l_r = 1 + 1/2 + ... + 1/r (ALE).

    An image of rank r costs about l_r: ranks near the top count for more than their number.
    """
    found = violations(scores, targets, margin)
    ranks = (found > 0).sum(dim=-1)  # (n,)
    steps = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    weights = torch.cumsum(1 / steps, dim=0) / steps  # l_r / r at place r - 1
    return (weights[(ranks - 1).clamp(min=0)] * found.sum(dim=-1)).mean()


class CompatibilityMap(nn.Module):
    """F(x, y) = x' W s_y, from zero: nothing is known of a direction before an image tells."""

    def __init__(self, n_features: int, n_attributes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, n_attributes))

    def forward(self, features: Tensor, vectors: Tensor) -> Tensor:
        """Features (n, d) and class vectors (c, a) -> scores (n, c)."""
        return features @ self.weight @ vectors.T


class RankingTraining(BatchObjective):
    """Mini-batches of all images, each ranked among all seen classes by ``model.ranking_loss``."""

    def __init__(self, model: "RankingClassifier", features: Tensor, places: Tensor) -> None:
        seed = derive_seed(model.seed, "batches")
        super().__init__(model._trained_parameters(), features, places, model.batch_size, seed)
        self.model, self.network = model, model.networks_["map"]
        self.vectors = model._vectors_on_device(model.seen_classes_)  # (s, a)

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """How far the batch is from being ranked."""
        rows = task["rows"]
        scores = self.network(self.features.index_select(0, rows), self.vectors)  # (b, s)
        return self.model.ranking_loss(scores, self.places[rows])


class RankingClassifier(GradientTrainedClassifier):
    """A method fills in :meth:`ranking_loss`, and may bring another map."""

    search_space = {"learning_rate": (2e-4, 5e-4, 2e-3)}

    def __init__(
        self,
        margin: float = 1.0,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 1000,
        batch_size: int = 64,
        learning_rate: float = 5e-4,
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.margin = margin
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The loss of scores (n, c) of images whose classes stand at the columns ``targets``, (n,)."""
        raise NotImplementedError

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_number("margin", self.margin, 0)
        check_whole("batch_size", self.batch_size, 1)

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images in the space of class vectors, x' W, and the class vectors: (n, a), (c, a)."""
        network = self.networks_["map"]
        if not isinstance(network, CompatibilityMap):  # LATEM's several maps are several spaces
            return super().compared(X, labels)
        images = self._features(X) @ network.weight.detach().cpu().numpy()
        return images, self._vectors_of(self.candidates(labels)).astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """One layer: w = W s."""
        network = self.networks_["map"]
        if not isinstance(network, CompatibilityMap):  # the best of LATEM's several maps is not linear
            return super().classifier_map()
        return ClassifierMap((Layer(network.weight.detach().cpu().numpy()),))

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        return {"map": CompatibilityMap(int(self.n_features_in_), self.table_.vectors.shape[1])}

    def _objective(self, X: Tensor, places: Tensor) -> RankingTraining:
        return RankingTraining(self, X, places)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.networks_["map"](X, prepared)
        return scores
