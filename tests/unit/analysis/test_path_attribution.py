"""Path attribution against Shapley values over all orders, closed forms and integrals; zero vectors on the path."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis import path_attribution
from sightunseen.analysis.path_attribution import PathAttribution
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import DAP, ESZSL, ZeroShotClassifier


class Scored(ZeroShotClassifier):
    """A method whose score is any function of an image x and a class vector v."""

    def __init__(self, function: Callable[[Any, Any], float], semantic_norm: Any = None) -> None:
        self.function = function
        self.semantic_norm = semantic_norm

    def fit(self, X: Any, y: Any, classes: Any = None) -> "Scored":
        self._begin_fit(X, y, classes)
        return self

    def _scorer(self, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        vectors = self._vectors_of(labels)
        return lambda X: np.array([[self.function(x, v) for v in vectors] for x in X.astype(float)])

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _take_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        del arrays


def scored(function: Callable[[Any, Any], float], size: int, norm: Any = None) -> Scored:
    return Scored(function, norm).fit(np.eye(2, 3), ["a", "b"], ClassTable(["a", "b"], np.ones((2, size))))


def shapley(function: Callable[[Any], float], start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Shapley values: the change caused by each attribute, averaged over all orders."""
    values, orders = np.zeros(len(end)), list(itertools.permutations(range(len(end))))
    for order in orders:
        point = start.copy()
        for index in order:
            before = function(point)
            point[index] = end[index]
            values[index] += function(point) - before
    return values / len(orders)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_pairwise_scores_give_exact_shapley_values(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs, singles = rng.normal(size=(3, size, size)), rng.normal(size=(3, size))
    X, (start, end) = rng.normal(size=(4, 3)), rng.normal(size=(2, size))

    def function(x: Any, v: Any) -> float:
        return float(v @ np.tensordot(x, pairs, 1) @ v + x @ singles @ np.exp(v))

    values, totals = PathAttribution(scored(function, size), start, end)(X)
    for x, found, total in zip(X.astype(np.float32), values, totals, strict=True):
        np.testing.assert_allclose(found, shapley(lambda v, x=x: function(x, v), start, end), atol=1e-10)
        assert total == pytest.approx(function(x, end) - function(x, start), abs=1e-10)


def test_linear_scores_give_weight_times_difference_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    weights, X = rng.normal(size=(3, 7)), rng.normal(size=(5, 3)).astype(np.float32)
    start, end = rng.normal(size=(2, 7)) * [1, 10, 1, 0.1, 1, 100, 1]
    model = scored(lambda x, v: float(x @ weights @ v), 7)
    for seed in range(3):
        monkeypatch.setattr(path_attribution, "derive_seed", lambda *names, seed=seed: seed)
        values, _ = PathAttribution(model, start, end)(X)
        np.testing.assert_allclose(values, X @ weights * (end - start), rtol=1e-9, atol=1e-9)


def test_contributions_approximate_integrated_gradients() -> None:
    """A function of the sum has the same gradient for all attributes, so contributions are proportional to differences.

    With one step per attribute, in one order and its reverse, some would be 50 % too large.
    """
    rng = np.random.default_rng(0)
    start, end = rng.random(40), 3 * rng.random(40)
    values, totals = PathAttribution(scored(lambda x, v: float(v.sum() ** 3 + 1e4 * np.tanh(v.mean())), 40), start, end)(
        np.ones((1, 3))
    )
    np.testing.assert_allclose(values[0], totals[0] * (end - start) / (end - start).sum(), atol=0.15 * totals[0] / 40)


def test_each_step_changes_one_attribute_and_the_path_is_symmetric() -> None:
    start, end = np.array([0.0, 5, 2, 1, 1]), np.array([1.0, 5, -6, 1, 1.5])
    points = PathAttribution(scored(lambda x, v: 0.0, 5), start, end).points()
    np.testing.assert_array_equal(points[[0, -1]], [start, end])
    moves = np.diff(points, axis=0)
    assert ((moves != 0).sum(axis=1) == 1).all()
    assert np.abs(moves).max() <= np.abs(end - start)[[0, 2, 4]].mean() / 2 + 1e-12
    np.testing.assert_allclose(points + points[::-1], np.tile(start + end, (len(points), 1)))
    assert len(points) <= 4 * 3 + 1


def test_equal_vectors_and_a_single_attribute() -> None:
    X = np.ones((2, 3))
    model = scored(lambda x, v: float(v[0] ** 2), 1)
    values, totals = PathAttribution(model, np.array([2.0]), np.array([2.0]))(X)
    assert (values.tolist(), totals.tolist()) == ([[0], [0]], [0, 0])
    values, totals = PathAttribution(model, np.array([2.0]), np.array([-3.0]))(X)
    assert (values.tolist(), totals.tolist()) == ([[5], [5]], [5, 5])


@pytest.mark.parametrize("block", [1, 2, 7])
def test_results_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    rng = np.random.default_rng(0)
    X, (start, end) = rng.normal(size=(4, 3)), rng.normal(size=(2, 6))
    model = scored(lambda x, v: float(np.sin(x.sum() * v).sum() * v.prod()), 6)
    whole = PathAttribution(model, start, end)(X)
    monkeypatch.setattr(path_attribution, "BLOCK", block)
    for found, expected in zip(PathAttribution(model, start, end)(X), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_zero_vectors_on_the_path_are_interpolated() -> None:
    """A zero vector cannot be normalised; it occurs midway between opposite vectors and on some staircase paths."""
    weights = np.array([3.0, 1.0, 2.0, -1.0, 0.5])
    model = scored(lambda x, v: float(weights @ v), 5, norm=1.0)
    one = np.eye(5)
    ends = [(np.arange(5) - 2.5, 2.5 - np.arange(5))]
    ends += [(one[i], one[j] - one[i]) for i, j in itertools.permutations(range(5), 2)]
    early = 0
    for start, end in ends:
        attribution = PathAttribution(model, start, end)
        points = attribution.points()
        scores = [weights @ point / np.linalg.norm(point) if point.any() else np.nan for point in points]
        for index in np.flatnonzero(np.isnan(scores)):
            scores[index] = (scores[index - 1] + scores[index + 1]) / 2
            early += index != len(points) // 2
        expected = np.zeros(5)
        for before, after, change in zip(points, points[1:], np.diff(scores), strict=False):
            expected[np.flatnonzero(before != after)] += change
        values, totals = attribution(np.ones((1, 3)))
        np.testing.assert_allclose(values[0], expected, atol=1e-12)
        assert totals[0] == pytest.approx(weights @ (end / np.linalg.norm(end) - start / np.linalg.norm(start)))
    assert early > 0


@pytest.mark.parametrize("method", [ESZSL(), DAP(feature_scaling="standard")], ids=["ESZSL", "DAP"])
def test_a_zero_start_has_the_mean_score_of_the_seen_classes(method: ZeroShotClassifier) -> None:
    table = ClassTable(list("abcd"), [[1, -1, 1], [-1, 1, -1], [1, 1, 1], [-1, -1, -1]])
    rng = np.random.default_rng(0)
    y = np.repeat(list("abcd"), 8)
    X = table.vectors_of(y) @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(32, 6))
    model = method.fit(X, y, table)
    model.seen_penalty = 5.0
    values, totals = PathAttribution(model, np.zeros(3), np.array([1.0, -1.0, 1.0]))(X)
    scores = model.decision_function(X) + 5.0
    np.testing.assert_allclose(values.sum(axis=1), totals, atol=1e-9)
    np.testing.assert_allclose(totals, scores[:, 0] - scores.mean(axis=1), atol=1e-4)


def test_zero_vectors_are_scored_if_the_method_accepts_them() -> None:
    model = scored(lambda x, v: float(np.cos(v).sum()), 2)
    values, _ = PathAttribution(model, np.zeros(2), np.array([1.0, -2.0]))(np.ones((1, 3)))
    np.testing.assert_allclose(values, [[np.cos(1) - 1, np.cos(2) - 1]])
