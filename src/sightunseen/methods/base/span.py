"""Span of the training images: coordinates in which problems with fewer images than features are small."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.methods.base.sizes import mean_diagonal

Array = NDArray[Any]


@dataclass(frozen=True)
class Span:
    """Images in an orthonormal basis of their span; :meth:`of` finds it.

    By the representer theorem, weights w that minimise a loss of the scores x' w plus an L2 penalty are in the span of the
    training images. Scores and norms are the same in coordinates, so that solving there and expanding the solution is exact.

    Parameters
    ----------
    X : ndarray of shape (n, r)
        Coordinates of the images.
    basis : ndarray of shape (d, r), default=None
        Orthonormal basis, r = n; None: the coordinates are the features, r = d.

    Examples
    --------
    >>> span = Span.of(np.array([[3.0, 0.0, 4.0]]))
    >>> span.X.shape, bool(np.isclose(abs(span.X[0, 0]), 5))
    ((1, 1), True)
    >>> span.expand(span.X.T).ravel().round(6).tolist()
    [3.0, 0.0, 4.0]
    """

    X: Array
    basis: Array | None = None

    @classmethod
    def of(cls, X: Array) -> Self:
        """Find the span of images.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Scaled features.

        Returns
        -------
        Span
            Coordinates and basis, in the precision of X. With more than d / 2 images, the basis would cost more time than it
            saves, and the coordinates are the features.
        """
        if not cls.is_smaller(X):
            return cls(X)
        basis, triangle = linalg.qr(X.T, mode="economic", check_finite=False)  # (d, n), (n, n)
        return cls(np.ascontiguousarray(triangle.T), basis)

    @staticmethod
    def is_smaller(X: Any) -> bool:
        """Return whether images (n, d) are at most half as many as features, so that coordinates in their span save time."""
        return bool(2 * len(X) <= X.shape[1])

    @classmethod
    def everything(cls, size: int) -> Self:
        """Return the span of at least as many images as features, d = ``size``; it does not hold the images."""
        return cls(np.empty((0, size)))

    def coordinates(self, X: Array) -> Array:
        """Convert features of other images, (m, d), to coordinates of their projection onto the span, (m, r)."""
        return X if self.basis is None else np.asarray(X @ self.basis)

    def expand(self, weights: Array) -> Array:
        """Convert weights of coordinates, (r, k), to weights of features, (d, k)."""
        return weights if self.basis is None else np.asarray(self.basis @ weights)

    def mean_diagonal(self, square: Array) -> float:
        """Compute the mean diagonal that a matrix of coordinates (r, r) has as a matrix of features (d, d)."""
        return mean_diagonal(square) * (1.0 if self.basis is None else len(square) / len(self.basis))
