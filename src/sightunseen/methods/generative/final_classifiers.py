"""Final classifiers of generative methods, trained on real and synthesised features: a softmax regression, or prototypes.

Both can be trained with zero-shot logit adjustment (Chen, Shen, Zhang & Torr, IJCAI 2022).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.randomness import derive_seed
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import BatchObjective
from sightunseen.training import Optimisation, Run, train

SOFTMAX, PROTOTYPES = "softmax", "prototypes"
FINAL_CLASSIFIERS = (SOFTMAX, PROTOTYPES)

STEP = 0.3  # change of a score in the first step of the softmax classifier
# As in the code of the authors of ZLAP, but for the optimisation. Theirs: about 900 steps on 512 images, learning rate 1e-4,
# halved every 30 epochs, momentum 0.5, initial weights of standard deviation 0.02.
TEMPERATURE = 0.04
PROTOTYPE_HIDDEN = 1024
PROTOTYPE_RATE = 1e-3
PROTOTYPE_DECAY = 1e-4


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
    adjustment : Tensor of shape (c,), default=None
        Log priors that are added to the scores of the classes in the loss; None: none.
    """

    def __init__(
        self, features: Tensor, targets: Tensor, n_classes: int, batch_size: int, seed: int, adjustment: Tensor | None = None
    ) -> None:
        self.weight = nn.Parameter(features.new_zeros(n_classes, features.shape[1]))
        self.bias = nn.Parameter(features.new_zeros(n_classes))
        super().__init__([self.weight, self.bias], features, targets, batch_size, seed)
        self.adjustment = features.new_zeros(n_classes) if adjustment is None else adjustment

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the cross-entropy of the adjusted scores."""
        features = self.features.index_select(0, batch["rows"])  # twice as fast as indexing
        scores = torch.addmm(self.bias, features, self.weight.T)  # (n, c)
        return cross_entropy(scores + self.adjustment, self.targets[batch["rows"]])


class GeneratedPrototypes(BatchObjective):
    """Classification by the cosine to prototypes, which a network computes from class vectors, on mini-batches.

    Parameters
    ----------
    network : Perceptron
        Network from class vectors (c, a) to prototypes (c, d).
    vectors : Tensor of shape (c, a)
        Class vectors.
    features : Tensor of shape (n, d)
        Features.
    targets : Tensor of shape (n,)
        Class indices.
    batch_size : int
        Number of images per mini-batch.
    seed : int
        Seed of the mini-batches.
    adjustment : Tensor of shape (c,), default=None
        Log priors that are added to the scores of the classes in the loss; None: none.
    """

    def __init__(
        self,
        network: Perceptron,
        vectors: Tensor,
        features: Tensor,
        targets: Tensor,
        batch_size: int,
        seed: int,
        adjustment: Tensor | None = None,
    ) -> None:
        super().__init__(list(network.parameters()), functional.normalize(features, dim=1), targets, batch_size, seed)
        self.network, self.vectors = network, vectors
        self.adjustment = features.new_zeros(len(vectors)) if adjustment is None else adjustment

    def prototypes(self) -> Tensor:
        """Compute prototypes (c, d), divided by the temperature: their product with unit features are the scores."""
        return functional.normalize(self.network(self.vectors), dim=1) / TEMPERATURE

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the cross-entropy of the adjusted scores."""
        scores = self.features[batch["rows"]] @ self.prototypes().T  # (n, c)
        return cross_entropy(scores + self.adjustment, self.targets[batch["rows"]])


def train_softmax(
    features: Tensor,
    targets: Tensor,
    n_classes: int,
    seed: int,
    n_steps: int,
    batch_size: int = 256,
    adjustment: Tensor | None = None,
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
    adjustment : Tensor of shape (c,), default=None
        Log priors of the classes for logit adjustment, see :func:`log_priors`; None: none.

    Returns
    -------
    weights : Tensor of shape (c, d)
        Weights.
    biases : Tensor of shape (c,)
        Biases.
    """
    batch_size, seed = min(batch_size, len(features)), derive_seed(seed, "softmax")
    objective = SoftmaxTraining(features, targets, n_classes, batch_size, seed, adjustment)
    # A step of Adam changes each weight by about the learning rate, and so a score, relative to that of the mean image, by that
    # times the L1 distance from the mean image. Features are not centred, as in the authors' code: this generalises better.
    size = float((features - features.mean(dim=0)).abs().sum(dim=1).mean())
    with torch.enable_grad():
        train(Run(objective, Optimisation(n_steps, STEP / max(size, 1.0), schedule="cosine")))
    return objective.weight.detach(), objective.bias.detach()


def train_prototypes(
    features: Tensor,
    targets: Tensor,
    vectors: Tensor,
    seed: int,
    n_steps: int,
    batch_size: int = 256,
    adjustment: Tensor | None = None,
) -> Tensor:
    """Train a network from class vectors to prototypes with Adam; scores are cosines divided by a temperature.

    Parameters
    ----------
    features : Tensor of shape (n, d)
        Features.
    targets : Tensor of shape (n,)
        Class indices.
    vectors : Tensor of shape (c, a)
        Class vectors.
    seed : int
        Seed of the initial weights and of the mini-batches.
    n_steps : int
        Number of gradient steps.
    batch_size : int, default=256
        Number of images per mini-batch.
    adjustment : Tensor of shape (c,), default=None
        Log priors of the classes for logit adjustment, see :func:`log_priors`; None: none.

    Returns
    -------
    Tensor of shape (c, d)
        The prototypes, divided by the temperature: their products with features of unit length are the scores.
    """
    rng = torch.Generator().manual_seed(derive_seed(seed, "prototypes"))
    network = Perceptron((vectors.shape[1], PROTOTYPE_HIDDEN, features.shape[1]), rng, "leaky relu").to(features.device)
    batch_size = min(batch_size, len(features))
    objective = GeneratedPrototypes(network, vectors, features, targets, batch_size, derive_seed(seed, "batches"), adjustment)
    with torch.enable_grad():
        train(Run(objective, Optimisation(n_steps, PROTOTYPE_RATE, "cosine", PROTOTYPE_DECAY)))
    with torch.no_grad():
        return objective.prototypes()


def log_priors(targets: Tensor, seen: Tensor, odds: float) -> Tensor:
    """Compute the log priors of classes for zero-shot logit adjustment.

    The prior of a class is that of its group, seen or unseen, times its share of the training images of the group (Eq. 11 to
    14 of the paper). They are added to the scores in training only, so that the scores of the trained classifier are divided
    by these priors: the larger the odds, the more images are assigned to unseen classes. If the odds are those of the training
    images, the scores are those of classes with equal priors.

    Parameters
    ----------
    targets : Tensor of shape (n,)
        Class indices of the training images, real and synthesised. Every class has at least one.
    seen : Tensor of bool of shape (c,)
        Whether a class is seen.
    odds : float
        Prior probability of the seen classes together, divided by that of the unseen classes.

    Returns
    -------
    Tensor of shape (c,)
        The log priors.

    Examples
    --------
    >>> targets, seen = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([True, True, False])
    >>> log_priors(targets, seen, odds=9.0).exp()
    tensor([0.6750, 0.2250, 0.1000])
    """
    counts = torch.bincount(targets, minlength=len(seen)).to(torch.float32)
    totals = torch.stack([counts[~seen].sum(), counts[seen].sum()])
    groups = torch.tensor([1 / (1 + odds), odds / (1 + odds)], device=targets.device)
    return torch.log(counts * (groups / totals)[seen.long()])
