"""Relation Network: learning to compare, its zero-shot variant (Sung, Yang, Zhang, Xiang, Torr & Hospedales, CVPR 2018)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import ModelEpisodeObjective

INITIAL_SCALE = 0.1  # of the last layer's initial weights, relative to He initialisation


class RelationNetwork(GradientTrainedClassifier):
    """Relation network: a learned comparison of image features and embedded classes.

    The relation of an image and a class is r = sigmoid(g([f(s), x])) (Eq. 2). The embedding f (a -> hidden -> d, a ReLU after
    both layers) maps classes into feature space; the relation module g (2d -> hidden -> 1, with a ReLU) compares. The loss is
    the mean of (r - 1)^2 over matching and r^2 over non-matching pairs of an episode (Eq. 3). Scores are g without the sigmoid,
    which has the same order and does not saturate.

    Differs from the paper: features are standardised; the last ReLU of f is leaky, because a class with zeros in all features
    could not be learned; the bias of g starts at the log odds of a matching pair, without which training failed; weight decay
    applies to g, too; and an episode has as many images of each class, where the authors draw 32 of all images. The budget
    ``full`` has the authors' 200,000 episodes of 32 images, 1200 units, learning rate and schedule.

    Parameters
    ----------
    hidden : int, default=256
        Width of the hidden layers.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="standard"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=800
        Number of gradient steps.
    classes_per_episode : int, default=32
        Number of classes per episode; all seen classes if there are fewer.
    images_per_class : int, default=2
        Number of images per class in an episode.
    learning_rate : float, default=5e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
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
        ``"embedding"`` (f) and ``"relation"`` (g).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import RelationNetwork
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = RelationNetwork(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"weight_decay": (0.0, 1e-5, 1e-4)}
    presets = {
        FULL: Preset(
            {
                "hidden": 1200,
                "n_steps": 200_000,
                "images_per_class": 1,
                "schedule": "halve every 30000",
                "weight_decay": 1e-5,
            },
            search={"learning_rate": (1e-5, 3e-5)},  # the authors', and a larger one for standardised features
        )
    }
    version = 2
    unit_variance = True

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
        """Validate hyperparameters."""
        super().check_settings()
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1, SIZE)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size = self.table_.vectors.shape[1], int(self.n_features_in_)
        embedding = Perceptron((semantic_size, self.hidden, size), rng, last="leaky relu")
        right = 1 / max(2, min(self.classes_per_episode, len(self.seen_classes_)))  # share of matching pairs in an episode
        return {"embedding": embedding, "relation": Relation(size, self.hidden, right, rng)}

    def _objective(self, X: Tensor, targets: Tensor) -> "Comparison":
        return Comparison(self, X, targets)

    def _prepare(self, labels: Labels) -> Tensor:
        embedded: Tensor = self.networks_["embedding"](self._vectors_on_device(labels))  # (c, d)
        return embedded

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        # One class at a time: all pairs at once, (n, c, hidden), would need hundreds of megabytes.
        relation = self.networks_["relation"]
        return torch.cat([relation(X, embedded) for embedded in prepared.unsqueeze(1)], dim=1)


class Relation(nn.Module):
    """Relation module g, a perceptron over [f(s), x], without its sigmoid.

    Its first layer is linear in the pair, W [f(s), x] = W_s f(s) + W_x x. Each half is computed once per class or image; only
    the hidden layer is computed per pair.

    Parameters
    ----------
    size : int
        Number of features d.
    hidden : int
        Width of the hidden layer.
    right : float
        Share of matching pairs in an episode; sets the initial bias.
    rng : torch.Generator
        Random numbers of the initial weights.
    """

    def __init__(self, size: int, hidden: int, right: float, rng: torch.Generator) -> None:
        super().__init__()
        self.first, self.second = Perceptron((2 * size, hidden, 1), rng).layers
        # Most pairs do not match. From a neutral start, the first steps only learn that and saturate the sigmoid. So the
        # bias starts at the log odds of a matching pair, and the weights start small.
        with torch.no_grad():
            self.second.weight.mul_(INITIAL_SCALE)
            self.second.bias.fill_(math.log(right / (1 - right)))

    def forward(self, X: Tensor, embedded: Tensor) -> Tensor:
        """Compare features (n, d) with embedded classes (c, d): (n, c)."""
        of_class, of_image = self.first.weight.chunk(2, dim=1)  # (hidden, d) each
        classes = functional.linear(embedded, of_class, self.first.bias)  # (c, hidden)
        pairs = torch.relu(functional.linear(X, of_image)[:, None] + classes)  # (n, c, hidden)
        found: Tensor = self.second(pairs)
        return found.squeeze(2)


class Comparison(ModelEpisodeObjective):
    """Eq. 3 on an episode: all pairs of its images and classes."""

    def loss(self, episode: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean of (r - 1)^2 over matching and r^2 over non-matching pairs."""
        embedding, relation = self.networks
        embedded = embedding(self.vectors[episode["classes"]])  # (M, d)
        found = torch.sigmoid(relation(self.features[episode["rows"]], embedded))  # (M * N, M)
        return functional.mse_loss(found, functional.one_hot(episode["labels"], len(embedded)).to(found))
