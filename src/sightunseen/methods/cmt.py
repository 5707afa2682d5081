"""CMT: zero-shot learning through cross-modal transfer (Socher, Ganjoo, Manning & Ng, NIPS 2013), Sections 4 to 6."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective

LEAST_VARIANCE = 1e-6


class CMT(GradientTrainedClassifier):
    """A network f maps images to class vectors, the mean of ||s_y - f(x)||^2 at its least; novelty detection parts the seen.

    Every seen class is an isometric Gaussian around its vector, as wide as its training images are mapped. An image is novel
    if its largest log density g(x) among them is below a threshold T. If it is not, a softmax classifier of the features
    decides among the seen classes; if it is, the nearest class vector does among the unseen ones.

    As scores: g(x) - T + log p(c | x) - max log p(. | x) for a seen class c, so that the best of them has g(x) - T; and for an
    unseen one -q / (1 + q), where q is the mean square of s_c - f(x) in units of the seen classes' mean variance. That is in
    the order of the distances and between -1 and 0: a penalty on seen classes raises T, to within one nat of some hundred.

    Parameters
    ----------
    hidden : width of the hidden layer, of tanh.
    kept : the share of training images that are not novel, which is where T stands.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, images_per_episode : the number of tasks and the images in one.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"weight_decay": (1e-4, 1e-3, 1e-2)}

    def __init__(
        self,
        hidden: int = 256,
        kept: float = 0.95,
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 400,
        images_per_episode: int = 128,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-3,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.kept = kept
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.n_steps = n_steps
        self.images_per_episode = images_per_episode
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_whole("hidden", self.hidden, 1)
        check_whole("images_per_episode", self.images_per_episode, 1)
        check_number("kept", self.kept, 0)
        if self.kept > 1:
            raise SettingsError(f"kept must be a share, at most 1; got {self.kept!r}.")

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size, n_seen = self.table_.vectors.shape[1], int(self.n_features_in_), len(self.seen_classes_)
        self.novelty_ = Novelty(n_seen)
        mapping = Perceptron((size, self.hidden, semantic_size), rng, "tanh")
        return {"mapping": mapping, "softmax": Perceptron((size, n_seen), rng), "novelty": self.novelty_}

    def _objective(self, X: Tensor, places: Tensor) -> "Transfer":
        vectors = self._vectors_on_device(self.seen_classes_)
        networks = self.networks_["mapping"], self.networks_["softmax"], self.novelty_
        return Transfer(*networks, vectors, X, places, self.images_per_episode, self.kept, self.seed)

    def _prepare(self, labels: Labels) -> "Candidates":
        seen = np.isin(labels, self.seen_classes_)
        places = self._indices(self.seen_classes_, labels[seen])
        vectors = self._vectors_on_device(labels[~seen]) if not seen.all() else None
        columns = torch.as_tensor(np.argsort(np.argsort(~seen, kind="stable")), device=self._device)
        return Candidates(self._vectors_on_device(self.seen_classes_), places, vectors, columns)

    def _score_images(self, X: Tensor, prepared: "Candidates") -> Tensor:
        novelty = self.novelty_
        mapped = self.networks_["mapping"](X)  # (n, a)
        classified = functional.log_softmax(self.networks_["softmax"](X), dim=1)  # (n, s)
        known = novelty(mapped, prepared.seen_vectors)[:, None] + classified - classified.max(dim=1, keepdim=True).values
        scores: Tensor = known[:, prepared.places]
        if prepared.unseen_vectors is not None:
            ratio = squared_distances(mapped, prepared.unseen_vectors) / (mapped.shape[1] * novelty.variances.mean())
            scores = torch.cat([scores, -ratio / (1 + ratio)], dim=1)
        return scores[:, prepared.columns]


@dataclass(frozen=True)
class Candidates:
    """The vectors of all seen classes (s, a), which candidates are seen, the others' vectors, and where each column stands."""

    seen_vectors: Tensor
    places: Tensor
    unseen_vectors: Tensor | None
    columns: Tensor


class Novelty(nn.Module):
    """How well the Gaussians of the seen classes explain a mapped image: g(x) - T."""

    variances: Tensor
    threshold: Tensor

    def __init__(self, n_seen: int) -> None:
        super().__init__()
        self.register_buffer("variances", torch.ones(n_seen))
        self.register_buffer("threshold", torch.zeros(()))

    @torch.no_grad()
    def learn(self, mapped: Tensor, places: Tensor, vectors: Tensor, kept: float) -> None:
        """The variance of each class, a mean over its images and attributes, and T, below which 1 - ``kept`` of them are."""
        squares = (mapped - vectors[places]).square().mean(dim=1)  # (n,)
        sums = torch.zeros_like(self.variances).index_add_(0, places, squares)
        self.variances.copy_((sums / torch.bincount(places, minlength=len(vectors))).clamp_min(LEAST_VARIANCE))
        self.threshold.zero_()
        self.threshold.copy_(torch.from_numpy(np.quantile(self(mapped, vectors).cpu().numpy(), [1 - kept]))[0])

    def forward(self, mapped: Tensor, vectors: Tensor) -> Tensor:
        """Mapped images (n, a) and the seen classes' vectors (s, a) -> (n,); the constant of the density is left out."""
        distances = squared_distances(mapped, vectors)  # (n, s)
        densities = -0.5 * (distances / self.variances + mapped.shape[1] * self.variances.log())
        return densities.max(dim=1).values - self.threshold


class Transfer(BatchObjective):
    """The losses of the mapping and of the classifier, which share nothing, on plain mini-batches."""

    def __init__(
        self,
        mapping: nn.Module,
        softmax: nn.Module,
        novelty: Novelty,
        vectors: Tensor,
        features: Tensor,
        places: Tensor,
        images_per_episode: int,
        kept: float,
        seed: int,
    ) -> None:
        trained = [*mapping.parameters(), *softmax.parameters()]
        super().__init__(trained, features, places, images_per_episode, derive_seed(seed, "tasks"))
        self.mapping, self.softmax, self.novelty = mapping, softmax, novelty
        self.vectors, self.kept = vectors, kept

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The mean of ||s_y - f(x)||^2 over images and attributes, plus that of -log p(y | x)."""
        features, places = self.features[task["rows"]], self.places[task["rows"]]
        return functional.mse_loss(self.mapping(features), self.vectors[places]) + functional.cross_entropy(
            self.softmax(features), places
        )

    @torch.no_grad()
    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Measure the seen classes where the mapping now has them, so that the model can be used at any point."""
        self.novelty.learn(self.mapping(self.features), self.places, self.vectors, self.kept)

    def memory(self) -> dict[str, Tensor]:
        """The seen classes' Gaussians."""
        return self.novelty.state_dict()

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Take them back."""
        self.novelty.load_state_dict(memory)


def squared_distances(one: Tensor, other: Tensor) -> Tensor:
    """(n, a) and (c, a) -> (n, c), by the products' way; no less than zero."""
    products = one @ other.T
    return (one.square().sum(dim=1, keepdim=True) + other.square().sum(dim=1) - 2 * products).clamp_min(0)
