"""QFSL: transductive unbiased embedding for zero-shot learning (Song, Shen, Yang, Liu & Song, CVPR 2018)."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_adaptable import GradientAdaptableClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective
from sightunseen.training import Draw, Objective, Optimisation
from sightunseen.training.episodes import draw_batches


class QFSL(GradientAdaptableClassifier):
    """Quasi-fully supervised learning (QFSL): a network from images to class vectors, adapted against the seen-class bias.

    Scores are inner products f(x)' s with class vectors of equal norm. :meth:`fit` minimises the cross-entropy of seen images
    over the seen classes. :meth:`adapt` continues with the quasi-fully supervised loss: with the softmax p over seen and unseen
    classes, the cross-entropy of seen images plus ``bias_weight`` times the bias loss -ln sum_{unseen k} p_k of unlabelled
    images. Its hyperparameters are ``bias_weight``, ``n_steps``, ``learning_rate``, ``batch_size`` and
    ``unlabelled_batch_size``.

    Differs from the paper: image features are fixed and only f, with a hidden layer, is trained by Adam, whereas the authors
    fine-tune the whole network, so that their numbers are not comparable; :meth:`fit` trains on seen classes alone first.

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layer; 0 stands for a linear map.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default=10.0
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=400
        Number of gradient steps.
    batch_size : int, default=128
        Number of images per mini-batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=1e-4
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
        ``"embedding"`` (f).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import QFSL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = QFSL(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    >>> model.adapt(data.test_unseen.X, n_steps=20).is_adapted
    True
    """

    search_space = {"weight_decay": (1e-5, 1e-4, 1e-3)}
    adaptation_space = {"bias_weight": (0.3, 0.6, 1.0)}
    presets = {FULL: Preset({"hidden": 1024, "n_steps": 10_000}, adaptation={"n_steps": 2_000})}
    version = 2

    def __init__(
        self,
        hidden: int = 512,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 10.0,
        n_steps: int = 400,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-4,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
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

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("hidden", self.hidden, 0, SIZE)
        check_whole("batch_size", self.batch_size, 1, SIZE)

    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        between = (self.hidden,) if self.hidden else ()
        return {"embedding": Perceptron((int(self.n_features_in_), *between, self.table_.vectors.shape[1]), rng)}

    def _objective(self, X: Tensor, targets: Tensor) -> Objective:
        vectors = self._vectors_on_device(self.seen_classes_)
        return EmbeddingTraining(self.networks_["embedding"], vectors, X, targets, self.batch_size, self.seed)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.networks_["embedding"](X) @ prepared.T
        return scores

    def _adaptation(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        true_indices: NDArray[np.int64] | None,
        *,
        bias_weight: float = 1.0,
        n_steps: int = 300,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        unlabelled_batch_size: int = 128,
    ) -> tuple[Objective, Optimisation]:
        """Prepare training with the quasi-fully supervised loss.

        Parameters
        ----------
        bias_weight : float, default=1.0
            Weight of the bias loss.
        n_steps : int, default=300
            Number of gradient steps.
        learning_rate : float, default=0.001
            Learning rate of Adam.
        batch_size : int, default=128
            Number of seen images per mini-batch.
        unlabelled_batch_size : int, default=128
            Number of unlabelled images per mini-batch.
        """
        check_number("bias_weight", bias_weight, 0)
        for name, value in {"batch_size": batch_size, "unlabelled_batch_size": unlabelled_batch_size}.items():
            check_whole(name, value, 1)
        objective = QuasiFullySupervised(
            EmbeddingTraining(
                self.networks_["embedding"],
                torch.cat([self._vectors_on_device(self.seen_classes_), self._vectors_on_device(unseen)]),
                self._on_device(X_seen),
                self._indices(self.seen_classes_, y_seen),
                batch_size,
                derive_seed(self.seed, "adapting"),
            ),
            self._on_device(X),
            len(self.seen_classes_),
            unlabelled_batch_size,
            bias_weight,
        )
        return objective, Optimisation(n_steps, learning_rate, self.schedule, self.weight_decay)


class EmbeddingTraining(BatchObjective):
    """Cross-entropy of mini-batches over class vectors.

    Parameters
    ----------
    network : torch.nn.Module
        The trained network f.
    vectors : Tensor of shape (c, a)
        Vectors of the classes; those of the images' classes come first.
    X : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes.
    batch_size : int
        Number of images per mini-batch.
    seed : int
        Seed of the mini-batches.
    """

    def __init__(
        self,
        network: nn.Module,
        vectors: Tensor,
        X: Tensor,
        targets: Tensor,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(list(network.parameters()), X, targets, batch_size, seed)
        self.network, self.vectors = network, vectors

    def loss(self, batch: Draw) -> Tensor:
        """Compute the mean of -ln p(y | x)."""
        rows = batch["rows"]
        return cross_entropy(self.network(self.features[rows]) @ self.vectors.T, self.targets[rows])


class QuasiFullySupervised(Objective):
    """The quasi-fully supervised loss (Eq. 3).

    The softmax of seen images is over all classes, too: over seen classes alone, nothing would keep them from unseen classes.

    Parameters
    ----------
    seen : EmbeddingTraining
        Loss of the labelled images, over the vectors of seen, then unseen classes.
    X : Tensor of shape (m, d)
        Features of the unlabelled images.
    n_seen : int
        Number of seen classes.
    batch_size : int
        Number of unlabelled images per mini-batch.
    bias_weight : float
        Weight of the bias loss.
    """

    def __init__(self, seen: EmbeddingTraining, X: Tensor, n_seen: int, batch_size: int, bias_weight: float) -> None:
        super().__init__(seen.parameters)
        self.seen, self.features, self.n_seen = seen, X, n_seen
        self.batch_size, self.bias_weight = batch_size, bias_weight

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw rows of seen and of unlabelled images."""
        seed = derive_seed(self.seen.seed, "unlabelled")
        unlabelled = draw_batches(len(self.features), first, n_steps, self.batch_size, seed, self.features.device)
        return {**self.seen.draw(first, n_steps), "unlabelled": unlabelled}

    def loss(self, batch: Draw) -> Tensor:
        """Compute the cross-entropy plus the weighted bias loss."""
        scores = self.seen.network(self.features[batch["unlabelled"]]) @ self.seen.vectors.T  # (m, s + u)
        return self.seen.loss(batch) + self.bias_weight * bias_loss(scores, self.n_seen)


def bias_loss(scores: Tensor, n_seen: int) -> Tensor:
    """Compute the mean of -ln sum of p over the unseen classes.

    Parameters
    ----------
    scores : Tensor of shape (n, s + u)
        Scores; the columns of the seen classes come first.
    n_seen : int
        Number s of seen classes.

    Returns
    -------
    Tensor of shape ()
        The loss.
    """
    return -functional.log_softmax(scores, dim=1)[:, n_seen:].logsumexp(dim=1).mean()
