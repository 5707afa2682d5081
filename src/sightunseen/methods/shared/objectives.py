"""Objectives on episodes of M seen classes with N images each, and on mini-batches of all images."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.core.randomness import derive_seed
from sightunseen.training import Draw, Objective
from sightunseen.training.episodes import ClassImages, draw_batches, draw_episodes


class EpisodeObjective(Objective):
    """Objective on episodes. A subclass implements ``loss``.

    An episode has ``classes`` (M,), indices among the seen classes; ``rows`` (M * N,) of images, grouped by class; and
    ``labels`` (M * N,), the index of each image's class in the episode.

    Parameters
    ----------
    networks : iterable of torch.nn.Module
        The trained networks.
    vectors : Tensor of shape (s, a)
        Vectors of the seen classes.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    classes_per_episode : int
        M; all seen classes if there are fewer.
    images_per_class : int
        N.
    seed : int
        Seed of the episodes.
    """

    def __init__(
        self,
        networks: Iterable[nn.Module],
        vectors: Tensor,
        features: Tensor,
        targets: Tensor,
        classes_per_episode: int,
        images_per_class: int,
        seed: int,
    ) -> None:
        self.networks = tuple(networks)
        super().__init__([parameter for network in self.networks for parameter in network.parameters()])
        self.vectors, self.features = vectors, features
        self.images = ClassImages.of(targets)
        self.classes_per_episode, self.images_per_class = classes_per_episode, images_per_class
        self.seed = derive_seed(seed, "tasks")

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw ``n_steps`` episodes, starting with number ``first``."""
        return draw_episodes(self.images, first, n_steps, self.classes_per_episode, self.images_per_class, self.seed)


class ModelEpisodeObjective(EpisodeObjective):
    """Episode objective with the networks and hyperparameters of a model. A subclass implements ``loss``.

    Parameters
    ----------
    model : GradientTrainedClassifier
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    def __init__(self, model: Any, features: Tensor, targets: Tensor) -> None:
        vectors, shape = model._vectors_on_device(model.seen_classes_), (model.classes_per_episode, model.images_per_class)
        super().__init__(model.networks_.values(), vectors, features, targets, *shape, model.seed)
        self.model = model


class BatchObjective(Objective):
    """Objective on mini-batches. A subclass implements ``loss``.

    A mini-batch has ``rows`` (b,), drawn from all images.

    Parameters
    ----------
    parameters : sequence of torch.nn.Parameter
        The trained parameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    batch_size : int
        Number of images per mini-batch.
    seed : int
        Seed of the mini-batches.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], features: Tensor, targets: Tensor, batch_size: int, seed: int
    ) -> None:
        super().__init__(parameters)
        self.features, self.targets = features, targets
        self.batch_size, self.seed = batch_size, seed

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw ``n_steps`` mini-batches, starting with number ``first``."""
        return {"rows": draw_batches(len(self.features), first, n_steps, self.batch_size, self.seed, self.features.device)}


class ModelBatchObjective(BatchObjective):
    """Mini-batch objective with the networks and hyperparameters of a model. A subclass implements ``loss``.

    Parameters
    ----------
    model : GradientTrainedClassifier
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    stream = "batches"  # random stream of the mini-batches

    def __init__(self, model: Any, features: Tensor, targets: Tensor) -> None:
        seed = derive_seed(model.seed, self.stream)
        super().__init__(model._trained_parameters(), features, targets, model.batch_size, seed)
        self.model = model
        self.vectors: Tensor = model._vectors_on_device(model.seen_classes_)  # (s, a)


class NumberedObjective(ModelBatchObjective):
    """Mini-batch objective whose loss depends on the number of the step. A mini-batch has ``rows`` (b,) and ``step`` ()."""

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw ``n_steps`` mini-batches with their numbers, starting with ``first``."""
        steps = torch.arange(first, first + n_steps, device=self.features.device)
        return {**super().draw(first, n_steps), "step": steps}
