"""Losses of VAE-GANs: a conditional variational autoencoder whose decoder is the generator of a Wasserstein GAN."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sightunseen.methods.generative.autoencoders import kl_divergence, reconstruction_loss, reparametrised
from sightunseen.methods.generative.critics import ConditionalWGAN, critic_terms
from sightunseen.methods.generative.penalties import PenaltyWeight

if TYPE_CHECKING:
    from sightunseen.methods.generative.fvaegan import FVAEGAN


class VAEGANTraining(ConditionalWGAN):
    """Losses of :class:`FVAEGAN`: ``critic_steps`` steps of the critic, then one of encoder and generator.

    Parameters
    ----------
    model : FVAEGAN
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    model: "FVAEGAN"

    def __init__(self, model: "FVAEGAN", features: Tensor, targets: Tensor) -> None:
        super().__init__(model, features, targets)
        self.penalty = PenaltyWeight(model.gradient_penalty, features.device, model.adaptive_penalty)
        self.penalty.weight = model.critic_.get_buffer("penalty_weight")  # saved with the critic, and continued by adapt

    @property
    def noise_size(self) -> int:
        """Length of the noise vectors, which is that of the latent vectors."""
        return self.model._latent

    def generated(self, latent: Tensor, vectors: Tensor) -> Tensor:
        """Generate features (n, d) from latent vectors (n, z) and class vectors (n, a)."""
        features: Tensor = self.model.generator_(torch.cat([latent, vectors], dim=1))
        return features

    def encoded(self, features: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and log variances, each (n, z), of the latent vectors of features."""
        mean, log_variance = self.model.encoder_(torch.cat([features, vectors], dim=1))
        return mean, log_variance

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic."""
        features, vectors = self.features[batch["rows"]], self.vectors_of(batch)
        with torch.no_grad():
            fake = self.generated(reparametrised(*self.encoded(features, vectors), self.noise(batch)), vectors)
        return self.critic_loss(features, fake, vectors, self.shares(batch))

    def critic_loss(self, real: Tensor, fake: Tensor, vectors: Tensor, share: Tensor) -> Tensor:
        """Compute the loss of the critic for real and fake features with the current weight of the gradient penalty."""
        distance, penalty = critic_terms(self.model.critic_, real, fake, vectors, share)
        return self.penalty(penalty) - distance

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of encoder and generator."""
        self.penalty.update(self.model.critic_steps)
        return self.autoencoder_loss(self.features[batch["rows"]], self.vectors_of(batch), self.noise(batch))

    def autoencoder_loss(self, features: Tensor, vectors: Tensor, noise: Tensor) -> Tensor:
        """Compute the loss of the variational autoencoder plus the adversarial loss of the reconstructed features."""
        mean, log_variance = self.encoded(features, vectors)
        fake = self.generated(reparametrised(mean, log_variance, noise), vectors)
        reconstruction = reconstruction_loss(features, fake, binary=self.model.generator_.last == "sigmoid")
        adversarial = self.model.adversarial_weight * self.realness(fake, vectors)
        return reconstruction + kl_divergence(mean, log_variance) - adversarial + self.further_loss(fake, vectors)

    def further_loss(self, fake: Tensor, vectors: Tensor) -> Tensor:
        """Compute further terms of the loss of the generator; by default none."""
        return fake.new_zeros(())

    def memory(self) -> dict[str, Tensor]:
        """Return the weight of the gradient penalty."""
        return {f"penalty.{name}": tensor for name, tensor in self.penalty.memory().items()}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the weight of the gradient penalty."""
        self.penalty.remember({name: memory[f"penalty.{name}"] for name in ("weight", "total")})
