"""SP-AEN: semantics-preserving adversarial embedding networks (Chen, Zhang, Xiao, Liu & Chang, CVPR 2018)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.generative.synthesis import frozen, gradient_penalty
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import TurnObjective
from sightunseen.methods.shared.ranking import summed_ranking
from sightunseen.training.episodes import draw_uniform


class EmbeddingTraining(TurnObjective):
    """The critic takes ``critic_steps`` tasks, then the embedders and the decoder one.

    Parameters
    ----------
    method : whose networks and settings these are.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    """

    def __init__(self, method: "SPAEN", vectors: Tensor, features: Tensor, places: Tensor) -> None:
        seed = derive_seed(method.seed, "batches")
        super().__init__(method._trained_parameters(), features, places, method.batch_size, seed)
        self.method, self.vectors = method, vectors
        self.length = vectors.norm(dim=1).mean()
        self.between = derive_seed(method.seed, "between")

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The loss of whose turn it is."""
        features = self.features[task["rows"]]
        steps = self.method.critic_steps
        if int(task["task"]) % (steps + 1) == steps:
            embedded, mapped = self.method.embedder_(features), self.method.reconstructive_(features)  # (n, a)
            return self.embedding_loss(embedded, self.places[task["rows"]]) + self.reconstruction_loss(features, mapped)
        with torch.no_grad():
            embedded, mapped = self.method.embedder_(features), self.method.reconstructive_(features)
        return self.critic_loss(embedded, mapped, draw_uniform(self.between, task["task"], (len(features), 1)))

    def embedding_loss(self, embedded: Tensor, places: Tensor) -> Tensor:
        """E's: rank an image's own class above the others, and look to the critic as if embedded by F."""
        ranking = summed_ranking(embedded @ self.vectors.T, places, self.method.margin)
        with frozen(self.method.critic_):
            realness: Tensor = self.method.critic_(embedded).mean()
        return ranking - self.method.adversarial_weight * realness

    def reconstruction_loss(self, features: Tensor, mapped: Tensor) -> Tensor:
        """F's and G's: give the features back, from embeddings about as long as class vectors."""
        missed: Tensor = (features - self.method.decoder_(mapped)).square().sum(dim=1).mean()
        stretched: Tensor = (mapped.norm(dim=1) / self.length - 1).square().mean()
        return missed + stretched

    def critic_loss(self, embedded: Tensor, mapped: Tensor, share: Tensor) -> Tensor:
        """The critic's: F's embeddings are real, E's are not."""
        critic = self.method.critic_
        penalty = gradient_penalty(critic, mapped, embedded, share)
        distance: Tensor = critic(mapped).mean() - critic(embedded).mean()
        return self.method.gradient_penalty * penalty - distance


class SPAEN(GradientTrainedClassifier):
    """Scores E(x)' s, where E also learns, by an adversary, to embed images as an auto-encoder's F would.

    E ranks: it may forget what does not tell seen classes apart. F and a decoder G reconstruct, G(F(x)) = x, so F's
    embeddings keep it. A critic D tells E's embeddings from F's, and E learns to pass for F:
    min_E max_D ranking(E) + beta (E[D(F(x))] - E[D(E(x))]), min_{F, G} ||x - G(F(x))||^2.

    The paper reconstructs pixels through a fixed image generator; here the input are features, and they are reconstructed.
    As in the authors' code the critic's is a Wasserstein loss with gradient penalty, and F's embeddings are kept as long as
    class vectors; their sigmoid on the critic, whose gradient dies where it
    is sure, and their dropout are left out.

    Parameters
    ----------
    hidden : width of the hidden layer of E, F, G and D.
    margin : by how much an image's own class must lead.
    adversarial_weight : beta.
    critic_steps, gradient_penalty : steps of the critic for each of the embedders, and the weight of its penalty.
    n_steps, batch_size : steps of critic and embedders together, and images in each.
    learning_rate, schedule, weight_decay, momentum : see :class:`~sightunseen.training.Optimisation`.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"adversarial_weight": (0.1, 1.0, 3.0)}

    def __init__(
        self,
        hidden: int = 512,
        margin: float = 1.0,
        adversarial_weight: float = 1.0,
        critic_steps: int = 1,
        gradient_penalty: float = 10.0,
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
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        for name in ("hidden", "critic_steps", "batch_size"):
            check_whole(name, getattr(self, name), 1)
        for name in ("margin", "adversarial_weight", "gradient_penalty"):
            check_number(name, getattr(self, name), 0)

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

    def _objective(self, X: Tensor, places: Tensor) -> EmbeddingTraining:
        return EmbeddingTraining(self, self._vectors_on_device(self.seen_classes_), X, places)

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        scores: Tensor = self.embedder_(X) @ prepared.T
        return scores
