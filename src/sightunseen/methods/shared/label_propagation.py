"""Label propagation: learning with local and global consistency (Zhou, Bousquet, Lal, Weston & Schölkopf, NIPS 2003)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import cg
from sklearn.neighbors import NearestNeighbors

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Doubles
from sightunseen.core.checks import check_below_one, check_positive, check_whole
from sightunseen.core.limits import NEIGHBOURS


def propagate(points: ArrayLike, initial: ArrayLike, neighbours: int, alpha: float) -> Doubles:
    """Propagate scores over the graph of nearest neighbours: (I - alpha S)^-1 Y.

    S = D^-1/2 W D^-1/2, where W is the graph of :func:`neighbour_graph` and D its degrees.

    Parameters
    ----------
    points : array-like of shape (m, k)
        Points; neighbours are likely to share a class.
    initial : array-like of shape (m, c)
        Y, the initial scores of each point; non-negative in the paper.
    neighbours : int
        Number of nearest neighbours; all other points if there are fewer.
    alpha : float
        Weight of the neighbours, from 0 (scores stay as they are) to below 1.

    Returns
    -------
    ndarray of shape (m, c)
        The limit of F = alpha S F + Y. Multiplied by 1 - alpha, it has the scale of ``initial``.
    """
    return _propagate(neighbour_graph(points, neighbours)[0], np.asarray(initial, dtype=np.float64), alpha)


def neighbour_graph(points: ArrayLike, neighbours: int) -> tuple[sparse.csr_array, float]:
    """Build the symmetric graph of nearest neighbours.

    The weight of two points, one of which is a neighbour of the other, is exp(-distance^2 / (2 width^2)). The papers leave the
    width open; here it is the mean distance of neighbours.

    Parameters
    ----------
    points : array-like of shape (m, k)
        Points.
    neighbours : int
        Number of nearest neighbours.

    Returns
    -------
    graph : csr_array of shape (m, m)
        Weights.
    width : float
        Width of the Gaussian.
    """
    points = np.asarray(points, dtype=np.float64)
    count = min(neighbours, len(points) - 1)
    if count < 1:
        return sparse.csr_array((len(points), len(points))), 1.0
    # Called without arguments, kneighbors excludes each point from its own neighbours.
    distances, nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points).kneighbors()  # (m, count)
    width = float(distances.mean()) or 1.0
    rows = np.repeat(np.arange(len(points)), count)
    weights = _weights(distances, width).ravel()
    graph = sparse.csr_array((weights, (rows, nearest.ravel())), shape=(len(points), len(points)))
    return graph.maximum(graph.T).tocsr(), width


@dataclass(frozen=True)
class Propagation:
    """Points propagated over their own graph, and its extension to new points.

    A new point x becomes (1 - alpha) [x + alpha sum_j S(x, j) F_j]. Propagation is linear: where scores are products of points
    and classes, the scores of propagated points are the propagated scores.

    Parameters
    ----------
    points : ndarray of shape (m, k)
        Points of the graph.
    propagated : ndarray of shape (m, k)
        F, the propagated points.
    degrees : ndarray of shape (m,)
        Degrees of the graph.
    width : float
        Width of the Gaussian.
    neighbours : int
        Number of nearest neighbours.
    alpha : float
        Weight of the neighbours.
    """

    points: NDArray[Any]
    propagated: Doubles
    degrees: Doubles
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
        """Propagate new points (n, k) from their nearest points of the graph; a point of the graph is its own nearest point."""
        count = min(self.neighbours, len(self.points))
        distances, nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(self.points).kneighbors(new)
        weights = _weights(distances, self.width)  # (n, count)
        degrees = weights.sum(axis=1, keepdims=True) * self.degrees[nearest]
        shares = weights * _inverse_root(degrees)
        received = np.einsum("nj,njk->nk", shares, self.propagated[nearest])
        return np.asarray((1 - self.alpha) * (new + self.alpha * received))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted state as named arrays."""
        numbers = np.array([self.width, self.neighbours, self.alpha])
        named = {"points": self.points, "propagated": self.propagated, "degrees": self.degrees, "numbers": numbers}
        return {f"propagation.{name}": array for name, array in named.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Restore the state from :meth:`arrays`; return None if it was not saved."""
        if "propagation.points" not in arrays:
            return None
        points, propagated, degrees, numbers = (
            arrays[f"propagation.{name}"] for name in ("points", "propagated", "degrees", "numbers")
        )
        width, neighbours, alpha = numbers.tolist()
        check_positive("width of the graph", width)
        check_graph(int(neighbours), alpha)
        return cls(points, propagated, degrees, width, int(neighbours), alpha)


def propagation_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
    """Declare the arrays of :class:`Propagation` in a model folder, if it has any."""
    if "propagation.points" not in arrays:
        return {}
    named = {"points": Expected("m k"), "propagated": Expected("m k"), "degrees": Expected("m", least=0)}
    return {f"propagation.{name}": declared for name, declared in {**named, "numbers": Expected("3")}.items()}


def check_graph(neighbours: Any, weight: Any, name: str = "alpha") -> None:
    """Check number and weight of the neighbours.

    Parameters
    ----------
    neighbours : int
        Number of nearest neighbours.
    weight : float
        Their weight.
    name : str, default="alpha"
        Name of the weight, for the error message.

    Raises
    ------
    SettingsError
        If one of them is out of bounds.
    """
    check_whole("neighbours", neighbours, 1, NEIGHBOURS)
    check_below_one(name, weight)


def _propagate(graph: sparse.csr_array, initial: Doubles, alpha: float) -> Doubles:
    scale = sparse.diags_array(_inverse_root(_degrees(graph)))
    # Symmetric with eigenvalues from 1 - alpha to 1 + alpha: conjugate gradients converge in a few dozen iterations.
    system = (sparse.eye_array(len(initial)) - alpha * (scale @ graph @ scale)).tocsr()
    return np.stack([cg(system, column, rtol=1e-10)[0] for column in initial.T], axis=1)


def _weights(distances: Doubles, width: float) -> Doubles:
    return np.asarray(np.exp(-((distances / width) ** 2) / 2))


def _degrees(graph: sparse.csr_array) -> Doubles:
    return np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()


def _inverse_root(degrees: Doubles) -> Doubles:
    """Compute 1 / sqrt(degrees); zero for an isolated point."""
    return np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
