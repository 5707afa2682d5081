"""SSE: zero-shot learning via semantic similarity embedding (Zhang & Saligrama, ICCV 2015)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_positive, check_whole
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.base.sizes import mean_between
from sightunseen.methods.shared.objectives import ModelEpisodeObjective

MOST_ITERATIONS = 20_000  # of the mixtures; reached only if the penalty is a millionth of the vectors' size


class SSE(GradientTrainedClassifier):
    """Semantic similarity embedding (SSE): images and classes are compared as mixtures of seen classes.

    The mixture of a class with vector a is z = argmin 1/2 ||a - sum_s z_s a_s||^2 + gamma / 2 ||z||^2 over the simplex, for
    seen and unseen classes. The similarity of an image to the seen class s is w' min(x, v_s) (SSE-INT) with shared weights w >=
    0. The score of a class is sum_s z_s w' min(x, v_s). The loss of an episode is the hinge loss max_c(margin_yc + score_c) -
    score_y of its images among all seen classes, plus ``alignment`` times that of the mean embedding of each class, plus the
    penalties ``weight_penalty`` / 2 times the mean of w^2 and ``prototype_penalty`` / 2 times the mean of v^2. The margin is
    the squared distance between two class vectors, relative to its mean.

    Differs from the paper: w and v are updated jointly by Adam on episodes instead of in turn, prototypes start at class means,
    and penalties are relative to the scale of the features. There is one mapping: since max(0, x - v) = x - min(x, v) and a
    mixture sums to one, SSE-ReLU with -w ranks classes as SSE-INT with w.

    Parameters
    ----------
    mixture_penalty : float, default=3.0
        Gamma, relative to the mean squared norm of the seen classes' vectors.
    alignment : float, default=1.0
        Weight of the loss of the mean embeddings.
    weight_penalty : float, default=0.0
        Penalty on the weights w, which are 1 before training.
    prototype_penalty : float, default=0.0
        Penalty on the prototypes v, relative to the mean square of the features.
    initial_scale : float, default=10.0
        Scale of the scores before training.
    n_steps : int, default=200
        Number of gradient steps.
    classes_per_episode : int, default=32
        Number of classes per episode; all seen classes if there are fewer.
    images_per_class : int, default=2
        Number of images per class in an episode.
    learning_rate : float, default=3e-2
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
        L2 penalty of Adam, added to the gradient.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default=1.0
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training and prediction; ``"auto"`` uses a GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    networks_ : dict
        ``"embedding"``.
    embedding_ : IntersectionEmbedding
        The same network, with the parameters ``weights`` (w) and ``prototypes`` (v).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import SSE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = SSE(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"mixture_penalty": (1.0, 3.0, 6.0), "weight_penalty": (0.0, 0.1), "prototype_penalty": (0.0, 0.3)}
    presets = {FULL: Preset({"n_steps": 5_000})}
    version = 2

    def __init__(
        self,
        mixture_penalty: float = 3.0,
        alignment: float = 1.0,
        weight_penalty: float = 0.0,
        prototype_penalty: float = 0.0,
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
        self.weight_penalty = weight_penalty
        self.prototype_penalty = prototype_penalty
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
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("classes_per_episode", self.classes_per_episode, 1, SIZE)
        check_whole("images_per_class", self.images_per_class, 1, SIZE)
        for name in ("mixture_penalty", "initial_scale"):
            check_positive(name, getattr(self, name))
        for name in ("alignment", "weight_penalty", "prototype_penalty"):
            check_number(name, getattr(self, name), 0)

    def mixtures_of(self, labels: Labels) -> NDArray[np.float64]:
        """Return the mixtures of classes.

        Parameters
        ----------
        labels : ndarray of shape (c,)
            Labels of the classes.

        Returns
        -------
        ndarray of shape (c, s)
            Shares of the seen classes.
        """
        return self._mixtures[np.searchsorted(self.classes_, labels)]

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        corners = self._vectors_of(self.seen_classes_)
        size = float(np.square(corners).sum(axis=1).mean()) or 1.0
        self._mixtures = np.empty((len(self.classes_), len(corners)))
        # Separately: the mixtures of the seen classes, which training depends on, must not depend on the unseen classes.
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

    def _objective(self, X: Tensor, targets: Tensor) -> "MixtureAlignment":
        self.embedding_.start_at(X, targets)
        vectors = self._vectors_of(self.seen_classes_)
        distances = cdist(vectors, vectors, "sqeuclidean")  # (s, s)
        objective = MixtureAlignment(self, X, targets)
        objective.mixtures = self._prepare(self.seen_classes_)
        objective.margins = self._on_device(distances / mean_between(distances))
        return objective

    def _prepare(self, labels: Labels) -> Tensor:
        return self._on_device(self.mixtures_of(labels))

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        similarity: Tensor = self.embedding_(X)
        return similarity @ prepared.T

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        self._signed = np.size(arrays.get("embedding.weights", ())) > self.n_features_in_
        return {**super()._expected_arrays(arrays), "embedding.size": positive()}


class IntersectionEmbedding(nn.Module):
    """Similarity (n, s) of images (n, d) to seen classes: scale / sqrt(d) sum_k w_k min(x_k, v_sk) / size.

    ``size`` is the root mean square of the training features, the unit of v, so that learning rates do not depend on their
    scale.

    Parameters
    ----------
    n_classes, n_features : int
        s and d.
    scale : float
        Scale of the initial similarities.
    signed : bool, default=False
        Split features into positive and negative parts, 2d in total; the intersection is defined for non-negative features.
    """

    size: Tensor

    def __init__(self, n_classes: int, n_features: int, scale: float, signed: bool = False) -> None:
        super().__init__()
        self.scale, self.signed = scale / n_features**0.5, signed
        self.prototypes = nn.Parameter(torch.zeros(n_classes, n_features * (1 + signed)))  # v / size
        self.weights = nn.Parameter(torch.ones(n_features * (1 + signed)))
        self.register_buffer("size", torch.ones(()))

    @torch.no_grad()
    def start_at(self, X: Tensor, targets: Tensor) -> None:
        """Initialise the prototypes with the class means of features (n, d) with class indices (n,)."""
        size = X.square().mean(dtype=torch.float64).sqrt().float()
        self.size.copy_(torch.where(size > 0, size, torch.ones_like(size)))
        counts = torch.bincount(targets, minlength=len(self.prototypes))
        sums = torch.zeros_like(self.prototypes).index_add_(0, targets, self._parts(X))
        self.prototypes.copy_(sums / counts.unsqueeze(1) / self.size)

    def forward(self, X: Tensor) -> Tensor:
        """Compute the similarity (n, s) of images (n, d) to all prototypes."""
        weights = torch.relu(self.weights)
        images, prototypes = self._parts(X) / self.size * weights, self.prototypes * weights  # (n, d), (s, d)
        # 2 min(x, v) = x + v - |x - v|, which leaves an L1 distance to compute.
        distances = torch.cdist(images, prototypes, p=1)
        similarity: Tensor = self.scale / 2 * (images.sum(dim=1, keepdim=True) + prototypes.sum(dim=1) - distances)
        return similarity

    def _parts(self, X: Tensor) -> Tensor:
        return torch.cat([torch.relu(X), torch.relu(-X)], dim=1) if self.signed else X


class MixtureAlignment(ModelEpisodeObjective):
    """Hinge losses of an episode's images and of its classes' mean embeddings, among all seen classes, plus the penalties."""

    model: SSE
    mixtures: Tensor  # (s, s)
    margins: Tensor  # (s, s)

    def loss(self, episode: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean hinge loss over images, plus the weighted mean over classes, plus the penalties."""
        embedding, classes = self.model.embedding_, episode["classes"]  # (M,)
        scores = embedding(self.features[episode["rows"]]) @ self.mixtures.T  # (M N, s)
        of_images = self._hinge(scores, classes[episode["labels"]])
        of_classes = self._hinge(scores.reshape(len(classes), self.images_per_class, -1).mean(dim=1), classes)
        weights, prototypes = embedding.weights.square().mean(), embedding.prototypes.square().mean()
        penalties = self.model.weight_penalty * weights + self.model.prototype_penalty * prototypes
        return of_images + self.model.alignment * of_classes + penalties / 2

    def _hinge(self, scores: Tensor, targets: Tensor) -> Tensor:
        own = scores.gather(1, targets.unsqueeze(1)).squeeze(1)
        return ((scores + self.margins[targets]).amax(dim=1) - own).mean()


def nearest_mixtures(targets: Vectors, corners: Vectors, penalty: float, tolerance: float = 1e-10) -> NDArray[np.float64]:
    """Minimise 1/2 ||t - z' corners||^2 + penalty / 2 ||z||^2 over the simplex, for all targets t.

    Solved by Nesterov's projected gradient method for strongly convex functions.

    Parameters
    ----------
    targets : ndarray of shape (c, a)
        Vectors to approximate.
    corners : ndarray of shape (s, a)
        Vectors that are mixed.
    penalty : float
        Gamma.
    tolerance : float, default=1e-10
        Largest change of a share at which the iteration stops.

    Returns
    -------
    ndarray of shape (c, s)
        Mixtures z.
    """
    middle = corners.mean(axis=0)  # mixtures sum to one, so that centring changes only the conditioning
    corners, targets = (np.asarray(points - middle, dtype=np.float64) for points in (corners, targets))
    square = corners @ corners.T + penalty * np.eye(len(corners))  # (s, s)
    pull = targets @ corners.T  # (c, s)
    steepest = np.linalg.norm(square, 2)
    root = np.sqrt(steepest / penalty)
    momentum = (root - 1) / (root + 1)
    shares = ahead = np.full(pull.shape, 1 / len(corners))
    for _ in range(min(int(25 * root) + 100, MOST_ITERATIONS)):
        moved = projected_on_simplex(ahead - (ahead @ square - pull) / steepest)
        ahead = moved + momentum * (moved - shares)
        change = np.abs(moved - shares).max(initial=0)
        shares = moved
        if change < tolerance:
            break
    return shares


def projected_on_simplex(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project each row of points (c, s) onto the simplex."""
    falling = -np.sort(-points, axis=1)
    levels = (np.cumsum(falling, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    last = np.count_nonzero(falling > levels, axis=1) - 1  # index of the smallest entry that stays positive
    return np.asarray(np.maximum(points - levels[np.arange(len(points)), last][:, None], 0))
