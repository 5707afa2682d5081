"""Whitening by the shrunk within-class covariance of the training images."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import WHITENED_SIZE
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.span import Span


def shrunk(covariance: Doubles, shrinkage: float, size: int | None = None) -> tuple[Doubles, float]:
    """Shrink a covariance towards the identity times the mean variance.

    Parameters
    ----------
    covariance : ndarray of shape (r, r)
        Within-class covariance.
    shrinkage : float
        From 0 to 1. It regularises the estimate, which is noisy if there are not many more images than features.
    size : int, default=None
        Number of features that the mean variance is taken over, if the covariance is that of fewer coordinates which contain
        all of the variance. None: r.

    Returns
    -------
    shrunk : ndarray of shape (r, r)
        The shrunk covariance, positive definite.
    least : float
        The multiple of the identity that it contains: the variance in directions without variation.
    """
    size = len(covariance) if size is None else size
    spread = float(np.trace(covariance)) / size
    # A small multiple of the identity keeps the covariance positive definite if a feature is constant or every class has a
    # single image.
    least = max(shrinkage * spread, float(np.finfo(np.float32).eps) * size * (spread or 1.0))
    result = covariance * (1 - shrinkage)
    result[np.diag_indices_from(result)] += least
    return result, least


@dataclass(frozen=True)
class SymmetricWhitening:
    """Symmetric linear map, a multiple of the inverse square root of a covariance: x -> scale x - B' B x.

    Among all whitening maps the symmetric one changes the features least (Kessy, Lewin & Strimmer, 2018), so that methods with
    a network, a variance or a threshold per feature keep their features. It does not depend on the order of the features.

    Parameters
    ----------
    directions : ndarray of float32 of shape (r, d)
        B: the directions with variation, r of them.
    scale : float
        Factor in all other directions.
    """

    directions: Floats
    scale: float

    @classmethod
    def of(cls, scatter: Scatter, shrinkage: float, span: Span, size: int, length: float) -> "SymmetricWhitening":
        """Compute the whitening that gives the training images a certain length, to which learning rates are tuned.

        Parameters
        ----------
        scatter : Scatter
            Class means and within-class covariance of centred features, in coordinates of ``span``.
        shrinkage : float
            Shrinkage of the covariance, less than 1; see :func:`shrunk`.
        span : Span
            Span of the images.
        size : int
            Number of features (d).
        length : float
            Root mean squared length of the whitened images.

        Returns
        -------
        SymmetricWhitening
            The whitening.

        Raises
        ------
        SettingsError
            If the covariance is too large to be decomposed.
        """
        (covariance,) = scatter.covariances
        if len(covariance) > WHITENED_SIZE:
            raise SettingsError(
                f"whitening decomposes a covariance of {len(covariance):,} features; the limit is {WHITENED_SIZE:,}. Use "
                "feature_scaling='root', or fewer features."
            )
        matrix, least = shrunk(covariance, shrinkage, size)
        variances, vectors = linalg.eigh(matrix, overwrite_a=True, check_finite=False)  # (r,), (r, r)
        factors = 1 / np.sqrt(np.maximum(variances, least))
        within = (variances - least) / (1 - shrinkage)  # variances of the coordinates along the vectors, before shrinkage
        between = (np.square(scatter.means @ vectors) * scatter.counts[:, None]).sum(axis=0) / scatter.counts.sum()
        unit = length / (float(np.sqrt(np.square(factors) @ (within + between))) or 1.0)
        scale = unit / np.sqrt(least)
        weights = np.sqrt(np.maximum(scale - unit * factors, 0))
        return cls(np.ascontiguousarray(span.expand(vectors * weights).T, dtype=np.float32), float(np.float32(scale)))

    def __call__(self, X: NDArray[Any]) -> NDArray[Any]:
        """Whiten centred features, or weights of whitened features, of shape (n, d), in the precision of X."""
        if 2 * len(self.directions) > self.directions.shape[1]:
            return np.asarray(X @ self.matrix.astype(X.dtype, copy=False))
        directions = self.directions.astype(X.dtype, copy=False)
        return np.asarray(X * X.dtype.type(self.scale) - (X @ directions.T) @ directions)

    @cached_property
    def matrix(self) -> Floats:
        """The map as a symmetric matrix (d, d)."""
        product = -(self.directions.T @ self.directions)
        product[np.diag_indices_from(product)] += np.float32(self.scale)
        return product

    def __deepcopy__(self, memo: Any) -> "SymmetricWhitening":
        return self  # never modified
