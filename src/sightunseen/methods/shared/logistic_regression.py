"""Logistic regression, of many targets at once or by softmax over classes, by L-BFGS."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize
from scipy.special import expit, logsumexp

from sightunseen.methods.shared.sizes import mean_diagonal

MAX_STEPS = 100

Array = NDArray[np.floating[Any]]
Loss = Callable[[Array, Array], tuple[Array, Array]]


def softmax_regression(X: Array, targets: Array, penalty: float, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """Weights (d, k) and intercepts (k,) of p(k | x) = softmax(x' W + b).

    They minimise the mean cross-entropy plus half of ``penalty`` times |W|^2 times the mean variance of a feature: whatever
    the unit of the features, a penalty means the same. scikit-learn's C is the inverse of the whole factor times n.

    Parameters
    ----------
    X : (n, d), in the precision to compute in.
    targets : (n, k), 1 where an image is of the class and 0 elsewhere.
    penalty : more than zero.
    tolerance : a step that lowers the loss by less, relative to it, is the last.
    """
    shares = np.clip(targets.mean(axis=0, dtype=np.float64), 1e-6, 1)
    return _minimise(X, targets, penalty, _cross_entropies, np.log(shares), shares, tolerance)


def logistic_regressions(X: Array, targets: Array, penalty: float, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """Weights (d, k) and intercepts (k,) of k separate p(target = 1 | x) = 1 / (1 + exp(-(x' w + b))).

    Parameters as for :func:`softmax_regression`; every target must be 0 for some image and 1 for some other.
    """
    shares = targets.mean(axis=0, dtype=np.float64)
    return _minimise(X, targets, penalty, _log_losses, np.log(shares / (1 - shares)), shares, tolerance)


def _minimise(
    X: Array,
    targets: Array,
    penalty: float,
    losses_of: Loss,
    first_intercepts: Array,
    shares: Array,
    tolerance: float,
) -> tuple[Array, Array]:
    """Both regressions; ``shares`` are how often each target is 1."""
    (n, d), k = X.shape, targets.shape[1]
    mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    X = X - mean
    covariance = np.asarray(X.T @ X, dtype=np.float64) / n  # (d, d)
    variance = mean_diagonal(covariance)
    weight = penalty * variance
    # L-BFGS needs few steps where the curvature is alike in all directions: W = L'^-1 V, with L L' the curvature at the start,
    # of images whose targets are as likely as their shares, and never flatter than rounding can tell.
    curvature = float(np.mean(shares * (1 - shares)))
    least = max(weight, 1e-4 * curvature * variance)
    whitening = linalg.cholesky(curvature * covariance + least * np.eye(d), lower=True).astype(X.dtype)  # L (d, d)
    solve = partial(linalg.solve_triangular, whitening, lower=True, check_finite=False)

    def weights_of(v: Array) -> Array:  # (d * k,) -> (d, k)
        return np.asarray(solve(v.reshape(d, k).astype(X.dtype), trans="T"))

    def objective(point: Array) -> tuple[float, Array]:
        W, b = weights_of(point[k:]), point[:k]
        losses, residuals = losses_of(X @ W + b.astype(X.dtype), targets)  # (n,), (n, k)
        slope = solve(X.T @ (residuals / n) + weight * W)  # (d, k)
        value = losses.mean(dtype=np.float64) + weight / 2 * float(np.square(W, dtype=np.float64).sum())
        return value, np.concatenate([residuals.mean(axis=0, dtype=np.float64), slope.ravel()])

    start = np.concatenate([first_intercepts, np.zeros(d * k)])
    found = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS, "ftol": tolerance, "gtol": 0.0}
    ).x
    W = weights_of(found[k:])
    return np.ascontiguousarray(W), found[:k] - mean @ W


def _cross_entropies(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Losses (n,) and their slopes in the scores, (n, k)."""
    normaliser = logsumexp(scores, axis=1, keepdims=True)
    return normaliser[:, 0] - (targets * scores).sum(axis=1), np.exp(scores - normaliser) - targets


def _log_losses(scores: Array, targets: Array) -> tuple[Array, Array]:
    """The same, summed over separate targets."""
    return (np.logaddexp(0, scores) - targets * scores).sum(axis=1), expit(scores) - targets
