"""What methods that synthesise features share: adversaries taking turns, and a softmax classifier trained on features."""

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

STEP = 0.3  # how far a first step of the softmax classifier moves a score


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """The network's parameters get no gradient from what is computed here; what flows through it does."""
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def linear_layers(network: Perceptron) -> list[nn.Linear]:
    """The network's layers, first to last."""
    return [layer for layer in network.layers if isinstance(layer, nn.Linear)]


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Mean of (||critic'(x)|| - 1)^2 at x between real and fake (n, d), ``share`` (n, 1) of the way from fake to real."""
    between = (share * real + (1 - share) * fake).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)  # (n, d)
    return excess(slopes)


def excess(slopes: Tensor) -> Tensor:
    """Mean of (||slope|| - 1)^2 over slopes (n, d)."""
    lengths = torch.sqrt(slopes.square().sum(dim=1) + 1e-12)  # whose gradient is finite where the critic is flat
    return (lengths - 1).square().mean()


@torch.no_grad()
def synthesise(generator: Perceptron, vectors: Tensor, noise_size: int, n_images: int, seed: int) -> Tensor:
    """Features of ``n_images`` a class, class after class: vectors (c, a) -> (c * n_images, d).

    Every class gets the same noise: nothing but its vector tells it from others, whatever its label and company.
    """
    noise = draw_normal(derive_seed(seed, "synthesis"), torch.zeros((), dtype=torch.long), (n_images, noise_size))
    noise = noise.to(vectors.device)
    return torch.cat([generator(torch.cat([noise, vector.expand(n_images, -1)], dim=1)) for vector in vectors])


class SoftmaxTraining(BatchObjective):
    """Softmax regression on features (n, d) of classes at ``places`` (n,), in mini-batches."""

    def __init__(self, features: Tensor, places: Tensor, n_classes: int, batch_size: int, seed: int) -> None:
        self.weight = nn.Parameter(features.new_zeros(n_classes, features.shape[1]))
        self.bias = nn.Parameter(features.new_zeros(n_classes))
        super().__init__([self.weight, self.bias], features, places, batch_size, seed)

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy."""
        scores = self.features[task["rows"]] @ self.weight.T + self.bias  # (n, c)
        return cross_entropy(scores, self.places[task["rows"]])


def train_softmax(
    features: Tensor, places: Tensor, n_classes: int, seed: int, n_steps: int, batch_size: int = 256
) -> tuple[Tensor, Tensor]:
    """Weights (c, d) and biases (c,) of softmax regression, by ``n_steps`` mini-batches."""
    # Around their mean, which would otherwise drown what tells features apart.
    mean = features.mean(dim=0)
    centred = features - mean
    objective = SoftmaxTraining(centred, places, n_classes, min(batch_size, len(features)), derive_seed(seed, "softmax"))
    # A step of Adam moves every weight by about its learning rate, and so a score by that times the sum of the features.
    size = float(centred.abs().sum(dim=1).mean())
    with torch.enable_grad():
        train(Run(objective, Optimisation(n_steps, STEP / max(size, 1.0), schedule="cosine")))
    weight = objective.weight.detach()
    return weight, objective.bias.detach() - weight @ mean
