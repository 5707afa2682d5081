"""Relation Network: learning to compare, the zero-shot variant (Sung, Yang, Zhang, Xiang, Torr & Hospedales, CVPR 2018)."""

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import EpisodeObjective

FIRST_WEIGHTS = 0.1  # of the last layer, relative to He's


class RelationNetwork(GradientTrainedClassifier):
    """A network g learns how well an image and an embedded class go together: r = sigmoid(g([f(s), x])) (Eq. 2).

    f (a -> hidden -> d, with a ReLU after both layers) embeds classes among the features; g (2d -> hidden -> 1, with a ReLU)
    compares. They minimise the squares of r - 1 for an image with its own class and of r for one with another class of its
    task (Eq. 3). The last ReLU of f is a leaky one: a class that it sets to zero in every feature could never be learned.
    Scores are g itself, before the sigmoid: the same order, without rounding at its ends.

    Parameters
    ----------
    hidden : width of the hidden layers.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, classes_per_episode, images_per_class : the number of tasks, and the classes and images of each in one.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"weight_decay": (0.0, 1e-5, 1e-4)}

    def __init__(
        self,
        hidden: int = 256,
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 800,
        classes_per_episode: int = 32,
        images_per_class: int = 2,
        learning_rate: float = 5e-4,
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
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
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size = self.table_.vectors.shape[1], int(self.n_features_in_)
        embedding = Perceptron((semantic_size, self.hidden, size), rng, last="leaky relu")
        right = 1 / max(2, min(self.classes_per_episode, len(self.seen_classes_)))  # the share of right pairs in a task
        return {"embedding": embedding, "relation": Relation(size, self.hidden, right, rng)}

    def _objective(self, X: Tensor, places: Tensor) -> "Comparison":
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = self.classes_per_episode, self.images_per_class
        return Comparison(self.networks_.values(), vectors, X, places, *shape, self.seed)

    def _prepare(self, labels: Labels) -> Tensor:
        embedded: Tensor = self.networks_["embedding"](self._vectors_on_device(labels))  # (c, d)
        return embedded

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        # A class at a time: all pairs at once, (n, c, hidden), would be hundreds of megabytes.
        relation = self.networks_["relation"]
        return torch.cat([relation(X, embedded) for embedded in prepared.unsqueeze(1)], dim=1)


class Relation(nn.Module):
    """The relation module g, a perceptron over [f(s), x], before its sigmoid.

    Its first layer is linear in the pair, W [f(s), x] = W_s f(s) + W_x x: either half is computed once for a class and once
    for an image, and only the hidden layer is computed for every pair.
    """

    def __init__(self, size: int, hidden: int, right: float, rng: torch.Generator) -> None:
        super().__init__()
        self.first, self.second = cast("tuple[nn.Linear, nn.Linear]", tuple(Perceptron((2 * size, hidden, 1), rng).layers))
        # Most pairs are wrong, and steps that teach nothing else end where the sigmoid is flat, never to return. So it knows
        # that from the start: it begins with the share of right pairs for every pair, and small differences between them.
        with torch.no_grad():
            self.second.weight.mul_(FIRST_WEIGHTS)
            self.second.bias.fill_(math.log(right / (1 - right)))

    def forward(self, X: Tensor, embedded: Tensor) -> Tensor:
        """Features (n, d) with embedded classes (c, d) -> (n, c)."""
        of_class, of_image = self.first.weight.chunk(2, dim=1)  # (hidden, d) each
        classes = functional.linear(embedded, of_class, self.first.bias)  # (c, hidden)
        pairs = torch.relu(functional.linear(X, of_image)[:, None] + classes)  # (n, c, hidden)
        found: Tensor = self.second(pairs)
        return found.squeeze(2)


class Comparison(EpisodeObjective):
    """Eq. 3 on a task: every image with every class of it, as a mean over the pairs."""

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The mean of (r - 1)^2 over right pairs and r^2 over wrong ones."""
        embedding, relation = self.networks
        embedded = embedding(self.vectors[task["classes"]])  # (M, d)
        found = torch.sigmoid(relation(self.features[task["rows"]], embedded))  # (M * N, M)
        return functional.mse_loss(found, functional.one_hot(task["labels"], len(embedded)).to(found))
