"""CN-ZSL: class normalization for (continual)? generalized zero-shot learning (Skorokhodov & Elhoseiny, ICLR 2021)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightunseen.core.array_checks import Expected
from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.cvc.scores import cosine_scores
from sightunseen.methods.shared.objectives import ModelBatchObjective
from sightunseen.training import Draw

DIVISORS = ("deviation", "variance")
SMALLEST_VARIANCE = 1e-5  # added to variances: a hidden unit that is constant over classes becomes zero


class CNZSL(GradientTrainedClassifier):
    """Class normalization (CN-ZSL): a network maps class vectors to prototypes; hidden units are standardised over the classes.

    The score is gamma^2 cos(x, p) with the prototype p = P(s). P is FC-ReLU-FC-CN-ReLU-CN-FC, followed by a ReLU if no training
    feature is negative. CN (Eq. 9) standardises each hidden unit over the seen classes. The loss is the cross-entropy over all
    seen classes, on mini-batches.

    Differs from the paper: predictions use the exact statistics of the seen classes instead of running averages; the first two
    layers have He initialisation; and the learning rate decays along a cosine instead of by ten after half of the training. The
    budget ``full`` has the authors' width, batch size, learning rate, weight decay and, on CUB, number of steps (50 epochs).

    Parameters
    ----------
    hidden : int, default=512
        Width of both hidden layers.
    scale : float, default=5.0
        Gamma, the norm to which features and prototypes are scaled.
    divisor : {"deviation", "variance"}, default="deviation"
        What CN divides by: the standard deviation (Eq. 9), or the variance as in the authors' notebook.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="none"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=200
        Number of gradient steps.
    batch_size : int, default=128
        Number of images per mini-batch.
    learning_rate : float, default=2e-3
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
        ``"prototypes"`` (P).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import CNZSL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = CNZSL(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"scale": (4.0, 5.0, 6.0)}
    presets = {
        FULL: Preset(
            {"hidden": 1024, "n_steps": 1_400, "batch_size": 256, "learning_rate": 5e-4, "weight_decay": 1e-4},
            search={"scale": (4.0, 5.0, 6.0), "divisor": DIVISORS},
        )
    }
    version = 2

    def __init__(
        self,
        hidden: int = 512,
        scale: float = 5.0,
        divisor: str = "deviation",
        feature_scaling: str = "none",
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
        self.divisor = divisor
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
        """Validate hyperparameters."""
        super().check_settings()
        check_number("scale", self.scale, 0)
        check_choice("divisor", self.divisor, DIVISORS)
        for name in ("hidden", "batch_size"):
            check_whole(name, getattr(self, name), 1, SIZE)

    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        return {"prototypes": PrototypeNetwork(*sizes, rng, self.divisor)}

    def _objective(self, X: Tensor, targets: Tensor) -> "PrototypeTraining":
        network = self.networks_["prototypes"]
        assert isinstance(network, PrototypeNetwork)
        network.least.fill_(0.0 if (X >= 0).all() else -math.inf)
        return PrototypeTraining(self, X, targets)

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        return {**super()._expected_arrays(arrays), "prototypes.least": Expected(least=-math.inf)}

    def _prepare(self, labels: Labels) -> Tensor:
        n_seen = len(self.seen_classes_)
        vectors = torch.cat([self._vectors_on_device(self.seen_classes_), self._vectors_on_device(labels)])
        prototypes: Tensor = self.networks_["prototypes"](vectors, n_seen)[n_seen:]
        return prototypes

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return cosine_scores(X, prepared, self.scale**2)


class PrototypeNetwork(nn.Module):
    """Map class vectors (c, a) to prototypes (c, d).

    The last layer is initialised with variance 1 / (d h) (Eq. 10): hidden units of variance 1 give prototypes of norm one,
    whose products with features have the variance of a feature. The other layers have He initialisation; biases start at zero.

    Parameters
    ----------
    semantic_size, hidden, feature_size : int
        a, h and d.
    rng : torch.Generator
        Random numbers of the initial weights.
    divisor : {"deviation", "variance"}, default="deviation"
        What class normalisation divides by.
    """

    least: Tensor  # lower bound of the prototypes: zero or minus infinity

    def __init__(
        self, semantic_size: int, hidden: int, feature_size: int, rng: torch.Generator, divisor: str = "deviation"
    ) -> None:
        super().__init__()
        self.divisor = divisor
        self.first = nn.Linear(semantic_size, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, feature_size)
        deviations = math.sqrt(2 / semantic_size), math.sqrt(2 / hidden), 1 / math.sqrt(feature_size * hidden)
        for layer, deviation in zip((self.first, self.second, self.last), deviations, strict=True):
            nn.init.normal_(layer.weight, 0.0, deviation, generator=rng)
            nn.init.zeros_(layer.bias)
        self.register_buffer("least", torch.tensor(-math.inf))

    def forward(self, vectors: Tensor, n_seen: int) -> Tensor:
        """Compute prototypes (c, d) of class vectors (c, a), with the statistics of the first ``n_seen`` classes."""
        values = self.second(torch.relu(self.first(vectors)))  # (c, h)
        values = torch.relu(class_normalised(values, n_seen, self.divisor))
        return torch.maximum(self.last(class_normalised(values, n_seen, self.divisor)), self.least)


def class_normalised(values: Tensor, n_seen: int, divisor: str = "deviation") -> Tensor:
    """Normalise each column of values (c, h) by the mean and variance of its first ``n_seen`` rows.

    Parameters
    ----------
    values : Tensor of shape (c, h)
        Values, those of the seen classes first.
    n_seen : int
        Number of seen classes.
    divisor : {"deviation", "variance"}, default="deviation"
        What the differences from the mean are divided by; the standard deviation is Eq. 9.

    Returns
    -------
    Tensor of shape (c, h)
        Normalised values.
    """
    variance, mean = torch.var_mean(values[:n_seen], dim=0, correction=0)
    variance = variance + SMALLEST_VARIANCE
    return (values - mean) * (torch.rsqrt(variance) if divisor == "deviation" else 1 / variance)


class PrototypeTraining(ModelBatchObjective):
    """Cross-entropy of mini-batches over the prototypes of all seen classes."""

    stream = "tasks"
    model: CNZSL

    def loss(self, batch: Draw) -> Tensor:
        """Compute the mean of -ln p(y | x)."""
        rows = batch["rows"]
        prototypes = self.model.networks_["prototypes"](self.vectors, len(self.vectors))
        return cross_entropy(
            cosine_scores(self.features.index_select(0, rows), prototypes, self.model.scale**2), self.targets[rows]
        )
