"""Algorithm 1: episodic training on the seen classes with the loss of Eq. 3."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_positive, check_whole
from sightunseen.core.limits import SIZE
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.cvc.scores import SIMILARITIES, Score
from sightunseen.methods.shared.objectives import EpisodeObjective
from sightunseen.training import Draw, FusedForm
from sightunseen.training.episodes import draw_batches


def check_episodic_settings(model: Any) -> None:
    """Validate the hyperparameters that CVC and Projection share.

    Parameters
    ----------
    model : CVC or Projection
        The estimator.

    Raises
    ------
    SettingsError
        If a hyperparameter has a wrong type or value.
    """
    check_choice("similarity", model.similarity, SIMILARITIES)
    check_choice("episodic", model.episodic, (True, False))
    for name in ("hidden", "classes_per_episode", "images_per_class"):
        check_whole(name, getattr(model, name), 1, SIZE)
    check_positive("initial_scale", model.initial_scale)


@dataclass(frozen=True)
class EpisodeShape:
    """Size of episodes.

    Parameters
    ----------
    classes_per_episode : int
        Number of classes (M).
    images_per_class : int
        Number of images per class (N).
    episodic : bool
        False replaces episodes by mini-batches of M * N images, classified among all seen classes.
    """

    classes_per_episode: int
    images_per_class: int
    episodic: bool


class EpisodicTraining(EpisodeObjective):
    """Objective of Algorithm 1: generate the classifiers of an episode's classes and classify its images.

    Parameters
    ----------
    generator : nn.Module
        Network from class vectors to the space in which they are compared with images (f).
    score : Score
        Score function.
    vectors : Tensor of shape (s, a)
        Class vectors of the seen classes.
    features : Tensor of shape (n, d)
        Features of the images.
    targets : Tensor of shape (n,)
        Index of each image's class.
    shape : EpisodeShape
        Size of episodes.
    seed : int
        Random seed.
    projection : nn.Module, default=None
        Network applied to the features before they are compared with classes; None: identity.
    """

    def __init__(
        self,
        generator: nn.Module,
        score: Score,
        vectors: Tensor,
        features: Tensor,
        targets: Tensor,
        shape: EpisodeShape,
        seed: int,
        projection: nn.Module | None = None,
    ) -> None:
        self.generator, self.score = generator, score
        self.projection = nn.Identity() if projection is None else projection
        networks, size = (generator, score, self.projection), (shape.classes_per_episode, shape.images_per_class)
        super().__init__(networks, vectors, features, targets, *size, seed)
        self.parameters = [parameter for parameter in self.parameters if parameter.requires_grad]
        self.targets, self.episodic = targets, shape.episodic
        if shape.episodic:
            self.images.warn_of_small_classes(shape.images_per_class)

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw episodes (line 1), or mini-batches with the labels of all seen classes."""
        if self.episodic:
            return super().draw(first, n_steps)
        n_classes, device = len(self.vectors), self.features.device
        size = self.classes_per_episode * self.images_per_class
        rows = draw_batches(len(self.features), first, n_steps, size, self.seed, device)
        classes = torch.arange(n_classes, device=device).expand(n_steps, n_classes)
        return {"classes": classes, "rows": rows, "labels": self.targets[rows]}

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the cross-entropy of an episode's images among its classes (line 2)."""
        classifiers = self.generator(self.vectors[batch["classes"]])  # (M, d)
        features = self.projection(self.features.index_select(0, batch["rows"]))
        return cross_entropy(self.score(features, classifiers), batch["labels"])

    def fused_form(self) -> FusedForm | None:
        """Return the components of the loss if its scores are cosines of features and generated classifiers."""
        generator, plain = self.generator, isinstance(self.projection, nn.Identity)
        if self.score.kind != "cosine" or not plain or not isinstance(generator, ClassifierGenerator):
            return None
        layers = generator.first, generator.second
        return FusedForm(layers, generator.rectify, self.score.scale, self.vectors, self.features)
