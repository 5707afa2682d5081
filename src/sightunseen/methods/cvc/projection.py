"""Projection: the baselines of the CVC ablation (Li, Min & Fu, ICCV 2019, Table 2) with other joint embedding spaces."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining, check_episodic_settings
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.cvc.presets import ABLATION_PRESETS
from sightunseen.methods.cvc.scores import Score
from sightunseen.methods.shared.networks import Perceptron

SPACES = ("attributes", "between")
OUTPUTS = ("relu", "linear")


class Projection(GradientTrainedClassifier):
    """Project images out of the feature space; episodes, loss and scores are those of :class:`CVC`.

    Differs from the paper: no ReLU after the last layer, which validation classes prefer.

    Parameters
    ----------
    space : {"attributes", "between"}, default="attributes"
        Joint embedding space. ``"attributes"`` (V→A): a network maps images to the space of class vectors. ``"between"``
        (V→I←A): two networks map images and class vectors to a space of half the feature dimension.
    hidden : int, default=1600
        Width of the hidden layers.
    output : {"linear", "relu"}, default="linear"
        Activation of the networks' outputs. ``"relu"`` is that of the paper's generator; ``"linear"`` has the higher accuracy
        on validation classes of CUB.
    similarity : {"cosine", "dot"}, default="cosine"
        Similarity in the joint embedding space.
    initial_scale : float, default=30.0
        Initial value of the learnable scale of the cosine (σ).
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="none"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        Norm that class vectors are scaled to; ``"sqrt"`` is the square root of their dimension, None leaves them unscaled.
    n_steps : int, default=2000
        Number of gradient steps, that is of episodes.
    classes_per_episode : int, default=32
        Classes per episode (M); all seen classes if there are fewer.
    images_per_class : int, default=4
        Images per class of an episode (N).
    episodic : bool, default=True
        False trains on mini-batches of M * N images over all seen classes, for the ablation.
    learning_rate : float, default=1e-3
        Initial learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning rate schedule; see :class:`~sightunseen.training.Optimisation`.
    weight_decay : float, default=1e-4
        L2 penalty.
    clip_norm : float, default=1.0
        Largest norm of the gradient; None: no clipping.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes. Select it on
        validation classes, never on test data.
    seed : int, default=0
        Seed of all random numbers.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction.

    Attributes
    ----------
    score_ : Score
        Score function with its learned scale.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World(n_seen=8, n_unseen=3, n_attributes=6, images_per_class=5))
    >>> model = Projection(hidden=16, n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> images, classes = model.compared(data.test_unseen.X, "unseen")
    >>> classes.shape
    (3, 6)
    """

    search_space = {"initial_scale": (30.0, 50.0)}
    unit_variance = True
    presets = ABLATION_PRESETS

    def __init__(
        self,
        space: str = "attributes",
        hidden: int = 1600,
        output: str = "linear",
        similarity: str = "cosine",
        initial_scale: float = 30.0,
        feature_scaling: str = "none",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 2000,
        classes_per_episode: int = 32,
        images_per_class: int = 4,
        episodic: bool = True,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-4,
        clip_norm: float | None = 1.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.space = space
        self.hidden = hidden
        self.output = output
        self.similarity = similarity
        self.initial_scale = initial_scale
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.n_steps = n_steps
        self.classes_per_episode = classes_per_episode
        self.images_per_class = images_per_class
        self.episodic = episodic
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Validate the hyperparameters; see :meth:`ZeroShotClassifier.check_settings`."""
        super().check_settings()
        check_choice("space", self.space, SPACES)
        check_choice("output", self.output, OUTPUTS)
        check_episodic_settings(self)

    def reference_panels(self) -> dict[str, Any]:
        """Return the methods of the paper's t-SNE figure, by title."""
        return paper_panels(self, "V→A" if self.space == "attributes" else "Projection")

    @torch.no_grad()
    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Embed images (n, k) and classes (c, k) in the joint space; see :meth:`ZeroShotClassifier.compared`."""
        classes = self.networks_["classes"](self._vectors_on_device(self.candidates(labels)))
        images = self.networks_["images"](self._on_device(self._features(X)))
        return np.asarray(images.cpu().numpy()), np.asarray(classes.cpu().numpy())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        features, attributes = int(self.n_features_in_), self.table_.vectors.shape[1]
        size = attributes if self.space == "attributes" else max(1, features // 2)
        images = Perceptron((features, self.hidden, size), rng, last=self.output)
        classes = (
            Perceptron((attributes, self.hidden, size), rng, last=self.output) if self.space == "between" else nn.Identity()
        )
        self.score_ = Score(self.similarity, self.initial_scale)
        return {"images": images, "classes": classes, "score": self.score_}

    def _objective(self, X: Tensor, targets: Tensor) -> EpisodicTraining:
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = EpisodeShape(self.classes_per_episode, self.images_per_class, self.episodic)
        images, classes = self.networks_["images"], self.networks_["classes"]
        return EpisodicTraining(classes, self.score_, vectors, X, targets, shape, self.seed, projection=images)

    def _prepare(self, labels: Labels) -> Tensor:
        return self.score_.prepared(self.networks_["classes"](self._vectors_on_device(labels)))

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return self.score_.of_prepared(self.networks_["images"](X), prepared)
