"""Kernel ridge regression with the arc-cosine kernel: the classifier generator of Eq. 1 in the limit of infinite width.

Let the hidden layer of the paper's FC-ReLU-FC generator have random weights and grow without bound, and fit the output layer by
ridge regression. The limit is kernel ridge regression, equivalently the posterior mean of a Gaussian process, with the
arc-cosine kernel of order one (Cho & Saul, "Kernel methods for deep learning", NIPS 2009). It has a closed form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.arrays import Doubles
from sightunseen.core.linear import SMALLEST_LENGTH


def wide_kernel(one: Doubles, other: Doubles) -> Doubles:
    """Compute the arc-cosine kernel of order one (Cho & Saul, NIPS 2009).

    k(u, v) = 2 E[relu(r.u) relu(r.v)] for standard normal r, which is |u| |v| (sin t + (π - t) cos t) / π, where t is the angle
    between u and v. In particular k(u, u) = |u|².

    Parameters
    ----------
    one : ndarray of shape (c, a)
        First set of vectors.
    other : ndarray of shape (s, a)
        Second set of vectors.

    Returns
    -------
    ndarray of shape (c, s)
        Kernel matrix.

    Examples
    --------
    >>> wide_kernel(np.eye(2), np.eye(2)).round(3)
    array([[1.   , 0.318],
           [0.318, 1.   ]])
    """
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    cosine = np.clip((one @ other.T) / np.where(lengths > 0, lengths, 1), -1, 1)
    angle = np.arccos(cosine)
    return np.asarray(lengths * (np.sin(angle) + (np.pi - angle) * cosine) / np.pi)


@dataclass(frozen=True)
class WideGenerator:
    """Fitted kernel ridge regression from class vectors (c, a) to targets (c, k); :meth:`solved` fits one.

    Class vectors are centred and scaled before the kernel is applied. The centre is mapped to zero.

    Parameters
    ----------
    centre : ndarray of shape (a,)
        Subtracted from class vectors.
    anchors : ndarray of shape (s, a)
        Class vectors of the training set, centred and scaled to a mean squared norm of one.
    unit : float
        Divisor of centred class vectors.
    weights : ndarray of shape (s, k)
        Dual coefficients.
    linear : bool, default=False
        Whether the kernel is the dot product instead of the arc-cosine kernel.
    length : float, default=0.0
        If positive, every predicted target is scaled to this Euclidean length.
    """

    centre: Doubles
    anchors: Doubles
    unit: float
    weights: Doubles
    linear: bool = False
    length: float = 0.0

    @classmethod
    def solved(
        cls,
        vectors: Doubles,
        targets: Doubles,
        noise: Doubles,
        centre: Doubles | None = None,
        linear: bool = False,
        length: float = 0.0,
    ) -> "WideGenerator":
        """Fit the regression in closed form.

        Parameters
        ----------
        vectors : ndarray of shape (s, a)
            Class vectors.
        targets : ndarray of shape (s, k)
            Targets, for example class means.
        noise : ndarray of shape (s,)
            Ridge penalty of each class, that is the noise variance of its target. The mean of k(v, v) over the classes is one.
        centre : ndarray of shape (a,), default=None
            Centre of the class vectors; None: their mean.
        linear : bool, default=False
            Use the dot product as kernel: ordinary ridge regression.
        length : float, default=0.0
            If positive, scale every predicted target to this length.

        Returns
        -------
        WideGenerator
            The fitted regression.

        Examples
        --------
        >>> vectors, means = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[2.0], [-2.0]])
        >>> WideGenerator.solved(vectors, means, noise=np.full(2, 1e-9))(vectors).round(3).tolist()
        [[2.0], [-2.0]]
        """
        vectors = vectors.astype(np.float64)
        centre = vectors.mean(axis=0) if centre is None else centre
        centred = vectors - centre
        unit = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        anchors = centred / unit
        ridge = kernel_of(linear)(anchors, anchors) + np.diag(noise)
        return cls(centre, anchors, unit, linalg.solve(ridge, targets.astype(np.float64), assume_a="pos"), linear, length)

    def followed_by(self, layer: Doubles) -> "WideGenerator":
        """Compose with a linear map of shape (m, k) of the targets."""
        return replace(self, weights=self.weights @ layer.T)

    def left_out(self, noise: Doubles) -> tuple[Doubles, Doubles]:
        """Leave-one-out residuals, in closed form (Rasmussen & Williams, 2006, Section 5.4.2).

        Parameters
        ----------
        noise : ndarray of shape (s,)
            Ridge penalties that the regression was fitted with.

        Returns
        -------
        residuals : ndarray of shape (s, k)
            Target of each anchor minus the prediction of the regression that is fitted without it.
        variances : ndarray of shape (s,)
            Their variances 1 / [(K + N)^-1]_cc, in units of :meth:`scale`.
        """
        variances = 1 / np.diag(linalg.inv(kernel_of(self.linear)(self.anchors, self.anchors) + np.diag(noise)))
        return self.weights * variances[:, None], variances

    def scale(self, noise: Doubles) -> float:
        """Estimate the variance of the Gaussian process from its leave-one-out residuals.

        Parameters
        ----------
        noise : ndarray of shape (s,)
            Ridge penalties that the regression was fitted with.

        Returns
        -------
        float
            Variance per output of a class vector v with k(v, v) = 1.
        """
        residuals, variances = self.left_out(noise)
        return float(np.mean(np.square(residuals) / variances[:, None]))

    def similarities(self, vectors: Doubles) -> Doubles:
        """Compute the kernel (c, s) between class vectors (c, a) and the anchors."""
        return kernel_of(self.linear)((vectors.astype(np.float64) - self.centre) / self.unit, self.anchors)

    def __call__(self, vectors: Doubles) -> Doubles:
        """Predict the targets (c, k) of class vectors (c, a)."""
        targets = np.asarray(self.similarities(vectors) @ self.weights)
        if not self.length:
            return targets
        return np.asarray(self.length * targets / np.maximum(np.linalg.norm(targets, axis=1, keepdims=True), SMALLEST_LENGTH))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays by name, for saving."""
        return {f"generator.{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "WideGenerator":
        """Restore a regression from the result of :meth:`arrays`."""
        centre, anchors, unit, weights = (arrays[f"generator.{name}"] for name in ("centre", "anchors", "unit", "weights"))
        linear, length = (arrays.get(f"generator.{name}", 0) for name in ("linear", "length"))
        return cls(centre, anchors, float(unit), weights, bool(linear), float(length))


def generator_arrays() -> dict[str, Expected]:
    """Declare the arrays of :class:`WideGenerator` in a model folder; the last two were added later."""
    named = {"centre": Expected("a"), "anchors": Expected("t a"), "unit": positive(), "weights": Expected("t r")}
    later = {"linear": Expected(kind="b", optional=True), "length": Expected(least=0, optional=True)}
    return {f"generator.{name}": declared for name, declared in {**named, **later}.items()}


def kernel_of(linear: bool) -> Callable[[Doubles, Doubles], Doubles]:
    """Return the dot product or the arc-cosine kernel."""
    return (lambda one, other: one @ other.T) if linear else wide_kernel
