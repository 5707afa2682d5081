"""Label propagation, compared with its dense definition."""

import numpy as np
import pytest

from sightunseen.methods.shared.label_propagation import Propagation, neighbour_graph, propagate


def dense_graph(points: np.ndarray, neighbours: int) -> np.ndarray:
    """Build the graph edge by edge."""
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    nearest = [[j for j in np.argsort(row, kind="stable") if j != i][:neighbours] for i, row in enumerate(distances)]
    width = np.mean([distances[i, j] for i in range(len(points)) for j in nearest[i]])
    graph = np.zeros_like(distances)
    for i in range(len(points)):
        for j in range(len(points)):
            if j in nearest[i] or i in nearest[j]:
                graph[i, j] = np.exp(-(distances[i, j] ** 2) / (2 * width**2))
    return graph


@pytest.mark.parametrize("neighbours", [1, 4, 100])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_propagate_solves_the_linear_system(neighbours: int, alpha: float) -> None:
    rng = np.random.default_rng(0)
    points, initial = rng.normal(size=(40, 3)), rng.random((40, 5))
    graph = dense_graph(points, neighbours)
    np.testing.assert_allclose(neighbour_graph(points, neighbours)[0].toarray(), graph, atol=1e-12)
    degrees = graph.sum(axis=1)
    expected = np.linalg.solve(np.eye(40) - alpha * graph / np.sqrt(np.outer(degrees, degrees)), initial)
    np.testing.assert_allclose(propagate(points, initial, neighbours, alpha), expected, rtol=1e-6)


def test_one_labelled_point_labels_its_cluster() -> None:
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(size=(30, 4)), 8 + rng.normal(size=(30, 4))])
    initial = np.zeros((60, 2))
    initial[3, 0] = initial[33, 1] = 1
    found = propagate(points, initial, neighbours=5, alpha=0.9).argmax(axis=1)
    np.testing.assert_array_equal(found, np.repeat([0, 1], 30))


def test_scale_of_points_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    points, initial = rng.normal(size=(30, 3)), rng.random((30, 2))
    np.testing.assert_allclose(propagate(1e6 * points, initial, 4, 0.8), propagate(points, initial, 4, 0.8), rtol=1e-6)


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((5, 2)), np.array([[0.0], [1], [2], [1e9]])])
def test_isolated_equal_and_distant_points_have_finite_scores(points: np.ndarray) -> None:
    initial = np.eye(len(points))
    found = propagate(points, initial, 2, 0.9)
    assert np.isfinite(found).all()
    assert (found >= initial - 1e-9).all()


def test_extension_to_new_points_matches_the_formula() -> None:
    rng = np.random.default_rng(3)
    points, new = rng.normal(size=(25, 3)), rng.normal(size=3)
    propagation = Propagation.of(points, neighbours=4, alpha=0.7)
    graph, width = neighbour_graph(points, 4)
    degrees, propagated = graph.toarray().sum(axis=1), propagate(points, points, 4, 0.7)
    distances = np.sqrt(((points - new) ** 2).sum(axis=1))
    nearest = np.argsort(distances)[:4]
    weights = np.exp(-(distances[nearest] ** 2) / (2 * width**2))
    received = sum(w / np.sqrt(weights.sum() * degrees[j]) * propagated[j] for w, j in zip(weights, nearest, strict=True))
    expected = (1 - 0.7) * (new + 0.7 * received)
    np.testing.assert_allclose(propagation.extended(new[None])[0], expected, rtol=1e-6)
    copied = Propagation.of_arrays(propagation.arrays())
    np.testing.assert_array_equal(copied.extended(points), propagation.extended(points))
