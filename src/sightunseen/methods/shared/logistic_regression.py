"""Regularised logistic regression by L-BFGS: softmax over classes, or many binary targets at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize
from scipy.special import expit, logsumexp

from sightunseen.methods.base.span import Span

MAX_STEPS = 100

Array = NDArray[np.floating[Any]]
Loss = Callable[[Array, Array], tuple[Array, Array]]


def softmax_regression(X: Array, targets: Array, penalty: float, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """Fit softmax regression, p(k | x) = softmax(x' W + b).

    Minimises the mean cross-entropy plus penalty / 2 |W|^2 times the mean variance of a feature, so that the penalty does not
    depend on the scale of the features. The C of scikit-learn is the inverse of this factor times n.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features, in the precision of the computation.
    targets : ndarray of shape (n, k)
        One-hot labels.
    penalty : float
        Relative L2 penalty, greater than zero.
    tolerance : float, default=1e-4
        Relative decrease of the loss below which the iteration stops.

    Returns
    -------
    weights : ndarray of shape (d, k)
        W.
    intercepts : ndarray of shape (k,)
        b.
    """
    shares = np.clip(targets.mean(axis=0, dtype=np.float64), 1e-6, 1)
    return _minimise(X, targets, penalty, _cross_entropies, np.log(shares), shares, tolerance)


def logistic_regressions(X: Array, targets: Array, penalty: float, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """Fit k independent logistic regressions, p(target = 1 | x) = 1 / (1 + exp(-(x' w + b))).

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features, in the precision of the computation.
    targets : ndarray of shape (n, k)
        Binary targets; each column contains both 0 and 1.
    penalty : float
        Relative L2 penalty, as for :func:`softmax_regression`.
    tolerance : float, default=1e-4
        Relative decrease of the loss below which the iteration stops.

    Returns
    -------
    weights : ndarray of shape (d, k)
        Weights.
    intercepts : ndarray of shape (k,)
        Intercepts.
    """
    shares = targets.mean(axis=0, dtype=np.float64)
    return _minimise(X, targets, penalty, _log_losses, np.log(shares / (1 - shares)), shares, tolerance)


def _minimise(
    X: Array,
    targets: Array,
    penalty: float,
    losses_of: Loss,
    initial_intercepts: Array,
    shares: Array,
    tolerance: float,
) -> tuple[Array, Array]:
    """Fit either regression; ``shares`` (k,) are the frequencies of the targets."""
    mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)  # (d,)
    span = Span.of(X - mean)
    X, (n, r), k = span.X, span.X.shape, targets.shape[1]
    covariance = np.asarray(X.T @ X, dtype=np.float64) / n  # (r, r)
    variance = span.mean_diagonal(covariance)
    weight = penalty * variance
    # Preconditioning: W = L'^-1 V, where L L' is the Hessian at the start (every image has the class frequencies as
    # probabilities), bounded from below by the rounding error. L-BFGS then needs few iterations.
    curvature = float(np.mean(shares * (1 - shares)))
    least = max(weight, 1e-4 * curvature * variance)
    whitening = linalg.cholesky(curvature * covariance + least * np.eye(r), lower=True).astype(X.dtype)  # L (r, r)
    solve = partial(linalg.solve_triangular, whitening, lower=True, check_finite=False)

    def weights_of(v: Array) -> Array:  # (r * k,) -> (r, k)
        return np.asarray(solve(v.reshape(r, k).astype(X.dtype), trans="T"))

    def objective(point: Array) -> tuple[float, Array]:
        W, b = weights_of(point[k:]), point[:k]
        losses, residuals = losses_of(X @ W + b.astype(X.dtype), targets)  # (n,), (n, k)
        slope = solve(X.T @ (residuals / n) + weight * W)  # (r, k)
        value = losses.mean(dtype=np.float64) + weight / 2 * float(np.square(W, dtype=np.float64).sum())
        return value, np.concatenate([residuals.mean(axis=0, dtype=np.float64), slope.ravel()])

    start = np.concatenate([initial_intercepts, np.zeros(r * k)])
    found = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS, "ftol": tolerance, "gtol": 0.0}
    ).x
    W = span.expand(weights_of(found[k:]))  # (d, k)
    return np.ascontiguousarray(W), found[:k] - mean @ W


def _cross_entropies(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Compute losses (n,) and their gradient with respect to the scores, (n, k)."""
    normaliser = logsumexp(scores, axis=1, keepdims=True)
    return normaliser[:, 0] - (targets * scores).sum(axis=1), np.exp(scores - normaliser) - targets


def _log_losses(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Compute losses (n,), summed over independent targets, and their gradient (n, k)."""
    return (np.logaddexp(0, scores) - targets * scores).sum(axis=1), expit(scores) - targets
