"""CMT: zero-shot learning through cross-modal transfer (Socher, Ganjoo, Manning & Ng, NIPS 2013), Sections 4 to 6."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective

LEAST_VARIANCE = 1e-6
VARIANCES = "novelty.variances"  # array of a model folder


class CMT(GradientTrainedClassifier):
    """Cross-modal transfer (CMT): a network maps images to class vectors; optionally, novelty detection (CMT*).

    The network f minimises the mean of ||s_y - f(x)||^2. The score of a class is the negative mean square of s_c - f(x): the
    nearest class vector among all candidates is predicted. This is CMT in the survey of Xian et al. (2018).

    With ``novelty=True``, CMT* in the survey, seen and unseen classes are separated first. Each seen class is an isotropic
    Gaussian around its vector, with the variance of its mapped training images. An image is novel if its largest log density
    g(x) is below a threshold T. For an image that is not novel, softmax regression on the features decides among the seen
    classes; for a novel one, the nearest class vector decides among the unseen classes. The decision is expressed in scores. A
    seen class c has the score g(x) - T + log p(c | x) - max log p(. | x), so that the largest of them is g(x) - T; for a novel
    image it is one less, below the scores of all unseen classes. An unseen class has -q / (1 + q), where q is the mean square
    of s_c - f(x) relative to the mean variance of the seen classes. This preserves the order of the distances and lies between
    -1 and 0.

    Differs from the paper: Adam on mini-batches instead of L-BFGS, one threshold T for all seen classes, and no second novelty
    detector (local outlier probabilities); because of its scores, ``seen_penalty`` raises T, to within one nat.

    Parameters
    ----------
    novelty : bool, default=False
        Detect novel images.
    hidden : int, default=256
        Width of the hidden layer, which has a tanh activation.
    kept : float, default=0.95
        Share of the training images that are not novel; defines T. Used with ``novelty=True``.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="standard"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=400
        Number of gradient steps.
    images_per_episode : int, default=128
        Number of images per mini-batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=1e-3
        L2 penalty of Adam, added to the gradient.
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
        ``"mapping"`` (f) and, with ``novelty=True``, ``"softmax"`` and ``"novelty"``.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import CMT
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = CMT(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"weight_decay": (1e-4, 1e-3, 1e-2)}
    unit_variance = True
    presets = {FULL: Preset({"hidden": 1024, "n_steps": 10_000})}
    version = 3
    earlier_settings = {"novelty": True}  # models of 0.2.0 always detect novel images

    def __init__(
        self,
        novelty: bool = False,
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
        self.novelty = novelty
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
        """Validate hyperparameters."""
        super().check_settings()
        check_choice("novelty", self.novelty, (True, False))
        check_whole("hidden", self.hidden, 1, SIZE)
        check_whole("images_per_episode", self.images_per_episode, 1, SIZE)
        check_number("kept", self.kept, 0, most=1)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size, n_seen = self.table_.vectors.shape[1], int(self.n_features_in_), len(self.seen_classes_)
        mapping = Perceptron((size, self.hidden, semantic_size), rng, "tanh")
        if not self.novelty:
            return {"mapping": mapping}
        return {"mapping": mapping, "softmax": Perceptron((size, n_seen), rng), "novelty": Novelty(n_seen)}

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        expected = super()._expected_arrays(arrays)
        return {**expected, VARIANCES: positive("s")} if self.novelty else expected

    def _objective(self, X: Tensor, targets: Tensor) -> "Transfer":
        return (TransferWithNovelty if self.novelty else Transfer)(self, X, targets)

    def _prepare(self, labels: Labels) -> tuple[Tensor, ...]:
        if not self.novelty:
            return (self._vectors_on_device(labels),)
        seen, n_seen = np.isin(labels, self.seen_classes_), len(self.seen_classes_)
        # The columns of the candidates in the scores of all seen classes, followed by those of the unseen candidates.
        columns = np.where(seen, np.searchsorted(self.seen_classes_, labels), n_seen + np.cumsum(~seen) - 1)
        vectors = self._vectors_on_device(self.seen_classes_), self._vectors_on_device(labels[~seen])
        return *vectors, torch.as_tensor(columns, device=self._device)

    def _score_images(self, X: Tensor, prepared: tuple[Tensor, ...]) -> Tensor:
        mapped: Tensor = self.networks_["mapping"](X)  # (n, a)
        if not self.novelty:
            return -squared_distances(mapped, prepared[0]) / mapped.shape[1]
        seen_vectors, unseen_vectors, columns = prepared
        classified = functional.log_softmax(self.networks_["softmax"](X), dim=1)  # (n, s)
        known = self.networks_["novelty"](mapped, seen_vectors)[:, None]
        known = torch.where(known < 0, known - 1, known)  # seen classes of a novel image: below all unseen ones
        seen = known + classified - classified.max(dim=1, keepdim=True).values
        variance = cast(Novelty, self.networks_["novelty"]).variances.mean()
        ratio = squared_distances(mapped, unseen_vectors) / (mapped.shape[1] * variance)
        return torch.cat([seen, -ratio / (1 + ratio)], dim=1)[:, columns]


class Novelty(nn.Module):
    """Novelty detection: the largest log density g(x) of a mapped image under the Gaussians of the seen classes, minus T.

    Parameters
    ----------
    n_seen : int
        Number of seen classes.
    """

    variances: Tensor
    threshold: Tensor

    def __init__(self, n_seen: int) -> None:
        super().__init__()
        self.register_buffer("variances", torch.ones(n_seen))
        self.register_buffer("threshold", torch.zeros(()))

    @torch.no_grad()
    def learn(self, mapped: Tensor, targets: Tensor, vectors: Tensor, kept: float) -> None:
        """Estimate the variance of each class and the threshold.

        Parameters
        ----------
        mapped : Tensor of shape (n, a)
            Mapped training images.
        targets : Tensor of shape (n,)
            Indices of their classes.
        vectors : Tensor of shape (s, a)
            Vectors of the seen classes.
        kept : float
            Share of the images whose density is above the threshold.
        """
        squares = (mapped - vectors[targets]).square().mean(dim=1)  # (n,)
        sums = torch.zeros_like(self.variances).index_add_(0, targets, squares)
        self.variances.copy_((sums / torch.bincount(targets, minlength=len(vectors))).clamp_min(LEAST_VARIANCE))
        self.threshold.zero_()
        self.threshold.copy_(torch.from_numpy(np.quantile(self(mapped, vectors).cpu().numpy(), [1 - kept]))[0])

    def forward(self, mapped: Tensor, vectors: Tensor) -> Tensor:
        """Compute g(x) - T, (n,), of mapped images (n, a) for the vectors (s, a) of the seen classes; g omits a constant."""
        distances = squared_distances(mapped, vectors)  # (n, s)
        densities = -0.5 * (distances / self.variances + mapped.shape[1] * self.variances.log())
        return densities.max(dim=1).values - self.threshold


class Transfer(BatchObjective):
    """Loss of the mapping, on mini-batches.

    Parameters
    ----------
    model : CMT
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    def __init__(self, model: CMT, features: Tensor, targets: Tensor) -> None:
        seed = derive_seed(model.seed, "tasks")
        super().__init__(model._trained_parameters(), features, targets, model.images_per_episode, seed)
        self.model, self.vectors = model, model._vectors_on_device(model.seen_classes_)
        self.mapping = model.networks_["mapping"]

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean of ||s_y - f(x)||^2 over images and attributes."""
        features, targets = self.features[batch["rows"]], self.targets[batch["rows"]]
        return functional.mse_loss(self.mapping(features), self.vectors[targets])


class TransferWithNovelty(Transfer):
    """Sum of the losses of the mapping and of the softmax regression. The two share no parameters.

    Parameters are those of :class:`Transfer`.
    """

    def __init__(self, model: CMT, features: Tensor, targets: Tensor) -> None:
        super().__init__(model, features, targets)
        self.softmax, self.novelty = model.networks_["softmax"], cast(Novelty, model.networks_["novelty"])

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the mapping plus the mean of -log p(y | x)."""
        features, targets = self.features[batch["rows"]], self.targets[batch["rows"]]
        return super().loss(batch) + functional.cross_entropy(self.softmax(features), targets)

    @torch.no_grad()
    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Estimate the Gaussians with the current mapping, so that the model can be used at any time."""
        self.novelty.learn(self.mapping(self.features), self.targets, self.vectors, self.model.kept)

    def memory(self) -> dict[str, Tensor]:
        """Return variances and threshold."""
        return self.novelty.state_dict()

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore variances and threshold."""
        self.novelty.load_state_dict(memory)


def squared_distances(one: Tensor, other: Tensor) -> Tensor:
    """Compute squared Euclidean distances (n, c) between rows (n, a) and (c, a)."""
    # Not by products of the rows, which lose all digits of a small distance.
    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist").square()
