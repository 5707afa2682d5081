"""Reliability diagram and expected calibration error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.core.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Images whose confidence is above ``lower`` and at most ``upper``.

    Parameters
    ----------
    lower, upper : float
        Bounds of the confidence.
    images : int
        Number of images.
    confidence : float
        Mean confidence.
    accuracy : float
        Share of the images that are predicted correctly.
    """

    lower: float
    upper: float
    images: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """Reliability diagram: accuracy as a function of confidence.

    Parameters
    ----------
    bins : tuple of Bin
        The bins that contain images, by rising confidence.
    """

    bins: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """Expected calibration error (Guo et al., ICML 2017, Eq. 3): mean gap of the bins, weighted by images."""
        gaps = sum(part.images * abs(part.accuracy - part.confidence) for part in self.bins)
        return gaps / sum(part.images for part in self.bins)


def reliability(confidence: ArrayLike, right: ArrayLike, n_bins: int = 10) -> Reliability:
    """Group images by the confidence of their predictions.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability of the predicted class, between 0 and 1.
    right : array-like of bool of shape (n,)
        Whether the prediction is correct.
    n_bins : int, default=10
        Number of bins of equal width between 0 and 1.

    Returns
    -------
    Reliability
        The bins that contain images.

    Raises
    ------
    DataError
        If there are no images.

    Examples
    --------
    >>> round(reliability([0.9, 0.9, 0.6, 0.6], [True, True, True, False]).error, 3)
    0.1
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right)
    if not len(confidence):
        raise DataError("the calibration error needs at least one image; got none. Give images with known labels.")
    edges = np.arange(n_bins + 1) / n_bins
    bin_of = np.digitize(confidence, edges[1:-1], right=True)  # (n,)
    bins = []
    for k in np.unique(bin_of).tolist():
        inside = bin_of == k
        means = float(confidence[inside].mean()), float(right[inside].mean())
        bins.append(Bin(float(edges[k]), float(edges[k + 1]), int(inside.sum()), *means))
    return Reliability(tuple(bins))
