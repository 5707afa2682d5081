"""Statistics of linear discriminant analysis: class means, within-class covariance and the whitening it defines."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from sightunseen.core.arrays import Doubles, Floats


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
    means : ndarray of shape (s, d)
        Class means.
    counts : ndarray of shape (s,)
        Number of images of each class.
    covariance : ndarray of shape (d, d)
        Within-class covariance.
    """

    means: Doubles
    counts: Doubles
    covariance: Doubles

    @classmethod
    def of(cls, X: Floats, targets: NDArray[Any], n_classes: int) -> "Scatter":
        """Compute the statistics of features (n, d) with class indices (n,)."""
        means, counts = weighted_means(X, memberships(targets, n_classes))
        around = X - means.astype(np.float32)[targets]
        covariance = (around.T @ around).astype(np.float64)
        covariance /= len(X)
        return cls(means, counts, covariance)


@dataclass(frozen=True)
class Whitening:
    """Linear map after which the within-class covariance is half the identity.

    There the squared distance between an image and a class mean is minus the Gaussian log density, up to a constant.

    Parameters
    ----------
    root : ndarray of shape (d, d)
        Lower triangular matrix with ``root @ root.T`` equal to twice the covariance.
    """

    root: Doubles

    @classmethod
    def of(cls, covariance: Doubles, shrinkage: float) -> "Whitening":
        """Compute the whitening of a within-class covariance.

        Parameters
        ----------
        covariance : ndarray of shape (d, d)
            Within-class covariance.
        shrinkage : float
            Shrinkage towards the identity times the mean variance, from 0 to 1. It regularises the estimate, which is noisy
            if there are not many more images than features.

        Returns
        -------
        Whitening
            The whitening.
        """
        spread = float(np.trace(covariance)) / len(covariance)
        shrunk = covariance * (1 - shrinkage)
        # A small multiple of the identity keeps the covariance positive definite if a feature is constant or every class has
        # a single image.
        least = float(np.finfo(np.float32).eps) * len(covariance) * (spread or 1.0)
        shrunk[np.diag_indices_from(shrunk)] += max(shrinkage * spread, least)
        return cls(np.sqrt(2) * linalg.cholesky(shrunk, lower=True))

    def __deepcopy__(self, memo: Any) -> "Whitening":
        return self  # never modified

    def __call__(self, X: NDArray[Any]) -> Doubles:
        """Whiten features of shape (n, d)."""
        return np.asarray(linalg.solve_triangular(self.root, X.T, lower=True).T)

    def onto(self, points: Doubles) -> tuple[Floats, Doubles]:
        """Compute the orthogonal projection onto the span of whitened points, such as class means.

        The squared distances between an image and points of the span change by the same amount, the squared distance of the
        image from the span. Differences of scores are therefore preserved in r <= s dimensions.

        Parameters
        ----------
        points : ndarray of shape (s, d)
            Whitened points.

        Returns
        -------
        projection : ndarray of shape (r, d)
            Map from features to coordinates in the span.
        basis : ndarray of shape (r, d)
            Map from whitened features to coordinates in the span: an orthonormal basis.
        """
        basis = np.asarray(linalg.qr(points.T, mode="economic")[0].T, dtype=np.float64)  # (r, d)
        projection = linalg.solve_triangular(self.root, basis.T, lower=True, trans="T").T
        return np.asarray(projection, dtype=np.float32), basis

    def packed(self) -> Floats:
        """Return the lower triangle, row by row, in single precision, for saving."""
        return np.asarray(self.root[np.tri(len(self.root), dtype=bool)], dtype=np.float32)

    @classmethod
    def unpacked(cls, triangle: Floats, size: int) -> "Whitening":
        """Restore a whitening of d = ``size`` features from the result of :meth:`packed`."""
        root = np.zeros((size, size))
        root[np.tri(size, dtype=bool)] = triangle
        return cls(root)
