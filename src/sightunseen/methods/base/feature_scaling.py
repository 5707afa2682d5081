"""Feature scalings: L2 normalisation, standardisation, scaling to [0, 1], centring and the signed square root."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.linear import signed_root

ONE_VIEW = ("none", "unit", "standard", "range", "centred", "root")
SCALINGS = (*ONE_VIEW, "root+centred")
CENTRED = ("centred", "root", "root+centred")


@dataclass(frozen=True)
class FeatureScaling:
    """A fitted feature scaling; :meth:`learned` fits one to training features.

    Parameters
    ----------
    kind : {"none", "unit", "standard", "range", "centred", "root", "root+centred"}
        - ``"none"``: features unchanged.
        - ``"unit"``: L2 normalisation of every image.
        - ``"standard"``: every feature standardised to mean 0 and standard deviation 1 over the training images.
        - ``"range"``: every feature scaled to [0, 1] over the training images; values outside are clipped.
        - ``"centred"``: L2 normalisation, then centring: the mean of the training images is subtracted.
        - ``"root"``: signed square root of the features, then L2 normalisation and centring. The square root damps features
          with occasional large values.
        - ``"root+centred"``: both of these side by side, as 2d features.
    shift : ndarray of shape (d,) or (2d,), default=None
        Subtracted from the features, after the L2 normalisation if there is one.
    factor : ndarray of shape (d,), default=None
        Multiplier after the shift.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float32)
    >>> FeatureScaling.learned("unit", X)(X).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """

    kind: str
    shift: Floats | None = None
    factor: Floats | None = None

    @classmethod
    def learned(cls, kind: str, X: Floats) -> "FeatureScaling":
        """Fit a scaling to training features.

        Parameters
        ----------
        kind : str
            One of ``SCALINGS``.
        X : ndarray of shape (n, d)
            Training features.

        Returns
        -------
        FeatureScaling
            The fitted scaling.
        """
        if kind == "standard":
            return cls.standardised(X.mean(axis=0, dtype=np.float64).astype(np.float32), X.std(axis=0, dtype=np.float64))
        if kind == "range":
            return cls.between(X.min(axis=0), X.max(axis=0))
        if kind in CENTRED:
            return cls(kind, _views(kind, X).mean(axis=0, dtype=np.float64).astype(np.float32))
        return cls(kind)

    @classmethod
    def standardised(cls, mean: Floats, deviation: NDArray[Any]) -> "FeatureScaling":
        """Make the scaling ``"standard"`` from the mean (d,) and standard deviation (d,) of the features."""
        return cls("standard", mean, _inverse(deviation))

    @classmethod
    def between(cls, low: Floats, high: Floats) -> "FeatureScaling":
        """Make the scaling ``"range"`` from the smallest and largest values (d,) of the features."""
        return cls("range", low, _inverse(high - low))

    @property
    def views(self) -> int:
        """Number of features side by side that are made of each feature: 2 for ``"root+centred"``, otherwise 1."""
        return 2 if self.kind == "root+centred" else 1

    def __call__(self, X: Floats) -> Floats:
        """Scale features of shape (n, d), to shape (n, views * d); ``"none"`` returns the same array."""
        if self.kind in ("unit", *CENTRED):
            X = _views(self.kind, X)
            return X if self.shift is None else np.asarray(X - self.shift)
        if self.shift is None or self.factor is None:
            return X
        scaled = (X - self.shift) * self.factor
        return np.clip(scaled, 0, 1) if self.kind == "range" else np.asarray(scaled)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays by name, for saving."""
        named = {"scaling.shift": self.shift, "scaling.factor": self.factor}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of_arrays(cls, kind: str, arrays: Mapping[str, NDArray[Any]]) -> "FeatureScaling":
        """Restore a scaling of this kind from the result of :meth:`arrays`."""
        used = {name: arrays.get(name) for name in scaling_arrays(kind)}
        return cls(kind, used.get("scaling.shift"), used.get("scaling.factor"))


def scaling_arrays(kind: str) -> dict[str, Expected]:
    """Declare the arrays of a scaling of this kind in a model folder."""
    names = ("shift", "factor") if kind in ("standard", "range") else ("shift",) if kind in CENTRED else ()
    return {f"scaling.{name}": Expected("v") for name in names}


def normalised(X: Floats, kind: str) -> Floats:
    """Normalise every image on its own.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    kind : {"none", "unit", "root"}
        Nothing, L2 normalisation, or L2 normalisation of the signed square roots.

    Returns
    -------
    ndarray of shape (n, d)
        Normalised features; ``X`` itself if ``kind`` is ``"none"``.
    """
    if kind == "none":
        return X
    if kind == "root":
        X = signed_root(X)
    return np.asarray(X * _inverse(np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]))


def _views(kind: str, X: Floats) -> Floats:
    """Normalise every image as "unit", "centred", "root" or "root+centred" do, before the shift."""
    views = [normalised(X, "root" if view == "root" else "unit") for view in kind.split("+")]
    return views[0] if len(views) == 1 else np.hstack(views)


def _inverse(size: NDArray[Any]) -> Floats:
    """1 / size, or 1 where the size is zero."""
    return np.where(size > 0, 1 / np.where(size > 0, size, 1), 1).astype(np.float32)
