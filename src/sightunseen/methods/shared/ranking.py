"""Bilinear scores x' W s trained with ranking losses (ALE, DEVISE, SJE, LATEM).

The losses are functions of scores (n, c) and class indices (n,), and means over images. They include all wrong classes, where
the papers' stochastic gradient descent samples some of them.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.limits import SIZE
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.objectives import ModelBatchObjective


def violations(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """Compute the margin violations max(0, margin + F(x, y) - F(x, y_n)) of all wrong classes.

    Parameters
    ----------
    scores : Tensor of shape (n, c)
        Scores.
    targets : Tensor of shape (n,)
        Indices of the images' classes.
    margin : float
        Margin.

    Returns
    -------
    Tensor of shape (n, c)
        Violations; zero for the images' own classes.
    """
    right = targets.unsqueeze(-1)
    hinges = torch.relu(margin + scores - scores.gather(-1, right))
    return hinges.scatter(-1, right, 0.0)


def summed_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """Compute the mean over images of the sum of violations (DEVISE, Eq. 1)."""
    return violations(scores, targets, margin).sum(dim=-1).mean()


def structured_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """Compute the mean over images of the largest violation (SJE)."""
    return violations(scores, targets, margin).amax(dim=-1).mean()


def weighted_ranking(scores: Tensor, targets: Tensor, margin: float) -> Tensor:
    """Compute the weighted approximate ranking loss (ALE).

    It is the mean over images of l_r / r times the sum of violations, where r is their number and l_r = 1 + 1/2 + ... + 1/r, so
    that violations near the top of the ranking weigh more.
    """
    found = violations(scores, targets, margin)
    ranks = (found > 0).sum(dim=-1)  # (n,)
    steps = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    weights = torch.cumsum(1 / steps, dim=0) / steps  # l_r / r at index r - 1
    return (weights[(ranks - 1).clamp(min=0)] * found.sum(dim=-1)).mean()


class CompatibilityMap(nn.Module):
    """Bilinear compatibility F(x, y) = x' W s_y, with initial weights of zero.

    Parameters
    ----------
    n_features, n_attributes : int
        d and a.
    """

    def __init__(self, n_features: int, n_attributes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, n_attributes))

    def forward(self, features: Tensor, vectors: Tensor) -> Tensor:
        """Score features (n, d) against class vectors (c, a): (n, c)."""
        return features @ self.weight @ vectors.T


class RankingTraining(ModelBatchObjective):
    """Ranking loss of mini-batches among all seen classes."""

    model: "RankingClassifier"

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the ranking loss of a mini-batch."""
        rows = batch["rows"]
        scores = self.model.networks_["map"](self.features.index_select(0, rows), self.vectors)  # (b, s)
        return self.model.ranking_loss(scores, self.targets[rows])


class RankingClassifier(GradientTrainedClassifier):
    """Base class of methods with bilinear scores and a ranking loss. A subclass implements :meth:`ranking_loss`.

    Parameters
    ----------
    margin : float, default=1.0
        Margin by which the score of an image's own class must exceed all other scores.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=1000
        Number of gradient steps.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=5e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
        L2 penalty of Adam, added to the gradient.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training and prediction; ``"auto"`` uses a GPU if there is one.

    Attributes
    ----------
    networks_ : dict
        ``"map"`` holds the parameter ``weight``, W.
    """

    search_space = {"learning_rate": (2e-4, 5e-4, 2e-3)}
    # The margin is not searched: with Adam and no weight decay, twice the margin is the same as half the learning rate.
    presets = {
        FULL: Preset({"n_steps": 20_000}, search={"learning_rate": (5e-5, 2e-4), "weight_decay": (0.0, 1e-2, 3e-2)}),
    }

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
        """Compute the ranking loss.

        Parameters
        ----------
        scores : Tensor of shape (n, c)
            Scores.
        targets : Tensor of shape (n,)
            Indices of the images' classes.

        Returns
        -------
        Tensor of shape ()
            The loss.
        """
        raise NotImplementedError

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_number("margin", self.margin, 0)
        check_whole("batch_size", self.batch_size, 1, SIZE)

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return the joint embedding space: images x' W and class vectors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of labels, {"all", "seen", "unseen"} or None
            The classes; None stands for all.

        Returns
        -------
        images : ndarray of shape (n, a)
            Projected images.
        classes : ndarray of shape (c, a)
            Scaled class vectors.

        Raises
        ------
        SettingsError
            If the scores are not bilinear (LATEM; ALE after ``adapt``).
        """
        if not self._is_bilinear:
            return super().compared(X, labels)
        return self._features(X) @ self._weight(), self._vectors_of(self.candidates(labels)).astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """Return one layer, w = W s.

        Raises
        ------
        SettingsError
            If the scores are not bilinear (LATEM; ALE after ``adapt``).
        """
        return ClassifierMap((Layer(self._weight()),)) if self._is_bilinear else super().classifier_map()

    @property
    def _is_bilinear(self) -> bool:
        """Whether scores are x' W s with one matrix W."""
        return True

    def _weight(self) -> Floats:
        """W, (d, a)."""
        return np.asarray(self.networks_["map"].get_parameter("weight").detach().cpu().numpy())

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        return {"map": CompatibilityMap(int(self.n_features_in_), self.table_.vectors.shape[1])}

    def _objective(self, X: Tensor, targets: Tensor) -> RankingTraining:
        return RankingTraining(self, X, targets)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.networks_["map"](X, prepared)
        return scores
