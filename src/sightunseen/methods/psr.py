"""PSR: preserving semantic relations for zero-shot learning (Annadani & Biswas, CVPR 2018)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import ModelEpisodeObjective

PAIRS = ("all", "hard")


class PSR(GradientTrainedClassifier):
    """Preserving semantic relations (PSR): an encoder maps classes into feature space and keeps their similarities.

    Scores are the cosines of x and f(s). Let delta = cos(s_y - m, s_c - m), where m is the mean vector of the seen classes. To
    an image of class y, another class c is similar if delta is at least ``threshold``, and dissimilar otherwise. The loss of an
    episode is the sum of

        ||x - f(s_y)||^2 for its images
        relation * [delta - cos(x, f(s_c))]+ for similar pairs
        relation * [cos(x, f(s_c)) - delta]+ for dissimilar pairs
        reconstruction * ||s - g(f(s))||^2 for its classes, with the decoder g

    each a mean over images, pairs, classes and entries. With ``pairs="hard"``, the pairs of an image are the similar and the
    dissimilar class of the episode that violate their relation most.

    Differs from the paper: class similarities are centred on the mean vector, features are standardised, hard pairs are those
    of an episode, and whether all pairs or hard ones count is chosen on validation classes.

    Parameters
    ----------
    hidden : int, default=400
        Width of the hidden layers of encoder and decoder.
    threshold : float, default=0.3
        Smallest delta of similar classes.
    relation : float, default=1.0
        Weight of the relation term.
    pairs : {"all", "hard"}, default="all"
        Pairs of the relation term: all of an episode, or the most violated similar and dissimilar pair of each image.
    reconstruction : float, default=0.1
        Weight of the reconstruction term.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="standard"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=700
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
        ``"encoder"`` (f) and ``"decoder"`` (g).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import PSR
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = PSR(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"weight_decay": (2e-4, 1e-3), "relation": (0.1, 1.0), "pairs": PAIRS}
    unit_variance = True
    presets = {FULL: Preset({"hidden": 1024, "n_steps": 10_000})}
    version = 3

    def __init__(
        self,
        hidden: int = 400,
        threshold: float = 0.3,
        relation: float = 1.0,
        pairs: str = "all",
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
        self.pairs = pairs
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
        """Validate hyperparameters."""
        super().check_settings()
        check_number("threshold", self.threshold)
        check_number("relation", self.relation, 0)
        check_number("reconstruction", self.reconstruction, 0)
        check_choice("pairs", self.pairs, PAIRS)
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1, SIZE)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, size = self.table_.vectors.shape[1], int(self.n_features_in_)
        encoder = Perceptron((semantic_size, self.hidden, size), rng)
        return {"encoder": encoder, "decoder": Perceptron((size, self.hidden, semantic_size), rng)}

    def _objective(self, X: Tensor, targets: Tensor) -> "RelationLoss":
        return RelationLoss(self, X, targets)

    def _prepare(self, labels: Labels) -> Tensor:
        return functional.normalize(self.networks_["encoder"](self._vectors_on_device(labels)), dim=1)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return functional.normalize(X, dim=1) @ prepared.T


class RelationLoss(ModelEpisodeObjective):
    """Loss of :class:`PSR` on an episode.

    Parameters
    ----------
    model : PSR
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    model: PSR

    def __init__(self, model: PSR, features: Tensor, targets: Tensor) -> None:
        super().__init__(model, features, targets)
        # Features are standardised, so that their cosines are about zero on average. Cosines of raw class vectors, as in the
        # paper, are all positive, which such features cannot match; cosines of centred vectors can be matched.
        directions = functional.normalize(self.vectors - self.vectors.mean(dim=0), dim=1)
        self.similarities = directions @ directions.T  # (s, s), delta

    def loss(self, episode: Mapping[str, Tensor]) -> Tensor:
        """Compute the sum of the mapping, relation and reconstruction terms."""
        encoder, decoder = self.networks
        vectors, features, labels = self.vectors[episode["classes"]], self.features[episode["rows"]], episode["labels"]
        mapped = encoder(vectors)  # (M, d)
        mapping = functional.mse_loss(mapped[labels], features)
        reconstruction = functional.mse_loss(decoder(mapped), vectors)
        wanted = self.similarities[episode["classes"]][:, episode["classes"]][labels]  # (M * N, M): delta
        found = functional.normalize(features, dim=1) @ functional.normalize(mapped, dim=1).T
        similar = wanted >= self.model.threshold
        others = labels[:, None] != torch.arange(len(vectors), device=labels.device)
        violated = torch.where(similar, wanted - found, found - wanted).relu() * others
        if self.model.pairs == "hard":
            relation = (violated * similar).amax(dim=1).mean() + (violated * ~similar).amax(dim=1).mean()
        else:
            relation = violated.mean()
        return mapping + self.model.relation * relation + self.model.reconstruction * reconstruction
