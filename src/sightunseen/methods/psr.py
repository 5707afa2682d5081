"""PSR: preserving semantic relations for zero-shot learning (Annadani & Biswas, CVPR 2018)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import EpisodeObjective


class PSR(GradientTrainedClassifier):
    """An encoder f places classes among the features so that their relations stay; scores are cosines of x and f(s).

    With delta = cos(s_y - m, s_c - m), where m is the mean of the seen classes' vectors, the class c is, to an image x of
    class y: identical if c = y, similar if delta is at least ``threshold``, dissimilar otherwise. The loss of a task is
    ||x - f(s_y)||^2 for its images; plus ``relation`` times [delta - cos(x, f(s_c))]+ for similar pairs, which are to be at
    least as similar as their descriptions, and [cos(x, f(s_c)) - delta]+ for dissimilar ones, which are to be at most; plus
    ``reconstruction`` times ||s - g(f(s))||^2, where the decoder g finds the description again. All are means: over images,
    pairs, classes, entries.

    Parameters
    ----------
    hidden : width of the hidden layers of encoder and decoder.
    threshold : the delta from which on classes are similar.
    relation, reconstruction : the weights of the terms.
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
        hidden: int = 400,
        threshold: float = 0.3,
        relation: float = 1.0,
        reconstruction: float = 0.1,
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 700,
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
        self.threshold = threshold
        self.relation = relation
        self.reconstruction = reconstruction
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
        check_number("threshold", self.threshold)
        check_number("relation", self.relation, 0)
        check_number("reconstruction", self.reconstruction, 0)
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size = self.table_.vectors.shape[1], int(self.n_features_in_)
        encoder = Perceptron((semantic_size, self.hidden, size), rng)
        return {"encoder": encoder, "decoder": Perceptron((size, self.hidden, semantic_size), rng)}

    def _objective(self, X: Tensor, places: Tensor) -> "Relations":
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = self.classes_per_episode, self.images_per_class
        objective = Relations(self.networks_.values(), vectors, X, places, *shape, self.seed)
        objective.threshold, objective.weights = self.threshold, (self.relation, self.reconstruction)
        # Features are standardised, so their cosines are about zero on average. The paper's cosines of vectors as they are
        # are positive throughout, which no such features can follow; measured from their mean, vectors are like features.
        directions = functional.normalize(vectors - vectors.mean(dim=0), dim=1)
        objective.similarities = directions @ directions.T
        return objective

    def _prepare(self, labels: Labels) -> Tensor:
        return functional.normalize(self.networks_["encoder"](self._vectors_on_device(labels)), dim=1)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return functional.normalize(X, dim=1) @ prepared.T


class Relations(EpisodeObjective):
    """The loss of :class:`PSR` on a task."""

    threshold: float
    weights: tuple[float, float]  # of the relation and of the reconstruction
    similarities: Tensor  # (s, s) delta between seen classes

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Mapping, similar and dissimilar relations, and reconstruction."""
        encoder, decoder = self.networks
        vectors, features, labels = self.vectors[task["classes"]], self.features[task["rows"]], task["labels"]
        mapped = encoder(vectors)  # (M, d)
        mapping = functional.mse_loss(mapped[labels], features)
        reconstruction = functional.mse_loss(decoder(mapped), vectors)
        wanted = self.similarities[task["classes"]][:, task["classes"]][labels]  # (M * N, M): delta
        found = functional.normalize(features, dim=1) @ functional.normalize(mapped, dim=1).T
        violated = torch.where(wanted < self.threshold, found - wanted, wanted - found).relu()
        others = labels[:, None] != torch.arange(len(vectors), device=labels.device)
        relation, weight = self.weights
        return mapping + relation * (violated * others).mean() + weight * reconstruction
