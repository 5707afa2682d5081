"""Eq. 3 and Eq. 6: the losses of a task, as means over its images.

The paper writes sums; a mean over a task of fixed size differs by a constant, which Adam does not feel. The penalty
lambda * ||phi|| of Eq. 3 is Adam's coupled weight decay (``training.Optimisation.weight_decay``), as in the authors' code.
"""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Eq. 3: mean of -log p(y | x). Scores (n, c), targets (n,) columns."""
    return functional.cross_entropy(scores, targets)


def generalized_cross_entropy(scores: Tensor, targets: Tensor, q: float) -> Tensor:
    """Eq. 6: mean of (1 - p^q) / q; its limit at q = 0 is cross-entropy, at q = 1 it is 1 - p (mean absolute error / 2).

    Written as -expm1(q log p) / q, which keeps its digits where p^q is close to one.
    """
    if q == 0:
        return cross_entropy(scores, targets)
    log_p = functional.log_softmax(scores, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (-torch.expm1(q * log_p) / q).mean()
