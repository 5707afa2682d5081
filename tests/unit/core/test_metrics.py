"""Metrics, against scikit-learn and against an exhaustive sweep of the bonus."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from sightunseen.core.errors import DataError
from sightunseen.core.metrics import accuracy_by_class, harmonic_mean, per_class_accuracy
from sightunseen.core.seen_unseen import seen_unseen_curve

SEEN, UNSEEN = np.array(["cat", "dog", "horse"]), np.array(["okapi", "quagga", "tapir", "zorse"])


def scored_images(seed: int, whole_numbers: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (n, c) that favour seen classes, labels (n,) of unbalanced classes, candidates (c,) in random order."""
    rng = np.random.default_rng(seed)
    candidates = rng.permutation(np.concatenate([SEEN, UNSEEN]))
    y = rng.permutation(np.repeat(candidates, rng.integers(1, 10, len(candidates))))
    scores = rng.normal(size=(len(y), len(candidates))) + 1.5 * (y[:, None] == candidates) + np.isin(candidates, SEEN)
    return (np.round(2 * scores) if whole_numbers else scores), y, candidates


def predicted_at(bonus: float, scores: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    return candidates[(scores + bonus * np.isin(candidates, UNSEEN)).argmax(axis=1)]


def accuracies_at(bonus: float, scores: np.ndarray, y: np.ndarray, candidates: np.ndarray) -> tuple[float, float]:
    """(U, S), class by class."""
    right = predicted_at(bonus, scores, candidates) == y
    unseen = [right[y == label].mean() for label in UNSEEN]
    seen = [right[y == label].mean() for label in SEEN]
    return sum(unseen) / len(unseen), sum(seen) / len(seen)


def all_bonuses(scores: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """One bonus in every interval without a change of predictions: between all differences of seen and unseen scores."""
    is_unseen = np.isin(candidates, UNSEEN)
    margins = np.unique(scores[:, ~is_unseen][:, :, None] - scores[:, is_unseen][:, None, :])
    return np.concatenate([[margins[0] - 1], (margins[:-1] + margins[1:]) / 2, [margins[-1] + 1]])


SWEEPS = pytest.mark.parametrize(
    ("seed", "whole_numbers"), [(0, False), (1, False), (2, False), (3, True), (4, True)], ids=lambda value: str(value)
)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [str, int])
def test_per_class_accuracy_is_sklearns_balanced_accuracy(seed: int, kind: type) -> None:
    rng = np.random.default_rng(seed)
    y_true = rng.choice(9, size=80, p=np.arange(1, 10) / 45).astype(kind)
    y_pred = np.where(rng.random(80) < 0.5, y_true, rng.integers(0, 12, 80).astype(kind))
    assert per_class_accuracy(y_true, y_pred) == pytest.approx(balanced_accuracy_score(y_true, y_pred), abs=1e-12)


def test_accuracy_by_class_is_computed_per_true_class() -> None:
    y_true, y_pred = ["b", "a", "b", "a", "b", "c"], ["b", "b", "a", "a", "b", "d"]
    assert accuracy_by_class(y_true, y_pred) == {"a": 1 / 2, "b": 2 / 3, "c": 0.0}


@pytest.mark.parametrize(("y_true", "y_pred"), [([1, 2], [1]), ([], []), ([[1, 2]], [[1, 2]]), (1, 1)])
@pytest.mark.parametrize("metric", [accuracy_by_class, per_class_accuracy])
def test_mismatched_labels_and_predictions_raise_an_error(metric, y_true, y_pred) -> None:
    with pytest.raises(DataError, match="as many predictions as labels"):
        metric(y_true, y_pred)


@pytest.mark.parametrize(
    ("unseen", "seen", "expected"), [(0.5, 0.5, 0.5), (0.2, 0.8, 0.32), (60, 30, 40), (0, 0.9, 0), (0, 0, 0)]
)
def test_harmonic_mean_of_known_values(unseen: float, seen: float, expected: float) -> None:
    assert harmonic_mean(unseen, seen) == pytest.approx(expected)


@SWEEPS
def test_area_matches_an_exhaustive_sweep(seed: int, whole_numbers: bool) -> None:
    scores, y, candidates = scored_images(seed, whole_numbers)
    points = [accuracies_at(bonus, scores, y, candidates) for bonus in all_bonuses(scores, candidates)]
    area = sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(points))
    assert 0.1 < area < 0.9
    assert seen_unseen_curve(scores, y, candidates, SEEN).area == pytest.approx(area, abs=1e-12)


