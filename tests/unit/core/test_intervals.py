"""95% intervals: against a literal loop, a closed form, and data with a known accuracy."""

import random

import numpy as np
import pytest

from sightunseen.core.errors import DataError
from sightunseen.core.intervals import MOST_CLASSES, Counts, bootstrap, interval

UNEVEN = Counts(np.array([9, 2, 30, 4, 1, 17]), np.array([10, 10, 40, 5, 20, 17]))


def looped(counts: Counts, per_class: bool, n_draws: int) -> list[float]:
    """Resample classes, then the images of each, one image at a time."""
    rng = random.Random(0)
    images = [[True] * right + [False] * (n - right) for right, n in zip(counts.right, counts.images, strict=True)]
    found = []
    for _ in range(n_draws):
        drawn = [rng.choices(own, k=len(own)) for own in rng.choices(images, k=len(images))]
        if per_class:
            found.append(sum(sum(own) / len(own) for own in drawn) / len(drawn))
        else:
            found.append(sum(map(sum, drawn)) / sum(map(len, drawn)))
    return found


@pytest.mark.parametrize("per_class", [True, False])
def test_bootstrap_matches_a_loop_over_classes_and_images(per_class: bool) -> None:
    expected, found = np.array(looped(UNEVEN, per_class, 4000)), bootstrap(UNEVEN, per_class, n_draws=4000)
    assert found.mean() == pytest.approx(expected.mean(), abs=0.01)
    assert found.std() == pytest.approx(expected.std(), rel=0.06)
    np.testing.assert_allclose(np.quantile(found, [0.025, 0.975]), np.quantile(expected, [0.025, 0.975]), atol=0.025)


@pytest.mark.parametrize("per_class", [True, False])
def test_normal_approximation_for_many_classes_matches_the_bootstrap(per_class: bool) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(1, 30, MOST_CLASSES)
    few = Counts(rng.binomial(images, rng.beta(3, 2, MOST_CLASSES)), images)
    many = Counts(np.tile(few.right, 2), np.tile(few.images, 2))
    one, two = bootstrap(few, per_class), bootstrap(many, per_class)
    assert two.mean() == pytest.approx(one.mean(), abs=0.002)
    assert two.std() == pytest.approx(one.std() / np.sqrt(2), rel=0.15)


@pytest.mark.parametrize(("n_classes", "n_images", "a", "b"), [(6, 30, 2, 2), (10, 20, 8, 2), (50, 15, 2, 1)])
def test_interval_covers_the_accuracy_of_the_population(n_classes: int, n_images: int, a: int, b: int) -> None:
    """Accuracies of classes are drawn from a beta distribution, whose mean is the truth."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        images = np.full(n_classes, n_images)
        counts = Counts(rng.binomial(images, rng.beta(a, b, n_classes)), images)
        low, high = interval(counts, bootstrap(counts))
        covered += low <= 100 * a / (a + b) <= high
    assert 0.87 <= covered / 300 <= 0.99


def test_interval_is_reproducible_and_within_0_and_100() -> None:
    low, high = interval(UNEVEN, bootstrap(UNEVEN))
    assert [low, high] == interval(UNEVEN, bootstrap(UNEVEN))
    assert 0 <= low < 100 * np.mean(UNEVEN.right / UNEVEN.images) < high <= 100
    assert not np.array_equal(bootstrap(UNEVEN, seed=0), bootstrap(UNEVEN, seed=1))


def test_interval_of_all_right_or_none_right_has_the_width_of_wilson() -> None:
    images = np.array([4, 6])
    z2 = 1.959964**2
    right, wrong = Counts(images, images), Counts(np.zeros(2, dtype=int), images)
    assert interval(right, bootstrap(right)) == [round(100 * 10 / (10 + z2), 2), 100.0]
    assert interval(wrong, bootstrap(wrong)) == [0.0, round(100 * z2 / (10 + z2), 2)]


def test_one_class_has_an_interval_over_its_images() -> None:
    one = Counts(np.array([50]), np.array([100]))
    low, high = interval(one, bootstrap(one))
    assert (low, high) == (pytest.approx(40.2, abs=1.5), pytest.approx(59.8, abs=1.5))


def test_counts_of_labels() -> None:
    counts = Counts.of(["b", "a", "b", "c"], ["b", "b", "a", "c"])
    assert (counts.right.tolist(), counts.images.tolist(), counts.n_right, counts.n_images) == ([0, 1, 1], [1, 2, 1], 2, 4)
    with pytest.raises(DataError, match=r"got \(1,\) and \(2,\)"):
        Counts.of(["a", "b"], ["a"])
    with pytest.raises(DataError, match="at least one"):
        Counts.of([], [])
