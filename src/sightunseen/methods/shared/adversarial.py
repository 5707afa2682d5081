"""Adversarial training: steps of a critic and its opponent in turn, and the gradient penalty of Wasserstein critics."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.core.randomness import derive_seed
from sightunseen.methods.shared.objectives import NumberedObjective
from sightunseen.training.episodes import draw_uniform


class TurnObjective(NumberedObjective):
    """Adversarial objective: ``model.critic_steps`` steps of a critic, then one step of its opponent.

    A subclass implements :meth:`critic_step` and :meth:`opponent_step`.

    Parameters
    ----------
    model : GradientTrainedClassifier
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    def __init__(self, model: Any, features: Tensor, targets: Tensor) -> None:
        super().__init__(model, features, targets)
        self.turns = model.critic_steps + 1

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        """Compute the loss of the critic or, in the last turn of a cycle, of its opponent."""
        return self.critic_step(batch) if self.updates_critic(turn) else self.opponent_step(batch)

    def updates_critic(self, turn: int) -> bool:
        """Whether the critic is updated in a turn, rather than its opponent."""
        cycle = self.model.critic_steps + 1
        return bool(turn % cycle < cycle - 1)

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic."""
        raise NotImplementedError

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic's opponent."""
        raise NotImplementedError

    def shares(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Draw the weights (b, 1) of real points in the interpolations of the gradient penalty."""
        return draw_uniform(derive_seed(self.model.seed, "between"), batch["step"], (len(batch["rows"]), 1))


@contextmanager
def frozen(*networks: nn.Module) -> Iterator[None]:
    """Exclude the parameters of networks from gradients; gradients still flow through the networks.

    Parameters
    ----------
    *networks : torch.nn.Module
        The networks.
    """
    for network in networks:
        network.requires_grad_(False)
    try:
        yield
    finally:
        for network in networks:
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
