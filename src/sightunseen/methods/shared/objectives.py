"""What losses are over: tasks of M seen classes and N images of each, or plain mini-batches of all images."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from sightunseen.core.randomness import derive_seed
from sightunseen.training import Draw, Objective
from sightunseen.training.episodes import ClassImages, draw_batches, draw_episodes


class EpisodeObjective(Objective):
    """Draws tasks; a method fills in ``loss``.

    A task has ``classes`` (M,), places among the seen classes; ``rows`` (M * N,), images, those of a class side by side; and
    ``labels`` (M * N,), the place of each image's class among the task's. All classes are drawn where there are fewer than M.

    Parameters
    ----------
    networks : what is trained.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    classes_per_episode, images_per_class : M and N.
    """

    def __init__(
        self,
        networks: Iterable[nn.Module],
        vectors: Tensor,
        features: Tensor,
        places: Tensor,
        classes_per_episode: int,
        images_per_class: int,
        seed: int,
    ) -> None:
        self.networks = tuple(networks)
        super().__init__([parameter for network in self.networks for parameter in network.parameters()])
        self.vectors, self.features = vectors, features
        self.images = ClassImages.of(places)
        self.classes_per_episode, self.images_per_class = classes_per_episode, images_per_class
        self.seed = derive_seed(seed, "tasks")

    def draw(self, first: int, n_steps: int) -> Draw:
        """Classes, images of each, and local labels."""
        return draw_episodes(self.images, first, n_steps, self.classes_per_episode, self.images_per_class, self.seed)


class BatchObjective(Objective):
    """Draws mini-batches; a method fills in ``loss``. A task has ``rows`` (b,), each drawn from all images.

    Parameters
    ----------
    parameters : what is trained.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    batch_size, seed : images of a mini-batch, and what they are drawn by.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], features: Tensor, places: Tensor, batch_size: int, seed: int
    ) -> None:
        super().__init__(parameters)
        self.features, self.places = features, places
        self.batch_size, self.seed = batch_size, seed

    def draw(self, first: int, n_steps: int) -> Draw:
        """Images of each mini-batch."""
        return {"rows": draw_batches(len(self.features), first, n_steps, self.batch_size, self.seed, self.features.device)}


class TurnObjective(BatchObjective):
    """Mini-batches for networks that take turns: ``task``, the number of each, says whose turn it is."""

    alike = False

    def draw(self, first: int, n_steps: int) -> Draw:
        """Images of each mini-batch, and its number."""
        numbers = torch.arange(first, first + n_steps, device=self.features.device)
        return {**super().draw(first, n_steps), "task": numbers}
