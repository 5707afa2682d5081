"""QFSL: transductive unbiased embedding for zero-shot learning (Song, Shen, Yang, Liu & Song, CVPR 2018)."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_adaptable import GradientAdaptableClassifier
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective
from sightunseen.training import Draw, Objective, Optimisation
from sightunseen.training.episodes import draw_batches


class QFSL(GradientAdaptableClassifier):
    """A network embeds images among the class vectors, which are fixed; ``adapt`` draws unlabelled images to the unseen ones.

    Scores are inner products f(x)' a with class vectors of one length. ``fit`` lowers the cross-entropy of seen images over
    the seen classes. ``adapt`` goes on with the quasi-fully supervised loss: softmax p over seen and unseen classes,
    cross-entropy for seen images and, times ``bias_weight``, the bias loss -ln sum_{unseen k} p_k for the unlabelled ones.
    The cross-entropy is over all classes, too: over seen ones alone, nothing would keep seen images from the unseen classes.

    The authors train the convolutional network along with it; here features are fixed and f is all that learns.

    Parameters
    ----------
    hidden : width of the network's hidden layer; 0 for none, a linear map.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, batch_size : the number of mini-batches, and the images of each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes; to be chosen on validation classes, never on test data.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"weight_decay": (1e-5, 1e-4, 1e-3)}
    adaptation_space = {"bias_weight": (0.3, 0.6, 1.0)}

    def __init__(
        self,
        hidden: int = 512,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 10.0,
        n_steps: int = 400,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-4,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.feature_scaling = feature_scaling
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
        check_whole("hidden", self.hidden, 0)
        check_whole("batch_size", self.batch_size, 1)

    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        between = (self.hidden,) if self.hidden else ()
        return {"embedding": Perceptron((int(self.n_features_in_), *between, self.table_.vectors.shape[1]), rng)}

    def _objective(self, X: Tensor, places: Tensor) -> Objective:
        vectors = self._vectors_on_device(self.seen_classes_)
        return EmbeddingTraining(self.networks_["embedding"], vectors, X, places, self.batch_size, self.seed)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.networks_["embedding"](X) @ prepared.T
        return scores

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._remember_images(X, y)

    def _adaptation(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        true_indices: NDArray[np.int64] | None,
        *,
        bias_weight: float = 1.0,
        n_steps: int = 300,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        unlabelled_batch_size: int = 128,
    ) -> tuple[Objective, Optimisation]:
        check_number("bias_weight", bias_weight, 0)
        for name, value in {"batch_size": batch_size, "unlabelled_batch_size": unlabelled_batch_size}.items():
            check_whole(name, value, 1)
        objective = QuasiFullySupervised(
            EmbeddingTraining(
                self.networks_["embedding"],
                torch.cat([self._vectors_on_device(self.seen_classes_), self._vectors_on_device(unseen)]),
                self._on_device(X_seen),
                self._indices(self.seen_classes_, y_seen),
                batch_size,
                derive_seed(self.seed, "adapting"),
            ),
            self._on_device(X),
            len(self.seen_classes_),
            unlabelled_batch_size,
            bias_weight,
        )
        return objective, Optimisation(n_steps, learning_rate, self.schedule, self.weight_decay)


class EmbeddingTraining(BatchObjective):
    """Cross-entropy of mini-batches of embedded images (n, d), of classes at ``places`` (n,), over class vectors (c, a)."""

    def __init__(
        self,
        network: nn.Module,
        vectors: Tensor,
        X: Tensor,
        places: Tensor,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(list(network.parameters()), X, places, batch_size, seed)
        self.network, self.vectors = network, vectors

    def loss(self, task: Draw) -> Tensor:
        """Mean of -ln p(y | x)."""
        rows = task["rows"]
        return cross_entropy(self.network(self.features[rows]) @ self.vectors.T, self.places[rows])


class QuasiFullySupervised(Objective):
    """Labelled images of the seen classes, of which vectors come first, and unlabelled ones (m, d) of the others (Eq. 3)."""

    def __init__(self, seen: EmbeddingTraining, X: Tensor, n_seen: int, batch_size: int, bias_weight: float) -> None:
        super().__init__(seen.parameters)
        self.seen, self.features, self.n_seen = seen, X, n_seen
        self.batch_size, self.bias_weight = batch_size, bias_weight

    def draw(self, first: int, n_steps: int) -> Draw:
        """Rows of seen images, and of unlabelled ones."""
        seed = derive_seed(self.seen.seed, "unlabelled")
        unlabelled = draw_batches(len(self.features), first, n_steps, self.batch_size, seed, self.features.device)
        return {**self.seen.draw(first, n_steps), "unlabelled": unlabelled}

    def loss(self, task: Draw) -> Tensor:
        """Cross-entropy and the bias loss, each a mean over its images."""
        scores = self.seen.network(self.features[task["unlabelled"]]) @ self.seen.vectors.T  # (m, s + u)
        return self.seen.loss(task) + self.bias_weight * bias_loss(scores, self.n_seen)


def bias_loss(scores: Tensor, n_seen: int) -> Tensor:
    """Mean of -ln sum of p over the unseen classes, whose columns follow those of the seen ones; scores (n, s + u)."""
    return -functional.log_softmax(scores, dim=1)[:, n_seen:].logsumexp(dim=1).mean()
