"""Statistics of linear discriminant analysis: class means, within-class covariance and the whitening it defines."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.errors import ModelError


def memberships(targets: NDArray[Any], n_classes: int) -> Any:
    """Create the sparse one-hot matrix (n, s) of class indices (n,)."""
    ones = np.ones(len(targets), dtype=np.float32)
    return sparse.csr_array((ones, (np.arange(len(targets)), targets)), shape=(len(targets), n_classes))


def weighted_means(X: NDArray[Any], weights: Any, least: float = 1e-6) -> tuple[Doubles, Doubles]:
    """Compute weighted class means.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features of the images.
    weights : ndarray or sparse array of shape (n, s)
        Weight of each image in each class.
    least : float, default=1e-6
        Smallest total weight of a class; it avoids a division by zero.

    Returns
    -------
    means : ndarray of shape (s, d)
        Class means.
    counts : ndarray of shape (s,)
        Total weight of each class.
    """
    counts = np.maximum(np.asarray(weights.sum(axis=0), dtype=np.float64), least)
    return np.asarray(weights.T @ X, dtype=np.float64) / counts[:, None], counts


@dataclass(frozen=True)
class Scatter:
    """Class means, counts and the shared within-class covariance of labelled images.

    Parameters
    ----------
    means : ndarray of shape (s, v * d)
        Class means.
    counts : ndarray of shape (s,)
        Number of images of each class.
    covariances : tuple of v ndarrays of shape (d, d)
        Within-class covariance of each view of the features; views are taken as independent of each other.
    """

    means: Doubles
    counts: Doubles
    covariances: tuple[Doubles, ...]

    @classmethod
    def of(cls, X: Floats, targets: NDArray[Any], n_classes: int, views: int = 1) -> "Scatter":
        """Compute the statistics of features (n, views * d) with class indices (n,)."""
        means, counts = weighted_means(X, memberships(targets, n_classes))
        around = X - means.astype(np.float32)[targets]
        products = [(view.T @ view).astype(np.float64) for view in np.split(around, views, axis=1)]
        return cls(means, counts, tuple(product / len(X) for product in products))


def shrunk_root(covariance: Doubles, shrinkage: float, size: int | None = None) -> Doubles:
    """Cholesky factor of twice a shrunk covariance.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        Within-class covariance.
    shrinkage : float
        Shrinkage towards the identity times the mean variance, from 0 to 1. It regularises the estimate, which is noisy if
        there are not many more images than features.
    size : int, default=None
        Number of features that the mean variance is taken over, if the covariance is that of fewer coordinates which contain
        all of the variance. None: d.

    Returns
    -------
    ndarray of shape (d, d)
        Lower triangular matrix.
    """
    size = len(covariance) if size is None else size
    spread = float(np.trace(covariance)) / size
    shrunk = covariance * (1 - shrinkage)
    # A small multiple of the identity keeps the covariance positive definite if a feature is constant or every class has a
    # single image.
    least = float(np.finfo(np.float32).eps) * size * (spread or 1.0)
    shrunk[np.diag_indices_from(shrunk)] += max(shrinkage * spread, least)
    return np.asarray(np.sqrt(2) * linalg.cholesky(shrunk, lower=True))


@dataclass(frozen=True)
class Whitening:
    """Linear map after which the within-class covariance of each view is half the identity.

    There the squared distance between an image and a class mean is minus the Gaussian log density, up to a constant.

    Parameters
    ----------
    roots : tuple of v ndarrays of shape (d, d)
        For each view the lower triangular matrix with ``root @ root.T`` equal to twice the covariance.
    """

    roots: tuple[Doubles, ...]

    @classmethod
    def of(cls, covariances: Sequence[Doubles], shrinkage: float) -> "Whitening":
        """Compute the whitening of the within-class covariances of all views; see :func:`shrunk_root`.

        It is rounded to single precision, in which it is saved: a loaded model computes the same as the original.
        """
        roots = [shrunk_root(covariance, shrinkage) for covariance in covariances]
        return cls(tuple(root.astype(np.float32).astype(np.float64) for root in roots))

    def __deepcopy__(self, memo: Any) -> "Whitening":
        return self  # never modified

    def __call__(self, X: NDArray[Any]) -> Doubles:
        """Whiten features of shape (n, v * d)."""
        return self._solved(X, transposed=False)

    def onto(self, points: Doubles) -> tuple[Floats, Doubles]:
        """Compute the orthogonal projection onto the span of whitened points, such as class means.

        The squared distances between an image and points of the span change by the same amount, the squared distance of the
        image from the span. Differences of scores are therefore preserved in r <= s dimensions.

        Parameters
        ----------
        points : ndarray of shape (s, v * d)
            Whitened points.

        Returns
        -------
        projection : ndarray of shape (r, v * d)
            Map from features to coordinates in the span.
        basis : ndarray of shape (r, v * d)
            Map from whitened features to coordinates in the span: an orthonormal basis.
        """
        basis = np.asarray(linalg.qr(points.T, mode="economic")[0].T, dtype=np.float64)  # (r, v * d)
        return np.asarray(self._solved(basis, transposed=True), dtype=np.float32), basis

    def packed(self) -> Floats:
        """Return the lower triangles of all views, row by row, in single precision, for saving."""
        triangles = [root[np.tri(len(root), dtype=bool)] for root in self.roots]
        return np.concatenate(triangles, dtype=np.float32)

    @classmethod
    def unpacked(cls, packed: Floats, size: int, views: int) -> "Whitening":
        """Restore a whitening of d = ``size`` features from the result of :meth:`packed`.

        Raises ``ModelError`` if it cannot be inverted.
        """
        roots = []
        for triangle in np.split(packed, views):
            root = np.zeros((size, size))
            root[np.tri(size, dtype=bool)] = triangle
            if not (np.diag(root) > 0).all():
                raise ModelError("the array 'whitening.root' has a diagonal that is not positive")
            roots.append(root)
        return cls(tuple(roots))

    def _solved(self, X: NDArray[Any], transposed: bool) -> Doubles:
        """Solve ``root z = x``, or ``root' z = x``, for every row x and view."""
        parts = zip(self.roots, np.split(X, len(self.roots), axis=1), strict=True)
        solve = partial(linalg.solve_triangular, lower=True, trans="T" if transposed else "N")
        return np.hstack([solve(root, part.T).T for root, part in parts])
