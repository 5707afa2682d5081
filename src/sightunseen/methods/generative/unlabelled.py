"""Adaptation of a VAE-GAN to unlabelled images: a critic of the marginal distribution of features of unseen classes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sightunseen.core.errors import ModelError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.generative.critics import critic_terms, initialised
from sightunseen.methods.generative.penalties import PenaltyWeight
from sightunseen.methods.generative.vaegan import VAEGANTraining
from sightunseen.methods.shared.adversarial import frozen
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.training import Draw, Objective
from sightunseen.training.episodes import draw_batches, draw_normal, draw_uniform


class UnlabelledTraining(Objective):
    """Training on seen classes, plus an unconditional critic that tells unlabelled images from generated ones.

    Parameters
    ----------
    seen : VAEGANTraining
        Losses on images of seen classes.
    features : Tensor of shape (m, d)
        Features of the unlabelled images.
    vectors : Tensor of shape (u, a)
        Class vectors of the unseen classes.
    unseen_weight : float
        Weight of the critic's value in the loss of the generator.
    batch_size : int
        Number of seen images, and of unlabelled images, per mini-batch.
    """

    def __init__(self, seen: VAEGANTraining, features: Tensor, vectors: Tensor, unseen_weight: float, batch_size: int) -> None:
        self.seen, self.model = seen, seen.model
        self.features, self.vectors = features, vectors
        self.unseen_weight, self.batch_size = unseen_weight, batch_size
        self.seed = derive_seed(self.model.seed, "adapting")
        seen.batch_size, seen.seed = batch_size, derive_seed(self.seed, "seen")
        self.turns = seen.turns
        self.critic = self.make_critic("marginal critic", features.shape[1], self.model.hidden)
        super().__init__([*seen.parameters, *self.critic.parameters()])
        self.penalty = PenaltyWeight(self.model.gradient_penalty, features.device, self.model.adaptive_penalty)
        self.shares = features.new_full((len(vectors),), 1 / len(vectors))  # prior of the unseen classes

    def make_critic(self, name: str, size: int, hidden: int) -> Perceptron:
        """Create an unconditional critic of vectors of some size, with initial weights of its own."""
        rng = torch.Generator().manual_seed(derive_seed(self.seed, name))
        critic = Perceptron((size, hidden, 1), rng, "leaky relu")
        initialised(critic, rng)
        return critic.to(self.features.device)

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw rows of seen and of unlabelled images, and the numbers of the steps."""
        seed, device = derive_seed(self.seed, "unlabelled"), self.features.device
        unlabelled = draw_batches(len(self.features), first, n_steps, self.batch_size, seed, device)
        return {**self.seen.draw(first, n_steps), "unlabelled": unlabelled}

    def unseen_vectors(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Draw class vectors (n, a) of unseen classes from their prior."""
        drawn = draw_uniform(derive_seed(self.seed, "unseen"), batch["step"], (self.batch_size,))
        classes = torch.searchsorted(self.shares.cumsum(0), drawn, right=True)
        return self.vectors[classes.clamp(max=len(self.vectors) - 1)]  # rounding may leave the last sum below one

    def unseen_noise(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Draw the noise (n, z) of features that are generated for unseen classes."""
        return draw_normal(derive_seed(self.seed, "noise"), batch["step"], (self.batch_size, self.model._latent))

    def between(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Draw the weights (n, 1) of real points in the interpolations of the gradient penalties."""
        return draw_uniform(derive_seed(self.seed, "between"), batch["step"], (self.batch_size, 1))

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        """Compute the loss of the critics or, in their last turn, of their opponents."""
        loss = self.seen.loss_in_turn(batch, turn)
        vectors, noise = self.unseen_vectors(batch), self.unseen_noise(batch)
        if self.seen.updates_critic(turn):
            return loss + self.critics_loss(batch, vectors, noise)
        self.penalty.update(self.model.critic_steps)
        return loss + self.opponents_loss(batch, vectors, noise)

    def critics_loss(self, batch: Mapping[str, Tensor], vectors: Tensor, noise: Tensor) -> Tensor:
        """Compute the loss of the critic of unlabelled images; ``vectors`` (n, a) and ``noise`` (n, z) generate fake ones."""
        with torch.no_grad():
            fake = self.seen.generated(noise, vectors)
        return self.critic_loss(self.features[batch["unlabelled"]], fake, self.between(batch))

    def critic_loss(self, real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
        """Compute the loss of the critic for real and fake features (n, d)."""
        distance, penalty = critic_terms(self.critic, real, fake, real[:, :0], share)
        return self.penalty(penalty) - distance

    def opponents_loss(self, batch: Mapping[str, Tensor], vectors: Tensor, noise: Tensor) -> Tensor:
        """Compute the loss of the generator on features of unseen classes."""
        return self.generator_loss(self.seen.generated(noise, vectors), vectors)

    def generator_loss(self, fake: Tensor, vectors: Tensor) -> Tensor:
        """Compute the loss of the generator for fake features (n, d) of unseen classes with ``vectors`` (n, a)."""
        with frozen(self.critic):
            value: Tensor = self.critic(fake).mean()
        return -self.unseen_weight * value

    def memory(self) -> dict[str, Tensor]:
        """Return the weights of both gradient penalties and the prior of the unseen classes."""
        own = {f"marginal.{name}": tensor for name, tensor in self.penalty.memory().items()}
        return {**self.seen.memory(), **own, "shares": self.shares.cpu().clone()}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the state returned by :meth:`memory`; raises ``ModelError`` if the prior does not fit the classes."""
        if memory["shares"].shape != self.shares.shape or bool((memory["shares"] < 0).any()):
            raise ModelError("its prior does not fit the unseen classes")
        self.seen.remember(memory)
        self.penalty.remember({name: memory[f"marginal.{name}"] for name in ("weight", "total")})
        self.shares.copy_(memory["shares"])
