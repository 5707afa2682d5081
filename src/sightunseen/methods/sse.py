"""SSE: zero-shot learning via semantic similarity embedding (Zhang & Saligrama, ICCV 2015)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.shared.sizes import mean_between
from sightunseen.training.episodes import ClassImages, draw_classes, draw_images
from sightunseen.training.objective import Draw, Objective


class SSE(GradientTrainedClassifier):
    """Classes and images are both described by their likeness to the seen classes, and compared there.

    The mixture of a class with vector a is z = argmin 1/2 ||a - sum_s z_s a_s||^2 + gamma / 2 ||z||^2 over the simplex, for
    seen and unseen classes alike. The likeness of an image to the seen class s is w' min(x, v_s) (SSE-INT), with weights w
    that all classes share, and its score for a class is sum_s z_s w' min(x, v_s).

    Since max(0, x - v) = x - min(x, v) and the shares of a mixture add up to one, the paper's other mapping, SSE-ReLU, ranks
    the classes as SSE-INT does with -w in place of w: one model is both. The weights are kept from going below zero.

    Training lowers, over tasks of some images of some seen classes, the hinge loss of the images among all seen classes,
    max_c(margin_yc + score_c) - score_y, plus ``alignment`` times that of the mean images' embeddings, each class's over the
    task. A margin is the squared distance of two classes' vectors, relative to its mean. w and v move together, by Adam.

    Parameters
    ----------
    mixture_penalty : gamma, relative to the mean square length of the seen classes' vectors.
    alignment : weight of the loss of the classes' mean embeddings.
    initial_scale : size of the scores at the start.
    n_steps, classes_per_episode, images_per_class : the number of tasks, and the images of each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"mixture_penalty": (1.0, 3.0, 6.0)}

    def __init__(
        self,
        mixture_penalty: float = 3.0,
        alignment: float = 1.0,
        initial_scale: float = 10.0,
        n_steps: int = 200,
        classes_per_episode: int = 32,
        images_per_class: int = 2,
        learning_rate: float = 3e-2,
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.mixture_penalty = mixture_penalty
        self.alignment = alignment
        self.initial_scale = initial_scale
        self.n_steps = n_steps
        self.classes_per_episode = classes_per_episode
        self.images_per_class = images_per_class
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_whole("classes_per_episode", self.classes_per_episode, 1)
        check_whole("images_per_class", self.images_per_class, 1)
        for name in ("mixture_penalty", "initial_scale"):
            check_number(f"{name} (more than zero)", getattr(self, name), np.nextafter(0, 1))
        check_number("alignment", self.alignment, 0)

    def mixtures_of(self, labels: Labels) -> NDArray[np.float64]:
        """The mixtures (c, s) of seen classes that stand for these classes."""
        return self._mixtures[np.searchsorted(self.classes_, labels)]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        corners = self._vectors_of(self.seen_classes_)
        size = float(np.square(corners).sum(axis=1).mean()) or 1.0
        self._mixtures = np.empty((len(self.classes_), len(corners)))
        # Apart, so that the mixtures of the seen classes, which training depends on, never depend on the others.
        for labels in (self.seen_classes_, self.unseen_classes_):
            mixtures = nearest_mixtures(self._vectors_of(labels), corners, self.mixture_penalty * size)
            self._mixtures[np.searchsorted(self.classes_, labels)] = mixtures

    def _build(self, X: Floats | None = None) -> None:
        if X is not None:
            self._signed = bool((X < 0).any())
        super()._build(X)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        sizes = len(self.seen_classes_), int(self.n_features_in_)
        self.embedding_ = IntersectionEmbedding(*sizes, self.initial_scale, self._signed)
        return {"embedding": self.embedding_}

    def _objective(self, X: Tensor, places: Tensor) -> Objective:
        self.embedding_.start_at(X, places)
        mixtures, shape = self._prepare(self.seen_classes_), (self.classes_per_episode, self.images_per_class)
        return MixtureAlignment(self.embedding_, mixtures, self._margins(), X, places, shape, self.alignment, self.seed)

    def _margins(self) -> Tensor:
        vectors = self._vectors_of(self.seen_classes_)
        distances = cdist(vectors, vectors, "sqeuclidean")  # (s, s)
        return self._on_device(distances / mean_between(distances))

    def _prepare(self, labels: Labels) -> Tensor:
        return self._on_device(self.mixtures_of(labels))

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        likeness: Tensor = self.embedding_(X)
        return likeness @ prepared.T

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._signed = len(arrays["embedding.weights"]) > self.n_features_in_
        super()._take_arrays(arrays)


class IntersectionEmbedding(nn.Module):
    """Images (n, d) -> their likeness to s seen classes, (n, s): scale / sqrt(d) sum_k w_k min(x_k, v_sk) / size.

    ``size`` is the root mean square of the training features, in which v is measured, so that steps have the same meaning
    whatever the features are. What two images share is meant of features from zero up: those that are ``signed`` are split
    into their positive and negative parts, 2d of them.
    """

    size: Tensor

    def __init__(self, n_classes: int, n_features: int, scale: float, signed: bool = False) -> None:
        super().__init__()
        self.scale, self.signed = scale / n_features**0.5, signed
        self.prototypes = nn.Parameter(torch.zeros(n_classes, n_features * (1 + signed)))  # v / size
        self.weights = nn.Parameter(torch.ones(n_features * (1 + signed)))
        self.register_buffer("size", torch.ones(()))

    @torch.no_grad()
    def start_at(self, X: Tensor, places: Tensor) -> None:
        """Begin with the mean features of each class and equal weights."""
        size = X.square().mean(dtype=torch.float64).sqrt().float()
        self.size.copy_(torch.where(size > 0, size, torch.ones_like(size)))
        counts = torch.bincount(places, minlength=len(self.prototypes))
        sums = torch.zeros_like(self.prototypes).index_add_(0, places, self._parts(X))
        self.prototypes.copy_(sums / counts.unsqueeze(1) / self.size)

    def forward(self, X: Tensor) -> Tensor:
        """Compare every image with every prototype."""
        weights = torch.relu(self.weights)
        images, prototypes = self._parts(X) / self.size * weights, self.prototypes * weights  # (n, d), (s, d)
        # 2 min(x, v) = x + v - |x - v|, and what is left is a city-block distance.
        distances = torch.cdist(images, prototypes, p=1)
        likeness: Tensor = self.scale / 2 * (images.sum(dim=1, keepdim=True) + prototypes.sum(dim=1) - distances)
        return likeness

    def _parts(self, X: Tensor) -> Tensor:
        return torch.cat([torch.relu(X), torch.relu(-X)], dim=1) if self.signed else X


class MixtureAlignment(Objective):
    """The loss of images, and of the mean embeddings of their classes, among all seen classes."""

    def __init__(
        self,
        embedding: IntersectionEmbedding,
        mixtures: Tensor,
        margins: Tensor,
        features: Tensor,
        places: Tensor,
        shape: tuple[int, int],
        alignment: float,
        seed: int,
    ) -> None:
        super().__init__(list(embedding.parameters()))
        self.embedding = embedding
        self.mixtures, self.margins, self.features = mixtures, margins, features  # (s, s), (s, s), (n, d)
        self.images = ClassImages.of(places)
        self.classes_per_episode, self.images_per_class = min(shape[0], len(mixtures)), shape[1]
        self.alignment = alignment
        self.seed = derive_seed(seed, "tasks")

    def draw(self, first: int, n_steps: int) -> Draw:
        """Classes (n_steps, M) and images of each, (n_steps, M, N)."""
        device = self.features.device
        classes = draw_classes(len(self.mixtures), first, n_steps, self.classes_per_episode, self.seed, device)
        return {"classes": classes, "rows": draw_images(self.images, classes, first, self.images_per_class, self.seed)}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The mean hinge loss over images, plus that over classes."""
        classes, rows = task["classes"], task["rows"]  # (M,), (M, N)
        scores = self.embedding(self.features[rows.flatten()]) @ self.mixtures.T  # (M N, s)
        of_images = self._hinge(scores, classes.repeat_interleave(rows.shape[1]))
        of_classes = self._hinge(scores.reshape(*rows.shape, -1).mean(dim=1), classes)
        return of_images + self.alignment * of_classes

    def _hinge(self, scores: Tensor, places: Tensor) -> Tensor:
        own = scores.gather(1, places.unsqueeze(1)).squeeze(1)
        return ((scores + self.margins[places]).amax(dim=1) - own).mean()


def nearest_mixtures(targets: Vectors, corners: Vectors, penalty: float, tolerance: float = 1e-10) -> NDArray[np.float64]:
    """Shares z (c, s) on the simplex with the least 1/2 ||t - z' corners||^2 + penalty / 2 ||z||^2, for all targets (c, a).

    By Nesterov's projected gradient method for strongly convex functions.
    """
    middle = corners.mean(axis=0)  # shares add up to one: moving everything by it changes nothing but the conditioning
    corners, targets = (np.asarray(points - middle, dtype=np.float64) for points in (corners, targets))
    square = corners @ corners.T + penalty * np.eye(len(corners))  # (s, s)
    pull = targets @ corners.T  # (c, s)
    steepest = np.linalg.norm(square, 2)
    root = np.sqrt(steepest / penalty)
    momentum = (root - 1) / (root + 1)
    shares = ahead = np.full(pull.shape, 1 / len(corners))
    for _ in range(int(25 * root) + 100):
        moved = projected_on_simplex(ahead - (ahead @ square - pull) / steepest)
        ahead = moved + momentum * (moved - shares)
        change = np.abs(moved - shares).max(initial=0)
        shares = moved
        if change < tolerance:
            break
    return shares


def projected_on_simplex(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point of the simplex to each of the points (c, s): what is above a level that leaves a sum of one."""
    falling = -np.sort(-points, axis=1)
    levels = (np.cumsum(falling, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    last = np.count_nonzero(falling > levels, axis=1) - 1  # the entries that stay are the first ones
    return np.asarray(np.maximum(points - levels[np.arange(len(points)), last][:, None], 0))
