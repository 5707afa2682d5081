"""Projection: the baselines of CVC's ablation (Li, Min & Fu, ICCV 2019, Table 2), which compare outside the visual space."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.cvc.scores import SIMILARITIES, Score
from sightunseen.methods.shared.networks import Perceptron

SPACES = ("attributes", "between")
OUTPUTS = ("relu", "linear")


class Projection(GradientTrainedClassifier):
    """A network projects images to where classes are, and the loss, the tasks and the scores are those of CVC.

    ``attributes`` (V→A): images to the space of the class vectors, in which a class is its own vector. ``between``
    (V→I←A): images and classes, by a network each, to a space of half the visual dimension.

    Parameters
    ----------
    space : ``attributes`` or ``between``.
    hidden : width of the networks' hidden layer.
    output : what follows their last layer: ``relu``, as in the paper's generator, or ``linear``, the better one on validation
        classes of CUB.
    similarity, initial_scale : ``cosine``, with a learnable scale that starts here, or ``dot``.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, classes_per_episode, images_per_class : the number of tasks, and the classes and images of each in one.
    episodic : False trains on plain mini-batches of as many images over all seen classes.
    learning_rate, schedule, weight_decay, clip_norm : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"initial_scale": (30.0, 50.0)}

    def __init__(
        self,
        space: str = "attributes",
        hidden: int = 1600,
        output: str = "linear",
        similarity: str = "cosine",
        initial_scale: float = 30.0,
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
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_choice("space", self.space, SPACES)
        check_choice("output", self.output, OUTPUTS)
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_choice("episodic", self.episodic, (True, False))
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)
        check_number("initial_scale", self.initial_scale, 0)

    def reference_panels(self) -> dict[str, Any]:
        """The methods of the paper's t-SNE figure."""
        return paper_panels(self, "V→A" if self.space == "attributes" else "Projection")

    @torch.no_grad()
    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images and classes as points of the space in which they are compared: (n, d), (c,) -> (n, k), (c, k)."""
        classes, images = self._class_points(self.candidates(labels)), self._image_points(self._on_device(self._features(X)))
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

    def _objective(self, X: Tensor, places: Tensor) -> EpisodicTraining:
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = EpisodeShape(self.classes_per_episode, self.images_per_class, self.episodic)
        images, classes = self.networks_["images"], self.networks_["classes"]
        return EpisodicTraining(classes, self.score_, vectors, X, places, shape, self.seed, projection=images)

    def _image_points(self, X: Tensor) -> Tensor:
        points: Tensor = self.networks_["images"](X)  # (n, k)
        return points

    def _class_points(self, labels: Labels) -> Tensor:
        points: Tensor = self.networks_["classes"](self._vectors_on_device(labels))  # (c, k)
        return points

    def _prepare(self, labels: Labels) -> Tensor:
        return self.score_.prepared(self._class_points(labels))

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return self.score_.of_prepared(self._image_points(X), prepared)
