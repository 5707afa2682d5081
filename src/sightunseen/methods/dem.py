"""DEM: learning a deep embedding model for zero-shot learning (Zhang, Xiang & Gong, CVPR 2017), Eq. 1."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.shared.networks import Perceptron, as_layers
from sightunseen.methods.shared.objectives import ModelEpisodeObjective

SIMILARITIES = ("distance", "cosine")


class DEM(GradientTrainedClassifier):
    """Deep embedding model (DEM): a network maps class vectors into feature space, the nearest class wins.

    The network f has two layers with a ReLU between them and minimises the mean of ||x - f(s_y)||^2 with weight decay (Eq. 1).
    With ``similarity="distance"`` the scores are ||x||^2 - ||x - f(s)||^2, whose first term is equal for all classes.

    Differs from the paper: no ReLU after the last layer, so that f can reach any feature; features are standardised, which is
    better on validation classes of CUB; classes are compared by the cosine, as in the authors' code for the proposed splits;
    and an episode has as many images of each class, where the authors draw 100 of all images. The budget ``full`` has the
    authors' width, learning rate and number of images, less weight decay, as suits standardised features, and 200,000 steps,
    where they take up to 1,000,000.

    Parameters
    ----------
    hidden : int, default=700
        Width of the hidden layer.
    similarity : {"cosine", "distance"}, default="cosine"
        How images and embedded classes are compared: by the cosine or by the squared Euclidean distance.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="standard"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=600
        Number of gradient steps.
    classes_per_episode : int, default=32
        Number of classes per episode; all seen classes if there are fewer.
    images_per_class : int, default=4
        Number of images per class in an episode.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=2e-4
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
        ``"embedding"`` (f).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import DEM
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = DEM(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"weight_decay": (2e-4, 1e-3, 5e-3)}
    presets = {
        FULL: Preset(
            {
                "hidden": 1200,
                "n_steps": 200_000,
                "classes_per_episode": 50,
                "images_per_class": 2,
                "learning_rate": 1e-5,
                "schedule": "constant",
            },
            search={"weight_decay": (2e-4, 1e-3)},
        )
    }
    version = 2
    unit_variance = True

    def __init__(
        self,
        hidden: int = 700,
        similarity: str = "cosine",
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        n_steps: int = 600,
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
        self.similarity = similarity
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
        """Validate hyperparameters."""
        super().check_settings()
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1, SIZE)

    def reference_panels(self) -> dict[str, Any]:
        """Return the methods of the paper's t-SNE figure, by title."""
        return paper_panels(self, "DEM")

    @torch.no_grad()
    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return the joint embedding space: scaled features (n, d) and embedded classes f(s), (c, d).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of labels, {"all", "seen", "unseen"} or None
            The classes; None stands for all.

        Returns
        -------
        images : ndarray of shape (n, d)
            Scaled features.
        classes : ndarray of shape (c, d)
            Embedded classes.
        """
        embedded = self._embedded(self.candidates(labels))
        return self._features(X), np.asarray(embedded.cpu().numpy())

    def classifier_map(self) -> ClassifierMap:
        """Return the layers of f."""
        network = self.networks_["embedding"]
        assert isinstance(network, Perceptron)
        first, last = network.layers
        return ClassifierMap(as_layers(first, last), self.similarity)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        return {"embedding": Perceptron(sizes, rng)}

    def _objective(self, X: Tensor, targets: Tensor) -> "Embedding":
        return Embedding(self, X, targets)

    def _embedded(self, labels: Labels) -> Tensor:
        embedded: Tensor = self.networks_["embedding"](self._vectors_on_device(labels))  # (c, d)
        return embedded

    def _prepare(self, labels: Labels) -> Tensor:
        embedded = self._embedded(labels)
        return functional.normalize(embedded, dim=1) if self.similarity == "cosine" else embedded

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        if self.similarity == "cosine":
            return functional.normalize(X, dim=1) @ prepared.T
        return 2 * X @ prepared.T - prepared.square().sum(dim=1)


class Embedding(ModelEpisodeObjective):
    """Eq. 1 on an episode, divided by the number of features, so that hyperparameters do not depend on that number."""

    def loss(self, episode: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean squared error between images and their embedded classes."""
        (embedding,) = self.networks
        embedded = embedding(self.vectors[episode["classes"]])  # (M, d)
        return functional.mse_loss(embedded[episode["labels"]], self.features[episode["rows"]])