@SWEEPS
def test_curve_at_a_bonus_matches_predictions_with_it(seed: int, whole_numbers: bool) -> None:
    scores, y, candidates = scored_images(seed, whole_numbers)
    curve = seen_unseen_curve(scores, y, candidates, SEEN)
    for bonus in all_bonuses(scores, candidates):
        assert curve.at(bonus) == pytest.approx(accuracies_at(bonus, scores, y, candidates), abs=1e-12)


def test_seen_class_is_predicted_if_the_bonus_equals_the_margin() -> None:
    curve = seen_unseen_curve([[3, 1], [5, 1]], ["okapi", "cat"], ["cat", "okapi"], ["cat"])
    assert [curve.at(bonus) for bonus in (-np.inf, 2, 2.5, 4, 4.5, np.inf)] == [(0, 1), (0, 1), (1, 1), (1, 1), (1, 0), (1, 0)]


@SWEEPS
def test_no_bonus_beats_the_best_one(seed: int, whole_numbers: bool) -> None:
    scores, y, candidates = scored_images(seed, whole_numbers)
    best = seen_unseen_curve(scores, y, candidates, SEEN).best_bonus()
    highest = max(harmonic_mean(*accuracies_at(bonus, scores, y, candidates)) for bonus in all_bonuses(scores, candidates))
    assert highest > harmonic_mean(*accuracies_at(0, scores, y, candidates))
    assert harmonic_mean(*accuracies_at(best, scores, y, candidates)) == pytest.approx(highest, abs=1e-12)


def test_best_bonus_is_the_middle_of_its_interval() -> None:
    curve = seen_unseen_curve([[3, 1], [5, 1]], ["okapi", "cat"], ["cat", "okapi"], ["cat"])
    assert curve.best_bonus() == 3


@pytest.mark.parametrize("constant", [-7.5, 0.25, 1000])
def test_constant_on_seen_scores_shifts_the_bonus_and_keeps_the_area(constant: float) -> None:
    scores, y, candidates = scored_images(0)
    moved = scores + constant * np.isin(candidates, SEEN)
    before, after = (seen_unseen_curve(s, y, candidates, SEEN) for s in (scores, moved))
    assert after.area == pytest.approx(before.area, abs=1e-12)
    assert after.best_bonus() == pytest.approx(before.best_bonus() + constant)


def test_area_does_not_depend_on_the_order_of_candidates_and_images() -> None:
    scores, y, candidates = scored_images(0)
    rng = np.random.default_rng(1)
    images, columns = rng.permutation(len(y)), rng.permutation(len(candidates))
    mixed = seen_unseen_curve(scores[images][:, columns], y[images], candidates[columns], SEEN[::-1])
    assert mixed.area == pytest.approx(seen_unseen_curve(scores, y, candidates, SEEN).area, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "candidates", "seen"),
    [
        (["cat", "cat"], ["cat", "okapi"], ["cat"]),
        (["okapi", "okapi"], ["cat", "okapi"], ["cat"]),
        (["cat", "okapi"], ["cat", "dog"], ["cat", "dog"]),
        (["cat", "okapi"], ["okapi", "tapir"], ["cat"]),
    ],
    ids=["no unseen images", "no seen images", "no unseen candidates", "no seen candidates"],
)
def test_curve_needs_seen_and_unseen_images_and_candidates(y: list[str], candidates: list[str], seen: list[str]) -> None:
    with pytest.raises(DataError, match="both seen and unseen"):
        seen_unseen_curve(np.eye(2), y, candidates, seen)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (2, 1), (2,), (1, 2, 2)])
def test_scores_of_wrong_shape_raise_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError):
        seen_unseen_curve(np.zeros(shape), ["cat", "okapi"], ["cat", "okapi"], ["cat"])


def test_nan_scores_raise_an_error() -> None:
    scores, y, candidates = scored_images(0)
    scores[3, 2] = np.nan
    with pytest.raises(DataError):
        seen_unseen_curve(scores, y, candidates, SEEN)
