"""Eq. 1 with infinitely many hidden units: the generator f in closed form, without training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Doubles = NDArray[np.float64]


def wide_kernel(one: Doubles, other: Doubles) -> Doubles:
    """What a hidden layer of ReLUs tells two class vectors apart by, as it grows without bound: (c, a), (s, a) -> (c, s).

    2 E[relu(r.u) relu(r.v)] over standard normal r, the arc-cosine kernel of order one (Cho & Saul, NIPS 2009):
    |u| |v| (sin t + (pi - t) cos t) / pi for the angle t between u and v; |u|^2 for u = v.
    """
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    cosine = np.clip((one @ other.T) / np.where(lengths > 0, lengths, 1), -1, 1)
    angle = np.arccos(cosine)
    return np.asarray(lengths * (np.sin(angle) + (np.pi - angle) * cosine) / np.pi)


@dataclass(frozen=True)
class WideGenerator:
    """f: FC-ReLU-FC from class vectors (c, a) to targets (c, k), infinitely wide, its last layer solved by ridge regression.

    Class vectors are taken from the mean of those it was solved for, which is mapped to zero. ``linear`` leaves the ReLUs out,
    and with them all that is not linear.
    """

    centre: Doubles  # (a,)
    anchors: Doubles  # (s, a), the class vectors it was solved for, centred, of mean squared length one
    unit: float  # the length that centred vectors are divided by
    weights: Doubles  # (s, k)
    linear: bool = False

    @classmethod
    def solved(
        cls, vectors: Doubles, targets: Doubles, noise: Doubles, centre: Doubles | None = None, linear: bool = False
    ) -> "WideGenerator":
        """The generator of these vectors (s, a) and their targets (s, k).

        ``noise`` (s,) is how far a target may be missed: the ridge penalty, where the kernel is one on average. ``centre`` is
        the mean of the vectors unless given.
        """
        vectors = vectors.astype(np.float64)
        centre = vectors.mean(axis=0) if centre is None else centre
        centred = vectors - centre
        unit = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        anchors = centred / unit
        ridge = _kernel(linear)(anchors, anchors) + np.diag(noise)
        return cls(centre, anchors, unit, linalg.solve(ridge, targets.astype(np.float64), assume_a="pos"), linear)

    def followed_by(self, layer: Doubles) -> "WideGenerator":
        """The generator whose targets go through a linear layer (m, k)."""
        return replace(self, weights=self.weights @ layer.T)

    def similarities(self, vectors: Doubles) -> Doubles:
        """The kernel between class vectors and the anchors: (c, a) -> (c, s)."""
        return _kernel(self.linear)((vectors.astype(np.float64) - self.centre) / self.unit, self.anchors)

    def __call__(self, vectors: Doubles) -> Doubles:
        """(c, a) -> (c, k)."""
        return np.asarray(self.similarities(vectors) @ self.weights)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What it is made of, by name."""
        return {f"generator.{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "WideGenerator":
        """The generator that :meth:`arrays` came from."""
        centre, anchors, unit, weights = (arrays[f"generator.{name}"] for name in ("centre", "anchors", "unit", "weights"))
        return cls(centre, anchors, float(unit), weights, bool(arrays.get("generator.linear", False)))


def _kernel(linear: bool) -> Callable[[Doubles, Doubles], Doubles]:
    return (lambda one, other: one @ other.T) if linear else wide_kernel
