"""Building blocks of methods that synthesise features: gradient penalty, synthesis and softmax regression."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sightunseen.core.randomness import derive_seed
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective
from sightunseen.training import Optimisation, Run, train
from sightunseen.training.episodes import draw_normal

STEP = 0.3  # change of a score in the first step of the softmax classifier


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Exclude the parameters of a network from gradients; gradients still flow through the network.

    Parameters
    ----------
    network : torch.nn.Module
        The network.
    """
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Compute the gradient penalty of a critic, the mean of (||critic'(x)|| - 1)^2 between real and fake points.

    Parameters
    ----------
    critic : callable
        Function from points (n, d) to values (n,) or (n, 1).
    real, fake : Tensor of shape (n, d)
        Points.
    share : Tensor of shape (n, 1)
        Weight of the real point in each interpolation.

    Returns
    -------
    Tensor of shape ()
        The penalty.
    """
    between = (share * real + (1 - share) * fake).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)  # (n, d)
    return excess(slopes)


def excess(slopes: Tensor) -> Tensor:
    """Compute the mean of (||slope|| - 1)^2 over slopes (n, d)."""
    lengths = torch.sqrt(slopes.square().sum(dim=1) + 1e-12)  # the gradient stays finite where the critic is flat
    return (lengths - 1).square().mean()


@torch.no_grad()
def synthesise(generator: Perceptron, vectors: Tensor, noise_size: int, n_images: int, seed: int) -> Tensor:
    """Synthesise features of classes. All classes get the same noise, so that they differ by their vectors only.

    Parameters
    ----------
    generator : Perceptron
        Network from noise and class vector to features.
    vectors : Tensor of shape (c, a)
        Class vectors.
    noise_size : int
        Length of the noise vector.
    n_images : int
        Number of features per class.
    seed : int
        Seed of the noise.

    Returns
    -------
    Tensor of shape (c * n_images, d)
        Features, class by class.
    """
    noise = draw_normal(derive_seed(seed, "synthesis"), torch.zeros((), dtype=torch.long), (n_images, noise_size))
    noise = noise.to(vectors.device)
    return torch.cat([generator(torch.cat([noise, vector.expand(n_images, -1)], dim=1)) for vector in vectors])


class SoftmaxTraining(BatchObjective):
    """Softmax regression on mini-batches.

    Parameters
    ----------
    features : Tensor of shape (n, d)
        Features.
    targets : Tensor of shape (n,)
        Class indices.
    n_classes : int
        Number of classes.
    batch_size : int
        Number of images per mini-batch.
    seed : int
        Seed of the mini-batches.
    """

    def __init__(self, features: Tensor, targets: Tensor, n_classes: int, batch_size: int, seed: int) -> None:
        self.weight = nn.Parameter(features.new_zeros(n_classes, features.shape[1]))
        self.bias = nn.Parameter(features.new_zeros(n_classes))
        super().__init__([self.weight, self.bias], features, targets, batch_size, seed)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the cross-entropy."""
        scores = self.features[batch["rows"]] @ self.weight.T + self.bias  # (n, c)
        return cross_entropy(scores, self.targets[batch["rows"]])


def train_softmax(
    features: Tensor, targets: Tensor, n_classes: int, seed: int, n_steps: int, batch_size: int = 256
) -> tuple[Tensor, Tensor]:
    """Train a softmax regression with Adam.

    Parameters
    ----------
    features : Tensor of shape (n, d)
        Features.
    targets : Tensor of shape (n,)
        Class indices.
    n_classes : int
        Number of classes.
    seed : int
        Seed of the mini-batches.
    n_steps : int
        Number of gradient steps.
    batch_size : int, default=256
        Number of images per mini-batch.

    Returns
    -------
    weights : Tensor of shape (c, d)
        Weights.
    biases : Tensor of shape (c,)
        Biases.
    """
    # Centring: otherwise the common mean dominates the differences between classes.
    mean = features.mean(dim=0)
    centred = features - mean
    objective = SoftmaxTraining(centred, targets, n_classes, min(batch_size, len(features)), derive_seed(seed, "softmax"))
    # A step of Adam changes each weight by about the learning rate, and a score by that times the L1 norm of the features.
    size = float(centred.abs().sum(dim=1).mean())
    with torch.enable_grad():
        train(Run(objective, Optimisation(n_steps, STEP / max(size, 1.0), schedule="cosine")))
    weight = objective.weight.detach()
    return weight, objective.bias.detach() - weight @ mean
