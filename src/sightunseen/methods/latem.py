"""LATEM: latent embeddings for zero-shot classification (Xian, Akata, Sharma, Nguyen, Hein & Schiele, CVPR 2016)."""

import math

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_whole
from sightunseen.methods.shared.ranking import RankingClassifier, summed_ranking

FIRST_SCORE = 0.01


class LATEM(RankingClassifier):
    """F(x, y) = max_i x' W_i s_y: of K linear maps, every pair of image and class has the one that suits it best.

    The loss is the sum of max(0, margin + F(x_n, y) - F(x_n, y_n)) over the wrong classes, a mean over images. The
    number of maps is one to choose on validation classes, the first of the paper's two ways; it may also prune rare maps.

    Parameters
    ----------
    n_maps : K.
    margin : by how much the right class must win.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, batch_size : mini-batches, and the images in each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"n_maps": (2, 4)}

    def __init__(
        self,
        n_maps: int = 2,
        margin: float = 1.0,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 500,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(
            margin=margin,
            feature_scaling=feature_scaling,
            semantic_norm=semantic_norm,
            n_steps=n_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            weight_decay=weight_decay,
            seen_penalty=seen_penalty,
            seed=seed,
            device=device,
        )
        self.n_maps = n_maps

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The ranking loss, over all wrong classes."""
        return summed_ranking(scores, targets, self.margin)

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_whole("n_maps", self.n_maps, 1)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        return {"map": LatentMaps(self.n_maps, int(self.n_features_in_), self.table_.vectors.shape[1], rng)}


class LatentMaps(nn.Module):
    """The maps W_1 to W_K, at first random: equal ones would stay equal."""

    def __init__(self, n_maps: int, n_features: int, n_attributes: int, rng: torch.Generator) -> None:
        super().__init__()
        first = torch.randn(n_features, n_maps, n_attributes, generator=rng)
        # Scores of unit features and vectors of length sqrt(a) start at about a hundredth of a margin of one.
        self.weight = nn.Parameter(first * FIRST_SCORE / math.sqrt(n_attributes))

    def forward(self, features: Tensor, vectors: Tensor) -> Tensor:
        """Features (n, d) and class vectors (c, a) -> scores (n, c)."""
        projected = torch.einsum("nd,dka->nka", features, self.weight)
        return (projected @ vectors.T).amax(dim=1)  # (n, k, c) -> (n, c)
