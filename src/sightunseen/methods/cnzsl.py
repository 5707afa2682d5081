"""CN-ZSL: class normalization for (continual)? generalized zero-shot learning (Skorokhodov & Elhoseiny, ICLR 2021)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.cvc.scores import cosine_scores
from sightunseen.methods.shared.objectives import BatchObjective
from sightunseen.training import Draw

SMALLEST_VARIANCE = 1e-5  # added to variances, so that a hidden value alike in all classes becomes zero


class CNZSL(GradientTrainedClassifier):
    """A perceptron turns class vectors into prototypes; standardising its hidden values over the classes keeps their variance.

    Scores are gamma^2 cos(x, p) with prototypes p = P(a): FC-ReLU-FC-CN-ReLU-CN-FC, and a ReLU at the end if the training
    features are never negative. CN (Eq. 9) gives each hidden value mean 0 and deviation 1 over the seen classes. Training is
    plain: mini-batches, cross-entropy over all seen classes.

    In prediction, too, the statistics are those of the seen classes, so that the score of a class does not depend on the other
    candidates. The authors average them over the steps of training; every step meets all seen classes, so here they are exact.

    Parameters
    ----------
    hidden : width of both hidden layers.
    scale : gamma; features and prototypes are both scaled to this length.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, batch_size : the number of mini-batches, and the images of each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes; to be chosen on validation classes, never on test data.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"scale": (4.0, 5.0, 6.0)}

    def __init__(
        self,
        hidden: int = 512,
        scale: float = 5.0,
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 200,
        batch_size: int = 128,
        learning_rate: float = 2e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-3,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.scale = scale
        self.semantic_norm = semantic_norm
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_number("scale", self.scale, 0)
        for name in ("hidden", "batch_size"):
            check_whole(name, getattr(self, name), 1)

    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        return {"prototypes": PrototypeNetwork(*sizes, rng)}

    def _objective(self, X: Tensor, places: Tensor) -> "PrototypeTraining":
        network = self.networks_["prototypes"]
        assert isinstance(network, PrototypeNetwork)
        network.least.fill_(0.0 if (X >= 0).all() else -math.inf)
        vectors = self._vectors_on_device(self.seen_classes_)
        seed = derive_seed(self.seed, "tasks")
        return PrototypeTraining(network, vectors, X, places, self.scale, self.batch_size, seed)

    def _prepare(self, labels: Labels) -> Tensor:
        n_seen = len(self.seen_classes_)
        vectors = torch.cat([self._vectors_on_device(self.seen_classes_), self._vectors_on_device(labels)])
        prototypes: Tensor = self.networks_["prototypes"](vectors, n_seen)[n_seen:]
        return prototypes

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return cosine_scores(X, prepared, self.scale**2)


class PrototypeNetwork(nn.Module):
    """Class vectors (c, a) to prototypes (c, d).

    The last layer starts with variance 1 / (d h) (Eq. 10): from hidden values of variance 1 it makes prototypes of length one,
    whose products with features have the variance of a feature. The others start as He et al. have it, biases at zero.
    """

    least: Tensor  # what prototypes are cut off at: zero, or minus infinity

    def __init__(self, semantic_size: int, hidden: int, feature_size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.first = nn.Linear(semantic_size, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, feature_size)
        deviations = math.sqrt(2 / semantic_size), math.sqrt(2 / hidden), 1 / math.sqrt(feature_size * hidden)
        for layer, deviation in zip((self.first, self.second, self.last), deviations, strict=True):
            nn.init.normal_(layer.weight, 0.0, deviation, generator=rng)
            nn.init.zeros_(layer.bias)
        self.register_buffer("least", torch.tensor(-math.inf))

    def forward(self, vectors: Tensor, n_seen: int) -> Tensor:
        """(c, a) -> (c, d), with the statistics of the first ``n_seen`` classes."""
        values = self.second(torch.relu(self.first(vectors)))  # (c, h)
        values = torch.relu(class_normalised(values, n_seen))
        return torch.maximum(self.last(class_normalised(values, n_seen)), self.least)


def class_normalised(values: Tensor, n_seen: int) -> Tensor:
    """Eq. 9: values (c, h), each column shifted and divided so that its first ``n_seen`` have mean 0 and deviation 1."""
    variance, mean = torch.var_mean(values[:n_seen], dim=0, correction=0)
    return (values - mean) * torch.rsqrt(variance + SMALLEST_VARIANCE)


class PrototypeTraining(BatchObjective):
    """Cross-entropy of images (n, d), of classes at ``places`` (n,), over the prototypes of all seen classes, (s, a)."""

    def __init__(
        self,
        network: PrototypeNetwork,
        vectors: Tensor,
        X: Tensor,
        places: Tensor,
        scale: float,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(list(network.parameters()), X, places, batch_size, seed)
        self.network, self.vectors, self.scale = network, vectors, scale

    def loss(self, task: Draw) -> Tensor:
        """Mean of -ln p(y | x)."""
        rows = task["rows"]
        prototypes = self.network(self.vectors, len(self.vectors))
        return cross_entropy(cosine_scores(self.features.index_select(0, rows), prototypes, self.scale**2), self.places[rows])
