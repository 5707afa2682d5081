"""Linear discriminant analysis: class means, and the space in which the images of a class scatter alike in all directions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]


def memberships(places: NDArray[Any], n_classes: int) -> Any:
    """(n, s), sparse: 1 where an image is of the class."""
    ones = np.ones(len(places), dtype=np.float32)
    return sparse.csr_array((ones, (np.arange(len(places)), places)), shape=(len(places), n_classes))


def weighted_means(X: NDArray[Any], weights: Any, least: float = 1e-6) -> tuple[Doubles, Doubles]:
    """Means (s, d) of images (n, d) by how much they belong to each class, (n, s), and the sum of each class's weights (s,).

    A class that hardly anything belongs to counts as ``least``, so that nothing is divided by zero.
    """
    counts = np.maximum(np.asarray(weights.sum(axis=0), dtype=np.float64), least)
    return np.asarray(weights.T @ X, dtype=np.float64) / counts[:, None], counts


@dataclass(frozen=True)
class Scatter:
    """How the images of s classes lie: the means of the classes, and the covariance around them."""

    means: Doubles  # (s, d)
    counts: Doubles  # (s,) images of each class
    covariance: Doubles  # (d, d)

    @classmethod
    def of(cls, X: Floats, places: NDArray[Any], n_classes: int) -> "Scatter":
        """That of images (n, d) with the places of their classes, (n,)."""
        means, counts = weighted_means(X, memberships(places, n_classes))
        around = X - means.astype(np.float32)[places]
        covariance = (around.T @ around).astype(np.float64)
        covariance /= len(X)
        return cls(means, counts, covariance)


@dataclass(frozen=True)
class Whitening:
    """Features in the space in which images of one class have the covariance one half: there the squared distance from the
    class's mean is, but for a constant, minus the logarithm of the density of an image.
    """

    root: Doubles  # (d, d), lower triangular: root root' is twice the covariance

    @classmethod
    def of(cls, covariance: Doubles, shrinkage: float) -> "Whitening":
        """The whitening of images that scatter around the means of their classes with this covariance (d, d).

        ``shrinkage`` is the part of the covariance that is replaced by its mean variance in all directions: there are about as
        many images as directions, and most directions are known by noise alone.
        """
        spread = float(np.trace(covariance)) / len(covariance)
        shrunk = covariance * (1 - shrinkage)
        # Directions without scatter (a feature that never varies, a single image a class) are no reason to fail: they count as
        # having as little of it as single precision can tell from none.
        least = float(np.finfo(np.float32).eps) * len(covariance) * (spread or 1.0)
        shrunk[np.diag_indices_from(shrunk)] += max(shrinkage * spread, least)
        return cls(np.sqrt(2) * linalg.cholesky(shrunk, lower=True))

    def __call__(self, X: NDArray[Any]) -> Doubles:
        """(n, d) -> (n, d)."""
        return np.asarray(linalg.solve_triangular(self.root, X.T, lower=True).T)

    def onto(self, points: Doubles) -> tuple[Floats, Doubles]:
        """The map (r, d) from features to the span of whitened points (s, d), and the same from whitened features, (r, d).

        Distances between those points and whitened images are kept but for a constant of each image, its distance from the
        span: with one direction a class instead of one a feature, nothing that tells classes apart is lost.
        """
        basis = np.asarray(linalg.qr(points.T, mode="economic")[0].T, dtype=np.float64)  # (r, d)
        projection = linalg.solve_triangular(self.root, basis.T, lower=True, trans="T").T
        return np.asarray(projection, dtype=np.float32), basis
