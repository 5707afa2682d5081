"""Feature scalings: L2 normalisation, standardisation, scaling to [0, 1], centring, signed square root and whitening."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.linear import signed_root
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.span import Span
from sightunseen.methods.base.whitening import SymmetricWhitening

# Shrinkage is chosen on validation classes like any other scaling. An estimate with the least squared error of the covariance
# (Ledoit & Wolf, 2004) shrinks far less than suits new classes, whose within-class covariance is not that of the seen ones.
WHITENED = {f"whitened-{shrinkage}": shrinkage for shrinkage in (0.1, 0.3, 0.6, 0.9)}
ELEMENTWISE = ("none", "unit", "standard", "range", "centred", "root")
ONE_VIEW = (*ELEMENTWISE, *WHITENED)
TWO_VIEWS = "root+centred"
AUTO = "auto"  # one of AUTOMATIC, chosen by the sign of the training features
AUTOMATIC = ("range", "unit")
CENTRED = ("centred", "root", *WHITENED, TWO_VIEWS)
SEARCHED = ("unit", "standard", "root", *WHITENED)  # by a selection that is asked to choose the scaling of any method


@dataclass(frozen=True)
class FeatureScaling:
    """A fitted feature scaling; :meth:`learned` fits one to training features.

    Parameters
    ----------
    kind : {"none", "unit", "standard", "range", "centred", "root", "whitened-λ", "root+centred"}
        - ``"none"``: features unchanged.
        - ``"unit"``: L2 normalisation of every image.
        - ``"standard"``: every feature standardised to mean 0 and standard deviation 1 over the training images.
        - ``"range"``: every feature scaled to [0, 1] over the training images; values outside are clipped.
        - ``"centred"``: L2 normalisation, then centring: the mean of the training images is subtracted.
        - ``"root"``: signed square root of the features, then L2 normalisation and centring. The square root damps features
          with occasional large values.
        - ``"whitened-0.1"``, ``"whitened-0.3"``, ``"whitened-0.6"``, ``"whitened-0.9"``: as ``"root"``, then whitening by the
          within-class covariance of the training images, shrunk towards a multiple of the identity by this much. The mean
          squared length of the training images is then one, as that of L2-normalised images; for methods with
          ``unit_variance`` it is d, as that of standardised features.
        - ``"root+centred"``: ``"root"`` and ``"centred"`` side by side, as 2d features.
    shift : ndarray of shape (d,) or (2d,), default=None
        Subtracted from the features, after the L2 normalisation if there is one.
    factor : ndarray of shape (d,), default=None
        Multiplier after the shift.
    whitening : SymmetricWhitening, default=None
        Applied after the shift.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float32)
    >>> FeatureScaling.learned("unit", X)(X).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """

    kind: str
    shift: Floats | None = None
    factor: Floats | None = None
    whitening: SymmetricWhitening | None = None

    @classmethod
    def learned(cls, kind: str, X: Floats, y: Labels | None = None, unit_variance: bool = False) -> "FeatureScaling":
        """Fit a scaling to training features.

        Parameters
        ----------
        kind : str
            One of ``ONE_VIEW``, ``TWO_VIEWS``, or ``"auto"``: ``"range"`` if no feature is negative, as in activations,
            otherwise ``"unit"``.
        X : ndarray of shape (n, d)
            Training features.
        y : ndarray of shape (n,), default=None
            Labels; only whitening needs them.
        unit_variance : bool, default=False
            Whether whitened features have a mean square of one, rather than whitened images a mean squared length of one.

        Returns
        -------
        FeatureScaling
            The fitted scaling.

        Raises
        ------
        SettingsError
            If whitening has no labels, or too many features.
        """
        if kind == AUTO:
            kind = "range" if X.min() >= 0 else "unit"
        if kind == "standard":
            return cls.standardised(X.mean(axis=0, dtype=np.float64).astype(np.float32), X.std(axis=0, dtype=np.float64))
        if kind == "range":
            return cls.between(X.min(axis=0), X.max(axis=0))
        if kind not in CENTRED:
            return cls(kind)
        views = _views(kind, X)
        shift = views.mean(axis=0, dtype=np.float64).astype(np.float32)
        if kind not in WHITENED:
            return cls(kind, shift)
        if y is None:
            raise SettingsError(f"feature_scaling={kind!r} needs the labels of the training images. Pass them as y.")
        labels, targets = np.unique(y, return_inverse=True)
        span = Span.of(views - shift)
        length = float(np.sqrt(X.shape[1])) if unit_variance else 1.0
        return cls.whitened(kind, shift, Scatter.of(span.X, targets, len(labels)), span, length)

    @classmethod
    def whitened(cls, kind: str, shift: Floats, scatter: Scatter, span: Span, length: float = 1.0) -> "FeatureScaling":
        """Make a whitening scaling.

        Parameters
        ----------
        kind : str
            One of ``WHITENED``.
        shift : ndarray of shape (d,)
            Mean of the L2-normalised signed square roots.
        scatter : Scatter
            Class means and within-class covariance of the centred features, in coordinates of ``span``.
        span : Span
            Span of the images.
        length : float, default=1.0
            Root mean squared length of the whitened images.

        Returns
        -------
        FeatureScaling
            The scaling.
        """
        return cls(kind, shift, whitening=SymmetricWhitening.of(scatter, WHITENED[kind], span, len(shift), length))

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
        return 2 if self.kind == TWO_VIEWS else 1

    def __call__(self, X: Floats) -> Floats:
        """Scale features of shape (n, d), to shape (n, views * d); ``"none"`` returns the same array."""
        if self.kind in ("unit", *CENTRED):
            X = _views(self.kind, X)
            X = X if self.shift is None else np.asarray(X - self.shift)
            return X if self.whitening is None else self.whitening(X)
        if self.shift is None or self.factor is None:
            return X
        scaled = (X - self.shift) * self.factor
        return np.clip(scaled, 0, 1) if self.kind == "range" else np.asarray(scaled)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays by name, for saving."""
        named = {"scaling.shift": self.shift, "scaling.factor": self.factor}
        if self.whitening is not None:
            named |= {"scaling.directions": self.whitening.directions, "scaling.scale": np.array(self.whitening.scale)}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of_arrays(cls, kind: str, arrays: Mapping[str, NDArray[Any]]) -> "FeatureScaling":
        """Restore a scaling of this kind from the result of :meth:`arrays`."""
        used = {name: arrays.get(name) for name in scaling_arrays(kind)}
        whitening = None
        if kind in WHITENED:
            whitening = SymmetricWhitening(arrays["scaling.directions"], float(arrays["scaling.scale"]))
        return cls(kind, used.get("scaling.shift"), used.get("scaling.factor"), whitening)


def scaling_arrays(kind: str) -> dict[str, Expected]:
    """Declare the arrays of a scaling of this kind in a model folder."""
    names = ("shift", "factor") if kind in ("standard", "range") else ("shift",) if kind in CENTRED else ()
    expected = {f"scaling.{name}": Expected("v") for name in names}
    return {**expected, "scaling.directions": Expected("w d"), "scaling.scale": positive()} if kind in WHITENED else expected


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
    """Normalise every image as "unit" and the centred scalings do, before the shift."""
    views = [normalised(X, "root" if view == "root" or view in WHITENED else "unit") for view in kind.split("+")]
    return views[0] if len(views) == 1 else np.hstack(views)


def _inverse(size: NDArray[Any]) -> Floats:
    """1 / size, or 1 where the size is zero."""
    return np.where(size > 0, 1 / np.where(size > 0, size, 1), 1).astype(np.float32)
