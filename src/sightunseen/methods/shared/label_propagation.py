"""Label propagation: learning with local and global consistency (Zhou, Bousquet, Lal, Weston & Schölkopf, NIPS 2003)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import cg
from sklearn.neighbors import NearestNeighbors

Doubles = NDArray[np.float64]


def propagate(points: ArrayLike, initial: ArrayLike, neighbours: int, alpha: float) -> Doubles:
    """(I - alpha S)^-1 Y, where S = D^-1/2 W D^-1/2 and W is the graph of :func:`neighbour_graph`.

    Parameters
    ----------
    points : (m, k), what is near on these is likely of one class.
    initial : (m, c), Y: scores of every point for every class, from zero up in the paper.
    neighbours : edges go from a point to so many others; all others where there are fewer.
    alpha : from 0, which leaves the scores as they are, to just below 1.

    Returns
    -------
    (m, c), the limit of F = alpha S F + Y. Times 1 - alpha it has the size of ``initial``.
    """
    return _propagate(neighbour_graph(points, neighbours)[0], np.asarray(initial, dtype=np.float64), alpha)


def neighbour_graph(points: ArrayLike, neighbours: int) -> tuple[sparse.csr_array, float]:
    """W (m, m): exp(-distance^2 / (2 width^2)) between two points of which one is among the other's neighbours; the width.

    The width, which the papers leave open, is the mean distance of neighbours: it goes with the scale of the points.
    """
    points = np.asarray(points, dtype=np.float64)
    count = min(neighbours, len(points) - 1)
    if count < 1:
        return sparse.csr_array((len(points), len(points))), 1.0
    # Without points of its own to look up, scikit-learn leaves every point out of its own neighbours.
    distances, nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points).kneighbors()  # (m, count)
    width = float(distances.mean()) or 1.0
    rows = np.repeat(np.arange(len(points)), count)
    weights = _weights(distances, width).ravel()
    graph = sparse.csr_array((weights, (rows, nearest.ravel())), shape=(len(points), len(points)))
    return graph.maximum(graph.T).tocsr(), width


@dataclass(frozen=True)
class Propagation:
    """Points propagated among themselves, and new points with them: F(x) = (1 - alpha) [x + alpha sum_j S(x, j) F_j].

    Propagating is linear: where scores are products of points and classes, those of propagated points are propagated scores.
    """

    points: NDArray[Any]  # (m, k)
    propagated: Doubles  # (m, k)
    degrees: Doubles  # (m,)
    width: float
    neighbours: int
    alpha: float

    @classmethod
    def of(cls, points: NDArray[Any], neighbours: int, alpha: float) -> Self:
        """Propagate points (m, k) over their graph."""
        graph, width = neighbour_graph(points, neighbours)
        propagated = _propagate(graph, points.astype(np.float64), alpha)
        return cls(points, propagated, _degrees(graph), width, neighbours, alpha)

    def extended(self, new: NDArray[Any]) -> Doubles:
        """New points (n, k) with what they get from the nearest of the old ones; an old one is its own nearest, too."""
        count = min(self.neighbours, len(self.points))
        distances, nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(self.points).kneighbors(new)
        weights = _weights(distances, self.width)  # (n, count)
        degrees = weights.sum(axis=1, keepdims=True) * self.degrees[nearest]
        shares = weights * _inverse_root(degrees)
        received = np.einsum("nj,njk->nk", shares, self.propagated[nearest])
        return np.asarray((1 - self.alpha) * (new + self.alpha * received))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, by name."""
        numbers = np.array([self.width, self.neighbours, self.alpha])
        named = {"points": self.points, "propagated": self.propagated, "degrees": self.degrees, "numbers": numbers}
        return {f"propagation.{name}": array for name, array in named.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """What :meth:`arrays` came from; None where there is nothing of it."""
        if "propagation.points" not in arrays:
            return None
        points, propagated, degrees, numbers = (
            arrays[f"propagation.{name}"] for name in ("points", "propagated", "degrees", "numbers")
        )
        return cls(points, propagated, degrees, float(numbers[0]), int(numbers[1]), float(numbers[2]))


def _propagate(graph: sparse.csr_array, initial: Doubles, alpha: float) -> Doubles:
    scale = sparse.diags_array(_inverse_root(_degrees(graph)))
    # Symmetric, and its eigenvalues lie from 1 - alpha to 1 + alpha: conjugate gradients need some dozen steps.
    system = (sparse.eye_array(len(initial)) - alpha * (scale @ graph @ scale)).tocsr()
    return np.stack([cg(system, column, rtol=1e-10)[0] for column in initial.T], axis=1)


def _weights(distances: Doubles, width: float) -> Doubles:
    return np.asarray(np.exp(-((distances / width) ** 2) / 2))


def _degrees(graph: sparse.csr_array) -> Doubles:
    return np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()


def _inverse_root(degrees: Doubles) -> Doubles:
    """1 / sqrt(degrees); zero for a point that has no neighbours near enough."""
    return np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
