"""DEM: learning a deep embedding model for zero-shot learning (Zhang, Xiang & Gong, CVPR 2017), Eq. 1."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.shared.networks import Perceptron, as_layers
from sightunseen.methods.shared.objectives import EpisodeObjective

SIMILARITIES = ("distance", "cosine")


class DEM(GradientTrainedClassifier):
    """A network f places classes among the features: it minimises the mean of ||x - f(s_y)||^2 with weight decay (Eq. 1).

    f has two layers, the first with a ReLU. The paper has another one at the end, for features that are never negative; it
    is left out, so that f reaches any features. An image belongs to the class whose f(s) is nearest: by ``distance`` scores
    are -||x - f(s)||^2 up to ||x||^2, which is the same for all classes.

    Parameters
    ----------
    hidden : width of the hidden layer.
    similarity : nearest by ``cosine``, the better one on validation classes of CUB, or by ``distance`` (squared).
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, classes_per_episode, images_per_class : the number of tasks, and the classes and images of each in one.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"weight_decay": (2e-4, 1e-3, 5e-3)}

    def __init__(
        self,
        hidden: int = 700,
        similarity: str = "cosine",
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 600,
        classes_per_episode: int = 32,
        images_per_class: int = 4,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 2e-4,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.similarity = similarity
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.n_steps = n_steps
        self.classes_per_episode = classes_per_episode
        self.images_per_class = images_per_class
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)

    def reference_panels(self) -> dict[str, Any]:
        """The methods of the paper's t-SNE figure."""
        return paper_panels(self, "DEM")

    @torch.no_grad()
    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Scaled features and the classes f(s) among them: (n, d), (c, d)."""
        embedded = self._embedded(self.candidates(labels))
        return self._features(X), np.asarray(embedded.cpu().numpy())

    def classifier_map(self) -> ClassifierMap:
        """The layers of f."""
        network = self.networks_["embedding"]
        assert isinstance(network, Perceptron)
        return ClassifierMap(as_layers(*network.layers), self.similarity)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        return {"embedding": Perceptron(sizes, rng)}

    def _objective(self, X: Tensor, places: Tensor) -> "Embedding":
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = self.classes_per_episode, self.images_per_class
        return Embedding(self.networks_.values(), vectors, X, places, *shape, self.seed)

    def _embedded(self, labels: Labels) -> Tensor:
        embedded: Tensor = self.networks_["embedding"](self._vectors_on_device(labels))  # (c, d)
        return embedded

    def _prepare(self, labels: Labels) -> Tensor:
        embedded = self._embedded(labels)
        return functional.normalize(embedded, dim=1) if self.similarity == "cosine" else embedded

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        if self.similarity == "cosine":
            return functional.normalize(X, dim=1) @ prepared.T
        return 2 * X @ prepared.T - prepared.square().sum(dim=1)


class Embedding(EpisodeObjective):
    """Eq. 1 on a task: the mean of ||x - f(s_y)||^2 over its images, divided by the number of features.

    The division makes the settings serve features of any number.
    """

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Embed the task's classes and compare its images with them."""
        (embedding,) = self.networks
        embedded = embedding(self.vectors[task["classes"]])  # (M, d)
        return functional.mse_loss(embedded[task["labels"]], self.features[task["rows"]])
