"""Algorithm 1: learning from tasks drawn from the seen classes, by Eq. 3."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sightunseen.generator import ClassifierGenerator
from sightunseen.losses import cross_entropy
from sightunseen.randomness import as_generator, derive_seed
from sightunseen.scores import Score
from sightunseen.tasks import ClassImages, draw_batches, draw_tasks
from sightunseen.training import Draw, Objective


@dataclass(frozen=True)
class TaskShape:
    """M, N, and whether there are tasks at all: without, mini-batches of M x N images over all classes."""

    classes_per_task: int
    images_per_class: int
    episodic: bool


class TaskTraining(Objective):
    """Lines 1 to 3: draw a task, generate the classifiers of its classes, classify its images.

    Parameters
    ----------
    generator, score : what is trained.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    """

    def __init__(
        self,
        generator: ClassifierGenerator,
        score: Score,
        vectors: Tensor,
        features: Tensor,
        places: NDArray[np.int64],
        shape: TaskShape,
        seed: int,
    ) -> None:
        trained = [*generator.parameters(), *score.parameters()]
        super().__init__([parameter for parameter in trained if parameter.requires_grad])
        self.generator, self.score = generator, score
        self.vectors, self.features, self.places = vectors, features, places
        self.images = ClassImages.of(places)
        self.shape, self.seed = shape, seed
        if shape.episodic:
            self.images.warn_of_small_classes(shape.images_per_class)

    def draw(self, chunk: int, n_tasks: int) -> Draw:
        """Line 1: classes, images of each, and local labels."""
        rng = as_generator(derive_seed(self.seed, "tasks", chunk))
        n_classes, size = len(self.images.count), self.shape.images_per_class
        if not self.shape.episodic:
            rows = draw_batches(len(self.places), n_tasks, self.shape.classes_per_task * size, rng)
            classes = np.broadcast_to(np.arange(n_classes), (n_tasks, n_classes))
            return {"classes": classes, "rows": rows, "labels": self.places[rows]}
        per_task = min(self.shape.classes_per_task, n_classes)
        classes, rows = draw_tasks(self.images, n_tasks, per_task, size, rng)
        labels = np.broadcast_to(np.arange(per_task).repeat(size), (n_tasks, per_task * size))
        return {"classes": classes, "rows": rows.reshape(n_tasks, -1), "labels": labels}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Line 2: generate the classifiers of the task's classes and classify its images."""
        classifiers = self.generator(self.vectors[task["classes"]])  # (M, d)
        return cross_entropy(self.score(self.features[task["rows"]], classifiers), task["labels"])
