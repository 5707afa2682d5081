"""Weights of gradient penalties that follow the penalty, as in the authors' code of VAE-GANs."""

from collections.abc import Mapping

import torch
from torch import Tensor

LOW, HIGH = 1.001, 1.05  # penalties between which the weight stays as it is
FACTOR = 1.1
MOST = 1000.0  # largest factor by which the weight may change: one that shrinks to zero leaves the critic unconstrained


class PenaltyWeight:
    """Weight of a gradient penalty: after every cycle it grows where the mean penalty is above 1.05, and shrinks below 1.001.

    It stays within a factor of 1,000 of its initial value. Its tensors are changed in place, so that a CUDA graph can replay
    the changes.

    Parameters
    ----------
    weight : float
        Initial weight.
    device : torch.device
        Device of the tensors.
    adaptive : bool, default=True
        False: the weight is constant.
    """

    def __init__(self, weight: float, device: torch.device, adaptive: bool = True) -> None:
        self.initial = float(weight)
        self.weight = torch.tensor(self.initial, device=device)
        self.total = torch.zeros_like(self.weight)  # of the penalties since the last update
        self.adaptive = adaptive

    def __call__(self, penalty: Tensor) -> Tensor:
        """Return the weighted penalty (scalar), and add the penalty to the sum of the cycle."""
        self.total += penalty.detach()
        return self.weight * penalty

    @torch.no_grad()
    def update(self, n_steps: int) -> None:
        """Change the weight after a cycle of ``n_steps`` penalties."""
        mean = self.total / n_steps
        if self.adaptive:
            self.weight *= FACTOR ** ((mean > HIGH).to(self.weight) - (mean < LOW).to(self.weight))
            self.weight.clamp_(self.initial / MOST, self.initial * MOST)
        self.total.zero_()

    def memory(self) -> dict[str, Tensor]:
        """Copy the state for a checkpoint."""
        return {"weight": self.weight.cpu().clone(), "total": self.total.cpu().clone()}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the state returned by :meth:`memory`, in place."""
        self.weight.copy_(memory["weight"])
        self.total.copy_(memory["total"])
