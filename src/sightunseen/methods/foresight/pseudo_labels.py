"""Soft pseudo-labels of unlabelled images."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError

BALANCE = 1e-3  # tolerance of the class shares of pseudo-labels, relative to the mean share


def soft_labels(scores: Doubles, shares: Doubles | None = None) -> Doubles:
    """Compute soft pseudo-labels: the softmax of the scores, optionally with given class shares.

    Parameters
    ----------
    scores : ndarray of shape (m, u)
        Scores of the unseen classes, divided by the temperature.
    shares : ndarray of shape (u,), default=None
        Mean of the pseudo-labels of each class. It is enforced by one additive constant per class, found by minimising a
        convex function. None: unconstrained.

    Returns
    -------
    ndarray of shape (m, u)
        Pseudo-labels; every row sums to one.

    Examples
    --------
    >>> soft_labels(np.zeros((2, 2)), np.array([0.75, 0.25])).round(2)
    array([[0.75, 0.25],
           [0.75, 0.25]])
    """
    if shares is None:
        return np.asarray(softmax(scores, axis=1))

    def surplus(shift: Doubles) -> tuple[float, Doubles]:
        """Convex function of the shift whose gradient is the difference between actual and given shares."""
        totals = logsumexp(scores + shift, axis=1)
        labels = np.exp(scores + shift - totals[:, None])
        return totals.mean() - shares @ shift, labels.mean(axis=0) - shares

    precision = BALANCE / len(shares)
    best = minimize(surplus, np.zeros(len(shares)), jac=True, method="L-BFGS-B", options={"gtol": precision, "ftol": 0})
    return np.asarray(softmax(scores + best.x, axis=1))


def class_shares(prior: ArrayLike | str | None, n_classes: int) -> Doubles | None:
    """Class shares (u,) that sum to one, of a prior of :meth:`Foresight.adapt`; None if they are unknown."""
    if prior is None:
        return None
    shares = np.ones(n_classes) if isinstance(prior, str) and prior == "uniform" else np.asarray(prior)
    valid = shares.shape == (n_classes,) and shares.dtype.kind in "fiu" and (shares >= 0).all()
    if not (valid and 0 < shares.sum() < np.inf):
        raise DataError(
            f"prior must be 'uniform' or {n_classes} non-negative numbers, one share for each class adapted to; got {prior!r}."
        )
    return np.asarray(shares / shares.sum(), dtype=np.float64)
