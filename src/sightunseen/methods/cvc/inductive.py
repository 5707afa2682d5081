"""Algorithm 1: learning from tasks drawn from the seen classes, by Eq. 3."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sightunseen.core.randomness import derive_seed
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Draw, FusedForm, Objective
from sightunseen.training.episodes import ClassImages, draw_batches, draw_episodes


@dataclass(frozen=True)
class EpisodeShape:
    """M, N, and whether there are tasks at all: without, mini-batches of M x N images over all classes."""

    classes_per_episode: int
    images_per_class: int
    episodic: bool


class EpisodicTraining(Objective):
    """Lines 1 to 3: draw a task, generate the classifiers of its classes, classify its images.

    Parameters
    ----------
    generator, score : what is trained; f may be any network from class vectors to where images are compared with them.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    projection : trained, too: what features go through before they are compared.
    """

    def __init__(
        self,
        generator: nn.Module,
        score: Score,
        vectors: Tensor,
        features: Tensor,
        places: Tensor,
        shape: EpisodeShape,
        seed: int,
        projection: nn.Module | None = None,
    ) -> None:
        trained = [*generator.parameters(), *score.parameters(), *(projection.parameters() if projection is not None else ())]
        super().__init__([parameter for parameter in trained if parameter.requires_grad])
        self.generator, self.score, self.projection = generator, score, projection
        self.vectors, self.features, self.places = vectors, features, places
        self.images = ClassImages.of(places)
        self.shape, self.seed = shape, derive_seed(seed, "tasks")
        if shape.episodic:
            self.images.warn_of_small_classes(shape.images_per_class)

    def draw(self, first: int, n_steps: int) -> Draw:
        """Line 1: classes, images of each, and local labels."""
        per_episode, per_class = self.shape.classes_per_episode, self.shape.images_per_class
        if self.shape.episodic:
            return draw_episodes(self.images, first, n_steps, per_episode, per_class, self.seed)
        n_classes, device = len(self.vectors), self.features.device
        rows = draw_batches(len(self.features), first, n_steps, per_episode * per_class, self.seed, device)
        classes = torch.arange(n_classes, device=device).expand(n_steps, n_classes)
        return {"classes": classes, "rows": rows, "labels": self.places[rows]}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Line 2: generate the classifiers of the task's classes and classify its images."""
        classifiers = self.generator(self.vectors[task["classes"]])  # (M, d)
        features = self.features.index_select(0, task["rows"])
        compared = features if self.projection is None else self.projection(features)
        return cross_entropy(self.score(compared, classifiers), task["labels"])

    def fused_form(self) -> FusedForm | None:
        """Cosine scores of generated classifiers."""
        if self.score.kind != "cosine" or self.projection is not None or not isinstance(self.generator, ClassifierGenerator):
            return None
        generator = self.generator
        layers = generator.first, generator.second
        return FusedForm(layers, generator.rectify, self.score.scale, self.vectors, self.features)
