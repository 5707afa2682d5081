"""Losses of a batch (Eq. 3 and 6), averaged over its images.

The paper writes sums. For batches of fixed size, a mean differs from the sum by a constant factor, to which Adam is invariant.
The penalty λ‖φ‖ of Eq. 3 is Adam's weight decay (``training.Optimisation.weight_decay``), as in the authors' code.
"""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean cross-entropy -log p(y | x) (Eq. 3).

    Parameters
    ----------
    scores : Tensor of shape (n, c)
        Scores of the classes.
    targets : Tensor of shape (n,)
        Column of each image's class.

    Returns
    -------
    Tensor of shape ()
        The loss.
    """
    return functional.cross_entropy(scores, targets)


def generalized_cross_entropy(scores: Tensor, targets: Tensor, q: float) -> Tensor:
    """Compute the mean generalized cross-entropy (1 - p^q) / q (Eq. 6), which is robust to wrong labels.

    Parameters
    ----------
    scores : Tensor of shape (n, c)
        Scores of the classes.
    targets : Tensor of shape (n,)
        Column of each image's class.
    q : float
        Exponent from 0 to 1. The limit at 0 is the cross-entropy; at 1 the loss is 1 - p, half of the mean absolute error.

    Returns
    -------
    Tensor of shape ()
        The loss.

    Examples
    --------
    >>> scores, targets = torch.zeros(1, 2), torch.tensor([0])  # p = 1/2
    >>> [round(generalized_cross_entropy(scores, targets, q).item(), 4) for q in (0, 0.5, 1)]
    [0.6931, 0.5858, 0.5]
    """
    if q == 0:
        return cross_entropy(scores, targets)
    log_p = functional.log_softmax(scores, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (-torch.expm1(q * log_p) / q).mean()  # expm1 is accurate where p^q is close to one
