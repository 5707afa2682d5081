"""LATEM: latent embeddings for zero-shot classification (Xian, Akata, Sharma, Nguyen, Hein & Schiele, CVPR 2016)."""

import math

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_whole
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.ranking import RankingClassifier, summed_ranking

INITIAL_SCORE = 0.01


class LATEM(RankingClassifier):
    """Latent embeddings (LATEM): the maximum of K bilinear scores, with a hinge ranking loss.

    The score is F(x, y) = max_i x' W_i s_y over K matrices W_i. The loss of an image is the sum of max(0, margin + F(x_n, y) -
    F(x_n, y_n)) over the wrong classes.

    Differs from the paper: K is 2 or 4 as chosen on validation classes, the first of the paper's two ways, and never
    pruned; the loss includes all wrong classes instead of a sample, and is minimised by Adam on mini-batches instead of plain
    stochastic gradient descent.

    Parameters
    ----------
    n_maps : int, default=2
        Number K of matrices.
    margin : float, default=1.0
        Margin by which the score of an image's own class must exceed all other scores.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=500
        Number of gradient steps.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=3e-3
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
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    networks_ : dict
        ``"map"`` holds the parameter ``weight`` of shape (d, K, a).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import LATEM
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = LATEM(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"n_maps": (2, 4)}
    presets = {
        FULL: Preset({"n_steps": 20_000, "learning_rate": 1e-4}, search={"n_maps": (2, 4), "weight_decay": (0.0, 1e-2, 3e-2)})
    }
    version = 2
    _is_bilinear = False  # the maximum over maps is not linear

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
        """Compute the ranking loss; see :func:`~sightunseen.methods.shared.ranking.summed_ranking`."""
        return summed_ranking(scores, targets, self.margin)

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("n_maps", self.n_maps, 1, SIZE)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        return {"map": LatentMaps(self.n_maps, int(self.n_features_in_), self.table_.vectors.shape[1], rng)}


class LatentMaps(nn.Module):
    """The matrices W_1 to W_K. Their initial weights are random, because equal matrices would stay equal.

    Parameters
    ----------
    n_maps, n_features, n_attributes : int
        K, d and a.
    rng : torch.Generator
        Random numbers of the initial weights.
    """

    def __init__(self, n_maps: int, n_features: int, n_attributes: int, rng: torch.Generator) -> None:
        super().__init__()
        initial = torch.randn(n_features, n_maps, n_attributes, generator=rng)
        # Initial scores of unit features and vectors of length sqrt(a) are about a hundredth of a margin of one.
        self.weight = nn.Parameter(initial * INITIAL_SCORE / math.sqrt(n_attributes))

    def forward(self, features: Tensor, vectors: Tensor) -> Tensor:
        """Score features (n, d) against class vectors (c, a): (n, c)."""
        projected = torch.einsum("nd,dka->nka", features, self.weight)
        return (projected @ vectors.T).amax(dim=1)  # (n, k, c) -> (n, c)
