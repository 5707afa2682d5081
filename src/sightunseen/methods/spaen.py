"""SP-AEN: semantics-preserving adversarial embedding networks (Chen, Zhang, Xiao, Liu & Chang, CVPR 2018)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_below_one, check_number, check_whole
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.shared.adversarial import TurnObjective, frozen, gradient_penalty
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.ranking import summed_ranking


class AdversarialEmbedding(TurnObjective):
    """Losses of :class:`SPAEN`: ``critic_steps`` steps of the critic, then one of the embedders and the decoder."""

    model: "SPAEN"

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic."""
        features = self.features[batch["rows"]]
        with torch.no_grad():
            embedded, mapped = self.embedded(features, batch), self.model.reconstructive_(features)  # (n, a)
        return self.critic_loss(embedded, mapped, self.shares(batch))

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the embedders and the decoder."""
        features = self.features[batch["rows"]]
        embedded, mapped = self.embedded(features, batch), self.model.reconstructive_(features)  # (n, a)
        return self.embedding_loss(embedded, self.targets[batch["rows"]]) + self.reconstruction_loss(features, mapped)

    def embedded(self, features: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Embed features (n, d) by E, with dropout: (n, a)."""
        embedder = self.model.embedder_
        factors = embedder.dropout_factors(self.model.dropout, self.seed, batch["step"], len(features))
        found: Tensor = embedder(features, factors)
        return found

    def embedding_loss(self, embedded: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss of E: the ranking loss, minus the critic's value of the embeddings."""
        ranking = summed_ranking(embedded @ self.vectors.T, targets, self.model.margin)
        with frozen(self.model.critic_):
            realness: Tensor = self.model.critic_(embedded).mean()
        return ranking - self.model.adversarial_weight * realness

    def reconstruction_loss(self, features: Tensor, mapped: Tensor) -> Tensor:
        """Compute the loss of F and G: the squared reconstruction error plus a penalty on the norm of the embeddings."""
        missed: Tensor = (features - self.model.decoder_(mapped)).square().sum(dim=1).mean()
        stretched: Tensor = (mapped.norm(dim=1) / self.vectors.norm(dim=1).mean() - 1).square().mean()
        return missed + stretched

    def critic_loss(self, embedded: Tensor, mapped: Tensor, share: Tensor) -> Tensor:
        """Compute the Wasserstein loss of the critic, to which F's embeddings are real and E's are fake."""
        critic = self.model.critic_
        penalty = gradient_penalty(critic, mapped, embedded, share)
        distance: Tensor = critic(mapped).mean() - critic(embedded).mean()
        return self.model.gradient_penalty * penalty - distance


class SPAEN(GradientTrainedClassifier):
    """Semantics-preserving adversarial embedding network (SP-AEN): a ranking embedding that imitates an autoencoder's.

    Scores are E(x)' s. E is trained to rank and may forget what does not distinguish seen classes. F and the decoder G
    reconstruct features, G(F(x)) = x, so that F's embeddings keep it. A critic D separates embeddings of E and F, and E learns
    to deceive it:

        min_E max_D ranking(E) + beta (E[D(F(x))] - E[D(E(x))]),  min_{F, G} ||x - G(F(x))||^2

    As in the authors' code, D has a Wasserstein loss with gradient penalty, and the norm of F's embeddings is kept near that of
    class vectors.

    Differs from the paper: features are reconstructed instead of pixels; F and G are trained together with E instead of before
    it; the ranking loss includes all wrong classes; weights of the loss terms and the learning rate's schedule are other ones;
    and the authors' sigmoid on the critic, whose gradient vanishes, is left out. The budget ``full`` has the authors' width,
    batch size, learning rate, dropout and critic steps, and as many steps as their two stages, 2 x 200,000, those of the critic
    included.

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layer of E, F, G and D.
    margin : float, default=1.0
        Margin by which the score of an image's own class must exceed all other scores.
    adversarial_weight : float, default=1.0
        Weight beta of the adversarial term.
    critic_steps : int, default=1
        Number of steps of the critic between two steps of its opponent.
    gradient_penalty : float, default=10.0
        Weight of the critic's gradient penalty.
    dropout : float, default=0.0
        Probability with which an input of E's layers is dropped in training.
    n_steps : int, default=900
        Number of gradient steps, those of the critic included.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=3e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
        L2 penalty of Adam, added to the gradient.
    momentum : float, default=0.5
        Adam's beta 1; adversarial training needs a lower value than the usual 0.9.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default=3.0
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
        ``"embedder"`` (E), ``"reconstructive"`` (F), ``"decoder"`` (G) and ``"critic"`` (D).
    embedder_, reconstructive_, decoder_, critic_ : Perceptron
        The same networks.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import SPAEN
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = SPAEN(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"adversarial_weight": (0.1, 1.0, 3.0)}
    presets = {
        FULL: Preset(
            {
                "hidden": 1024,
                "critic_steps": 5,
                "dropout": 0.5,
                "n_steps": 400_000,
                "batch_size": 128,
                "learning_rate": 1e-4,
            },
            search={"adversarial_weight": (0.1, 1.0)},
        )
    }
    version = 2

    def __init__(
        self,
        hidden: int = 512,
        margin: float = 1.0,
        adversarial_weight: float = 1.0,
        critic_steps: int = 1,
        gradient_penalty: float = 10.0,
        dropout: float = 0.0,
        n_steps: int = 900,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        momentum: float = 0.5,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 3.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.margin = margin
        self.adversarial_weight = adversarial_weight
        self.critic_steps = critic_steps
        self.gradient_penalty = gradient_penalty
        self.dropout = dropout
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        for name in ("hidden", "critic_steps", "batch_size"):
            check_whole(name, getattr(self, name), 1, SIZE)
        for name in ("margin", "adversarial_weight", "gradient_penalty"):
            check_number(name, getattr(self, name), 0)
        check_below_one("dropout", self.dropout)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        features, attributes = int(self.n_features_in_), self.table_.vectors.shape[1]
        into = features, self.hidden, attributes
        self.embedder_ = Perceptron(into, rng, "leaky relu", "leaky relu")  # E
        self.reconstructive_ = Perceptron(into, rng, "leaky relu", "leaky relu")  # F
        self.decoder_ = Perceptron(into[::-1], rng, "leaky relu", "leaky relu")  # G
        self.critic_ = Perceptron((attributes, self.hidden, 1), rng, "leaky relu")  # D
        return {
            "embedder": self.embedder_,
            "reconstructive": self.reconstructive_,
            "decoder": self.decoder_,
            "critic": self.critic_,
        }

    def _objective(self, X: Tensor, targets: Tensor) -> AdversarialEmbedding:
        return AdversarialEmbedding(self, X, targets)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.embedder_(X) @ prepared.T
        return scores
