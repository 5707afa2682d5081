"""Wasserstein critics with gradient penalty (Gulrajani et al., NIPS 2017), and conditional WGANs."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.randomness import derive_seed
from sightunseen.methods.shared.adversarial import TurnObjective, excess, frozen
from sightunseen.methods.shared.networks import LEAK, Perceptron
from sightunseen.training.episodes import draw_normal


def initialised(network: nn.Module, rng: torch.Generator) -> nn.Module:
    """Draw the weights of all layers with standard deviation 0.02, as in public code of feature generating GANs.

    Parameters
    ----------
    network : torch.nn.Module
        The network.
    rng : torch.Generator
        Random numbers.

    Returns
    -------
    torch.nn.Module
        The same network.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.02, generator=rng)
    return network


def start_at_mean(generator: Perceptron, features: Tensor) -> None:
    """Set the last bias of a generator such that it starts near the mean features, and no output ReLU is dead.

    Parameters
    ----------
    generator : Perceptron
        The generator, with small initial weights; modified in place.
    features : Tensor of shape (n, d)
        Features of the training images.
    """
    mean = features.mean(dim=0)
    with torch.no_grad():
        generator.layers[-1].bias.copy_(torch.logit(mean, eps=0.01) if generator.last == "sigmoid" else mean)


def critic_terms(critic: Perceptron, real: Tensor, fake: Tensor, vectors: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the estimated Wasserstein distance E[D(real)] - E[D(fake)] and the gradient penalty of a critic.

    Parameters
    ----------
    critic : Perceptron
        Network with one hidden layer of leaky ReLUs, from features and class vector, side by side, to a value.
    real, fake : Tensor of shape (n, d)
        Features.
    vectors : Tensor of shape (n, a)
        Class vectors of both; those of an unconditional critic have shape (n, 0).
    share : Tensor of shape (n, 1)
        Weight of the real features in each interpolation.

    Returns
    -------
    distance : Tensor of shape ()
        The distance.
    penalty : Tensor of shape ()
        The penalty; see :func:`gradient_penalty`.
    """
    first, second = critic.layers
    hidden = first(torch.cat([torch.cat([fake, real]), torch.cat([vectors, vectors])], dim=1))  # (2n, h)
    values_of_fake, values_of_real = second(functional.leaky_relu(hidden, LEAK)).chunk(2)
    # The first layer is linear, so its output at an interpolated image is the interpolation of the outputs, and the
    # gradient of a critic with one hidden layer is a product of its weights. This halves the cost of double backward.
    hidden_of_fake, hidden_of_real = hidden.detach().chunk(2)
    between = share * hidden_of_real + (1 - share) * hidden_of_fake
    steepness = torch.where(between > 0, second.weight, LEAK * second.weight)  # (n, h)
    # All columns are multiplied: the gradient of a slice of the weights would be copied to their full size.
    slopes = (steepness @ first.weight)[:, : real.shape[1]]  # (n, d)
    distance: Tensor = values_of_real.mean() - values_of_fake.mean()
    return distance, excess(slopes)


class ConditionalWGAN(TurnObjective):
    """Conditional Wasserstein GAN: steps of the critic, then one of the generator. A subclass implements ``opponent_step``.

    The model has the networks ``generator_``, from noise and class vector to features, and ``critic_``, from features and class
    vector to a value, and the hyperparameters ``noise_size``, ``critic_steps`` and ``gradient_penalty``.

    Parameters
    ----------
    model : GenerativeClassifier
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    @property
    def noise_size(self) -> int:
        """Length of the noise vectors."""
        return int(self.model._or_vector_size(self.model.noise_size))

    def noise(self, batch: Mapping[str, Tensor], stream: str = "noise") -> Tensor:
        """Draw standard normal noise (n, z) for the images of a batch from a random stream."""
        shape = len(batch["rows"]), self.noise_size
        return draw_normal(derive_seed(self.model.seed, stream), batch["step"], shape)

    def vectors_of(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the class vectors (n, a) of the images of a batch."""
        return self.vectors[self.targets[batch["rows"]]]

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic."""
        vectors = self.vectors_of(batch)
        with torch.no_grad():
            fake = self.model.generator_(torch.cat([self.noise(batch), vectors], dim=1))
        return self.critic_loss(self.features[batch["rows"]], fake, vectors, self.shares(batch))

    def critic_loss(self, real: Tensor, fake: Tensor, vectors: Tensor, share: Tensor) -> Tensor:
        """Compute the loss of the critic, E[D(fake)] - E[D(real)] plus the gradient penalty, for real and fake features."""
        distance, penalty = critic_terms(self.model.critic_, real, fake, vectors, share)
        loss: Tensor = self.model.gradient_penalty * penalty - distance
        return loss

    def realness(self, fake: Tensor, vectors: Tensor) -> Tensor:
        """Compute the mean value (scalar) of fake features (n, d) with class vectors (n, a), which the generator maximises."""
        with frozen(self.model.critic_):
            value: Tensor = self.model.critic_(torch.cat([fake, vectors], dim=1)).mean()
        return value
