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
from sightunseen.core.linear import SMALLEST_LENGTH, class_blocks

# Largest number of classes for an exact solution: its matrix then has 5 GB. ImageNet-21k has 21,841 classes.
EXACT_CLASSES = 25_000
LANDMARKS = 10_000  # class vectors that span the regression beyond that
CACHED_BYTES = 1 << 20  # of the kernel that are computed at a time: they stay in the processor's cache
JITTER = 1e-8  # added to the kernel of landmarks, whose mean diagonal is about 1, in case two of them are the same


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
    kernel = np.asarray(one @ other.T)
    one_lengths, other_lengths = np.linalg.norm(one, axis=1)[:, None], np.linalg.norm(other, axis=1)
    for rows in class_blocks(len(kernel), len(other), CACHED_BYTES):
        values, lengths = kernel[rows], one_lengths[rows] * other_lengths
        values /= np.where(lengths > 0, lengths, 1)
        np.clip(values, -1, 1, out=values)  # the cosine of the angle
        angle = np.arccos(values)
        values *= np.pi - angle
        values += np.sin(angle, out=angle)
        values *= lengths
        values /= np.pi
    return kernel


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

        With more than ``EXACT_CLASSES`` classes, the regression is restricted to functions that ``LANDMARKS`` of the class
        vectors span (Nyström method, "subset of regressors"; Rasmussen & Williams, 2006, Section 8.3.1). All classes are still
        fitted. With the linear kernel this remains exact, since a basis of the class vectors spans all linear functions.

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
        anchors = vectors - centre
        unit = float(np.sqrt(np.square(anchors).sum(axis=1).mean())) or 1.0
        anchors /= unit
        if not (np.isfinite(anchors).all() and np.isfinite(targets).all()):
            raise ValueError("class vectors or targets are not finite")
        if len(anchors) <= EXACT_CLASSES:
            return cls(centre, anchors, unit, _solved_exactly(anchors, targets, noise, linear), linear, length)
        landmarks = np.eye(anchors.shape[1]) if linear else anchors[spread_rows(anchors, LANDMARKS)]
        return cls(centre, landmarks, unit, _solved_by_landmarks(landmarks, anchors, targets, noise, linear), linear, length)

    def followed_by(self, layer: Doubles | None) -> "WideGenerator":
        """Compose with a linear map of shape (m, k) of the targets; None: the identity."""
        return self if layer is None else replace(self, weights=self.weights @ layer.T)

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

        Raises
        ------
        ValueError
            If the regression was fitted to more than ``EXACT_CLASSES`` classes, so that its anchors are not the classes.
        """
        if len(noise) != len(self.anchors):
            raise ValueError(f"leave-one-out residuals need a regression of at most {EXACT_CLASSES:,} classes")
        inverse, _ = linalg.lapack.dpotri(_ridge_factor(self.anchors, noise, self.linear), lower=True, overwrite_c=True)
        variances = 1 / np.diag(inverse)
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
        targets = np.empty((len(vectors), self.weights.shape[1]))
        for rows in class_blocks(len(vectors), len(self.anchors)):
            np.matmul(self.similarities(vectors[rows]), self.weights, out=targets[rows])
        if self.length:
            targets *= self.length / np.maximum(np.linalg.norm(targets, axis=1, keepdims=True), SMALLEST_LENGTH)
        return targets

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


def spread_rows(vectors: Doubles, count: int) -> NDArray[np.intp]:
    """Choose rows that are spread over a table: at even ranks along its first principal component.

    Parameters
    ----------
    vectors : ndarray of shape (s, a)
        Centred vectors.
    count : int
        Number of rows.

    Returns
    -------
    ndarray of int of shape (count,)
        Distinct row indices, sorted; all rows if there are no more than ``count``.

    Examples
    --------
    >>> spread_rows(np.array([[-3.0], [1.0], [0.0], [4.0], [-2.0]]), 3).tolist()
    [0, 2, 3]
    """
    if len(vectors) <= count:
        return np.arange(len(vectors))
    _, axis = linalg.eigh(vectors.T @ vectors, subset_by_index=[vectors.shape[1] - 1] * 2)  # (a, 1)
    ranked = np.argsort(vectors @ axis[:, 0] * np.sign(axis[np.abs(axis).argmax(), 0]), kind="stable")
    return np.sort(ranked[np.linspace(0, len(ranked) - 1, count).round().astype(np.intp)])


def _ridge_factor(anchors: Doubles, noise: Doubles, linear: bool) -> Doubles:
    """Cholesky factor of K + N in the lower triangle of a matrix (s, s); the upper triangle is not defined.

    The matrix is computed in blocks of rows, one triangle only, and factorised in place.
    """
    matrix, kernel = np.empty((len(anchors), len(anchors))), kernel_of(linear)
    for rows in class_blocks(len(anchors), len(anchors)):
        matrix[rows, rows.start :] = kernel(anchors[rows], anchors[rows.start :])
    matrix[np.diag_indices_from(matrix)] += noise
    # The transpose is in the order of LAPACK, which therefore makes no copy; there the triangle is the lower one.
    factor, _ = linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(factor)


def _solved_exactly(anchors: Doubles, targets: Doubles, noise: Doubles, linear: bool) -> Doubles:
    """Dual coefficients (K + N)^-1 Y, of shape (s, k)."""
    factor = _ridge_factor(anchors, noise, linear)
    solution = np.array(targets, dtype=np.float64, order="F")  # overwritten by LAPACK
    return np.asarray(linalg.cho_solve((factor, True), solution, overwrite_b=True, check_finite=False))


def _solved_by_landmarks(landmarks: Doubles, anchors: Doubles, targets: Doubles, noise: Doubles, linear: bool) -> Doubles:
    """Coefficients (m, k) of the landmarks: (M + C N^-1 C')^-1 C N^-1 Y for the kernels M (m, m) and C (m, s).

    With the Cholesky factor L of M and V = L^-1 C, it is solved as L'^-1 (I + V N^-1 V')^-1 V N^-1 Y, which is far better
    conditioned. V is computed in blocks of classes.
    """
    kernel = kernel_of(linear)
    root = _ridge_factor(landmarks, np.full(len(landmarks), 0.0 if linear else JITTER), linear)
    matrix, right = np.eye(len(landmarks), order="F"), np.zeros((len(landmarks), targets.shape[1]))
    for rows in class_blocks(len(anchors), len(landmarks)):
        precision = 1 / np.sqrt(noise[rows])
        part = kernel(anchors[rows], landmarks).T
        part = linalg.solve_triangular(root, part, lower=True, overwrite_b=True, check_finite=False) * precision  # (m, b)
        matrix = linalg.blas.dsyrk(1.0, part, 1.0, matrix, lower=True, overwrite_c=True)
        right += part @ (targets[rows] * precision[:, None])
    factor, _ = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    solution = linalg.cho_solve((factor, True), right, check_finite=False)
    return np.asarray(linalg.solve_triangular(root, solution, lower=True, trans="T", overwrite_b=True, check_finite=False))
