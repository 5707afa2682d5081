"""Losses of a batch (Eq. 3 and 6), averaged over its images.

The paper writes sums, and adds the penalty λ‖φ‖ to them (Eq. 3). Here, as in the authors' code, losses are means, and λ is the
weight decay of Adam (``training.Optimisation.weight_decay``), which is added to the gradient of the mean. Adam is invariant to
the factor between sum and mean of the data term alone; relative to it, λ has n times the weight that it has beside a sum over n
images: n is 128 in Algorithm 1 (32 classes x 4 images), and 328 in Algorithm 2 on CUB (50 unseen classes in addition).
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
