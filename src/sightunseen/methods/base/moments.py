"""Sums over images that determine class means and covariances, accumulated block by block.

The products of a block are computed in single precision and added up in double precision. Features are shifted by an
approximate mean first, so that covariances, which are differences of sums, lose no precision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.feature_scaling import WHITENED, FeatureScaling, normalised
from sightunseen.methods.base.scatter import Scatter, memberships
from sightunseen.methods.base.span import Span

# Blocks with fewer values are multiplied in double precision: few images give nearly singular covariances.
EXACT_VALUES = 1 << 22
LEAST_VARIANCE = 1e-6  # relative to the total variance; less is rounding error, where every class has a single image

NORMALISATIONS = {  # of each feature scaling with a single view: what is done to every image on its own
    "none": "none",
    "standard": "none",
    "range": "none",
    "unit": "unit",
    "centred": "unit",
    "root": "root",
    **dict.fromkeys(WHITENED, "root"),
}


def normalisations_of(scaling: str) -> tuple[str, ...]:
    """Return the normalisation of each view of a feature scaling.

    >>> normalisations_of("root+centred")
    ('root', 'unit')
    """
    return tuple(NORMALISATIONS[view] for view in scaling.split("+"))


@dataclass(frozen=True)
class Moments:
    """Counts, sums and second moments of images, all of features minus ``origin``.

    Parameters
    ----------
    normalisation : {"none", "unit", "root"}
        Features as they are, L2-normalised, or L2-normalised signed square roots.
    origin : ndarray of shape (d,)
        Subtracted from normalised features.
    labels : ndarray of shape (s,)
        Labels of the classes, sorted.
    counts : ndarray of shape (s,)
        Number of images of each class.
    sums : ndarray of shape (s, d)
        Sum of the images of each class.
    square : ndarray of shape (d, d) or (s, d)
        Sum of the outer products of all images; or, for methods with a diagonal covariance per class, the sum of the squares
        of the images of each class.
    low, high : ndarray of shape (d,)
        Smallest and largest value of each feature.
    by_class : bool, default=False
        Whether ``square`` has the squares of each class.
    applied : FeatureScaling, default=None
        Scaling of the images before the moments were computed. None: they are those of normalised images.
    """

    normalisation: str
    origin: Floats
    labels: Labels
    counts: Doubles
    sums: Doubles
    square: Doubles
    low: Floats
    high: Floats
    by_class: bool = False
    applied: FeatureScaling | None = None

    @classmethod
    def of(cls, X: Floats, y: Labels, normalisation: str, origin: Floats | None = None, by_class: bool = False) -> "Moments":
        """Compute the moments of one block.

        Parameters
        ----------
        X : ndarray of float32 of shape (n, d)
            Features.
        y : ndarray of shape (n,)
            Labels.
        normalisation : {"none", "unit", "root"}
            Normalisation of every image.
        origin : ndarray of shape (d,), default=None
            Approximate mean of the normalised features. None: their mean in this block.
        by_class : bool, default=False
            Squares of each class instead of outer products.

        Returns
        -------
        Moments
            The moments; ``square`` of a large block is in single precision.
        """
        labels, targets = np.unique(y, return_inverse=True)
        images = normalised(X, normalisation)
        low, high = (images.min(axis=0), images.max(axis=0)) if normalisation == "none" else (X[0], X[0])
        if origin is None:
            origin = images.mean(axis=0, dtype=np.float64).astype(np.float32)
        images = images - origin if images is X else np.subtract(images, origin, out=images)
        images = images.astype(np.float64) if images.size <= EXACT_VALUES else images
        belongs = memberships(targets.ravel(), len(labels))
        counts = np.bincount(targets.ravel(), minlength=len(labels)).astype(np.float64)
        sums = np.asarray(belongs.T @ images, dtype=np.float64)
        square = belongs.T @ np.square(images) if by_class else images.T @ images
        return cls(normalisation, origin, labels, counts, sums, square, low, high, by_class)

    def __add__(self, other: "Moments") -> "Moments":
        """Add the moments of other images, with the same origin."""
        return self._combined(other, 1.0)

    def __sub__(self, other: "Moments") -> "Moments":
        """Subtract the moments of some of the images; smallest and largest values remain those of all."""
        return replace(self._combined(other, -1.0), low=self.low, high=self.high)

    def scaling(self, kind: str) -> FeatureScaling:
        """Compute a feature scaling with a single view, as :meth:`FeatureScaling.learned` does from the images."""
        if self.applied is not None or kind in ("none", "unit"):
            return self.applied or FeatureScaling(kind)
        total = self.counts.sum()
        mean = self.sums.sum(axis=0) / total
        if kind == "range":
            return FeatureScaling.between(self.low, self.high)
        shift = (self.origin + mean).astype(np.float32)
        if kind in WHITENED:
            span = Span.everything(len(shift))
            return FeatureScaling.whitened(kind, shift, self.scatter(FeatureScaling("root", shift)), span)
        if kind != "standard":
            return FeatureScaling(kind, shift)
        squares = self.square.sum(axis=0) if self.by_class else np.diag(self.square)
        return FeatureScaling.standardised(shift, np.sqrt(np.maximum(squares / total - mean**2, 0)))

    def scatter(self, scaling: FeatureScaling) -> Scatter:
        """Compute class means and within-class covariance of scaled features; ``scaling`` has a single view."""
        covariance = self.square - (self.sums / self.counts[:, None]).T @ self.sums
        covariance /= self.counts.sum()
        if np.trace(covariance) <= LEAST_VARIANCE * np.trace(self.square) / self.counts.sum():
            covariance[:] = 0.0
        if scaling.factor is not None:
            covariance *= scaling.factor[:, None] * scaling.factor.astype(np.float64)
        if scaling.whitening is not None:
            covariance = scaling.whitening(scaling.whitening(covariance).T)
        return Scatter(self.means(scaling), self.counts, (covariance,))

    def means(self, scaling: FeatureScaling) -> Doubles:
        """Compute the class means (s, d) of scaled features."""
        means, scaling = self.sums / self.counts[:, None], self._still_to_apply(scaling)
        means += self.origin if scaling.shift is None else self.origin - scaling.shift.astype(np.float64)
        means = means if scaling.factor is None else means * scaling.factor
        return means if scaling.whitening is None else scaling.whitening(means)

    def squares(self, scaling: FeatureScaling) -> Doubles:
        """Compute the sums of squared deviations (s, d) of scaled features from the mean of their class."""
        squares, scaling = np.maximum(self.square - self.sums**2 / self.counts[:, None], 0), self._still_to_apply(scaling)
        return squares if scaling.factor is None else squares * scaling.factor.astype(np.float64) ** 2

    def _still_to_apply(self, scaling: FeatureScaling) -> FeatureScaling:
        return scaling if self.applied is None else FeatureScaling("none")

    def _combined(self, other: "Moments", sign: float) -> "Moments":
        labels = np.union1d(self.labels, other.labels)

        def total(one: Doubles, two: Doubles) -> Doubles:
            added = np.zeros((len(labels), *one.shape[1:]))
            added[np.searchsorted(labels, self.labels)] = one
            added[np.searchsorted(labels, other.labels)] += sign * two
            return added

        return replace(
            self,
            labels=labels,
            counts=total(self.counts, other.counts),
            sums=total(self.sums, other.sums),
            square=total(self.square, other.square) if self.by_class else self.square + sign * other.square.astype(np.float64),
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
        )


AllMoments = Mapping[str, Moments]  # normalisation -> moments of the same images


def scaled_scatter(moments: AllMoments, kind: str) -> tuple[FeatureScaling, Scatter]:
    """Compute a feature scaling and the scatter of scaled features from the moments of each normalisation.

    Parameters
    ----------
    moments : mapping of str to Moments
        Moments by normalisation.
    kind : str
        Feature scaling, see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.

    Returns
    -------
    scaling : FeatureScaling
        The fitted scaling.
    scatter : Scatter
        Means and covariances, with all views side by side.
    """
    views = kind.split("+")
    scalings = [moments[NORMALISATIONS[view]].scaling(view) for view in views]
    scatters = [moments[NORMALISATIONS[view]].scatter(one) for view, one in zip(views, scalings, strict=True)]
    if len(views) == 1:
        return scalings[0], scatters[0]
    shift: NDArray[Any] = np.concatenate([one.shift for one in scalings if one.shift is not None])
    return FeatureScaling(kind, shift), scatters[0].beside(scatters[1])
