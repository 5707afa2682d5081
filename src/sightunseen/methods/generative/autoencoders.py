"""Parts of variational autoencoders and VAE-GANs: Gaussian encoders, the KL divergence, reconstruction, semantic decoders."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.methods.shared.networks import ACTIVATIONS, Perceptron


class GaussianEncoder(nn.Module):
    """Network from an input to the mean and the log variances of a Gaussian over latent vectors.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the input, the hidden layers and the latent vector.
    rng : torch.Generator
        Random numbers of the initial weights.
    activation : str, default="relu"
        Activation of the hidden layers, a key of ``ACTIVATIONS``.
    """

    def __init__(self, sizes: Sequence[int], rng: torch.Generator, activation: str = "relu") -> None:
        super().__init__()
        self.network = Perceptron((*sizes[:-1], 2 * sizes[-1]), rng, activation)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and log variances, each (..., z), of inputs (..., d)."""
        mean, log_variance = self.network(values).chunk(2, dim=-1)
        return mean, log_variance


class SemanticDecoder(Perceptron):
    """Network from features (n, d) to class vectors (n, a) of unit length, whose hidden layer is also used.

    Parameters
    ----------
    n_features, hidden, semantic_size : int
        Sizes of the input, the hidden layer and the output.
    rng : torch.Generator
        Random numbers of the initial weights.
    """

    def __init__(self, n_features: int, hidden: int, semantic_size: int, rng: torch.Generator) -> None:
        super().__init__((n_features, hidden, semantic_size), rng, "leaky relu", "unit")

    def hidden(self, features: Tensor) -> Tensor:
        """Compute the hidden layer (n, h) of features (n, d)."""
        return ACTIVATIONS[self.activation](self.layers[0](features))

    def decoded(self, hidden: Tensor) -> Tensor:
        """Compute class vectors (n, a) from the hidden layer (n, h)."""
        return ACTIVATIONS[self.last](self.layers[1](hidden))


def reparametrised(mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
    """Sample a Gaussian as a differentiable function of its parameters: mean + deviation * noise.

    Parameters
    ----------
    mean, log_variance : Tensor of shape (n, z)
        Parameters of the Gaussians.
    noise : Tensor of shape (n, z) or (n, 1)
        Standard normal random numbers.

    Returns
    -------
    Tensor of shape (n, z)
        The samples.
    """
    return mean + torch.exp(0.5 * log_variance) * noise


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Compute KL(N(mean, variance) || N(0, 1)), summed over dimensions and averaged over images.

    Parameters
    ----------
    mean, log_variance : Tensor of shape (n, z)
        Parameters of the Gaussians.

    Returns
    -------
    Tensor of shape ()
        The divergence.
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean()


def reconstruction_loss(features: Tensor, reconstructed: Tensor, binary: bool) -> Tensor:
    """Compute the loss of reconstructed features, summed over features and averaged over images.

    Parameters
    ----------
    features, reconstructed : Tensor of shape (n, d)
        The features and their reconstruction.
    binary : bool
        Whether the loss is the binary cross-entropy, for values from 0 to 1, instead of the squared error.

    Returns
    -------
    Tensor of shape ()
        The loss.
    """
    if binary:
        return functional.binary_cross_entropy(reconstructed, features, reduction="sum") / len(features)
    return (features - reconstructed).square().sum(dim=1).mean()


def semantic_loss(decoded: Tensor, vectors: Tensor) -> Tensor:
    """Compute the L1 distance of decoded class vectors (n, a) from those of the classes, scaled to unit length.

    This is the distance of the paper of TF-VAEGAN; its code weights the differences as
    :func:`~sightunseen.methods.generative.alignment.regression_loss` does.

    Parameters
    ----------
    decoded : Tensor of shape (n, a)
        Output of a :class:`SemanticDecoder`.
    vectors : Tensor of shape (n, a)
        Class vectors of any length.

    Returns
    -------
    Tensor of shape ()
        The distance, averaged over images.
    """
    return (decoded - functional.normalize(vectors, dim=1)).abs().sum(dim=1).mean()
