"""Training on tasks of M seen classes and N images of each, for methods whose network embeds classes."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sightunseen.randomness import derive_seed
from sightunseen.tasks import ClassImages, draw_classes, draw_images
from sightunseen.training import Draw, Objective


class TaskObjective(Objective):
    """Draws tasks; a method fills in ``loss``.

    A task has ``classes`` (M,), places among the seen classes; ``rows`` (M * N,), images, those of a class side by side; and
    ``labels`` (M * N,), the place of each image's class among the task's. All classes are drawn where there are fewer than M.

    Parameters
    ----------
    networks : what is trained.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    classes_per_task, images_per_class : M and N.
    """

    def __init__(
        self,
        networks: Iterable[nn.Module],
        vectors: Tensor,
        features: Tensor,
        places: Tensor,
        classes_per_task: int,
        images_per_class: int,
        seed: int,
    ) -> None:
        self.networks = tuple(networks)
        super().__init__([parameter for network in self.networks for parameter in network.parameters()])
        self.vectors, self.features = vectors, features
        self.images = ClassImages.of(places)
        self.classes_per_task, self.images_per_class = min(classes_per_task, len(vectors)), images_per_class
        self.seed = derive_seed(seed, "tasks")

    def draw(self, first: int, n_tasks: int) -> Draw:
        """Classes, images of each, and local labels."""
        device = self.features.device
        classes = draw_classes(len(self.vectors), first, n_tasks, self.classes_per_task, self.seed, device)
        rows = draw_images(self.images, classes, first, self.images_per_class, self.seed)
        labels = torch.arange(self.classes_per_task, device=device).repeat_interleave(self.images_per_class)
        return {"classes": classes, "rows": rows.flatten(1), "labels": labels.expand(n_tasks, -1)}
