"""Class means and the shared within-class covariance of labelled images."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
        around = X - means.astype(X.dtype)[targets]
        products = [(view.T @ view).astype(np.float64) for view in np.split(around, views, axis=1)]
        return cls(means, counts, tuple(product / len(X) for product in products))

    def beside(self, other: "Scatter") -> "Scatter":
        """Put the views of the same images side by side."""
        return Scatter(np.hstack([self.means, other.means]), self.counts, (*self.covariances, *other.covariances))

    def only(self, rows: NDArray[Any]) -> "Scatter":
        """Return the means and counts of some classes; the covariance remains that of all."""
        return Scatter(self.means[rows], self.counts[rows], self.covariances)

    def second_moment(self) -> Doubles:
        """Compute X'X, the sum of the outer products of all images, of a single view."""
        (covariance,) = self.covariances
        return np.asarray(self.counts.sum() * covariance + (self.means * self.counts[:, None]).T @ self.means)
