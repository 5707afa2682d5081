"""Statistics of linear discriminant analysis: class means, within-class covariance and the whitening it defines."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.errors import ModelError
from sightunseen.methods.base.whitening import shrunk


def shrunk_root(covariance: Doubles, shrinkage: float, size: int | None = None) -> Doubles:
    """Cholesky factor of twice a shrunk covariance.

    Parameters
    ----------
    covariance, shrinkage, size
        See :func:`~sightunseen.methods.base.whitening.shrunk`.

    Returns
    -------
    ndarray of shape (d, d)
        Lower triangular matrix.
    """
    matrix, _ = shrunk(covariance, shrinkage, size)
    return np.asarray(np.sqrt(2) * linalg.cholesky(matrix, lower=True, overwrite_a=True))


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

    def onto(self, points: Doubles) -> tuple[Floats, Doubles | None]:
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
            Map from whitened features to coordinates in the span: an orthonormal basis. None if there are at least as many
            points as dimensions: the span is the whole space, and the basis is the identity.
        """
        size = points.shape[1]
        if len(points) >= size:
            return np.asarray(self._solved(np.eye(size), transposed=True), dtype=np.float32), None
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
