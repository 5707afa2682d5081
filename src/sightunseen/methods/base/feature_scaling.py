"""Features as a method likes them: left alone, of unit length, standardised, within a range, centred; learned in training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.linear import signed_root

SCALINGS = ("none", "unit", "standard", "range", "centred", "root")
CENTRED = ("centred", "root")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FeatureScaling:
    """``none``; ``unit``: every image of length one; ``standard``: every feature of mean 0 and deviation 1 over the training
    images; ``range``: every feature from 0 to 1 over the training images, others cut off there; ``centred``: every image of
    length one, then the mean of the training images subtracted; ``root``: the same of the features' square roots, with the
    sign of what they are of, which evens out features that are large now and then.
    """

    kind: str
    shift: Floats | None = None  # (d,), subtracted first
    factor: Floats | None = None  # (d,)

    @classmethod
    def learned(cls, kind: str, X: Floats) -> "FeatureScaling":
        """The scaling of this kind for training features (n, d)."""
        if kind == "standard":
            return cls(kind, X.mean(axis=0, dtype=np.float64).astype(np.float32), _inverse(X.std(axis=0, dtype=np.float64)))
        if kind == "range":
            low = X.min(axis=0)
            return cls(kind, low, _inverse(X.max(axis=0) - low))
        if kind in CENTRED:
            return cls(kind, _directions(kind, X).mean(axis=0, dtype=np.float64).astype(np.float32))
        return cls(kind)

    def __call__(self, X: Floats) -> Floats:
        """Scale (n, d) -> (n, d); the same array where nothing changes."""
        if self.kind in ("unit", *CENTRED):
            X = _directions(self.kind, X)
            return X if self.shift is None else np.asarray(X - self.shift)
        if self.shift is None or self.factor is None:
            return X
        scaled = (X - self.shift) * self.factor
        return np.clip(scaled, 0, 1) if self.kind == "range" else np.asarray(scaled)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, by name."""
        named = {"scaling.shift": self.shift, "scaling.factor": self.factor}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of_arrays(cls, kind: str, arrays: Mapping[str, NDArray[Any]]) -> "FeatureScaling":
        """The scaling that :meth:`arrays` came from."""
        return cls(kind, arrays.get("scaling.shift"), arrays.get("scaling.factor"))


def _directions(kind: str, X: Floats) -> Floats:
    """Images, or their roots, of length one."""
    if kind == "root":
        X = signed_root(X)
    return np.asarray(X * _inverse(np.linalg.norm(X, axis=1, keepdims=True)))


def _inverse(size: NDArray[Any]) -> Floats:
    """1 / size; a size of zero, of what never varies, stays as it is."""
    return np.where(size > 0, 1 / np.where(size > 0, size, 1), 1).astype(np.float32)
