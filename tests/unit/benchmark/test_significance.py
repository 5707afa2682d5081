"""Paired tests over seeds: against SciPy and against values computed by hand."""

import numpy as np
import pytest
from scipy import stats

from sightunseen.benchmark.significance import holm, p_values_of, paired_p_value


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_p_value_is_that_of_student_for_the_mean_difference() -> None:
    one, other = by_seed(52.0, 55.0, 51.0, 54.0), by_seed(51.0, 52.0, 50.5, 53.0)
    differences = np.array([1.0, 3.0, 0.5, 1.0])
    t = differences.mean() / (differences.std(ddof=1) / 2)
    assert paired_p_value(one, other) == pytest.approx(1 - stats.t.cdf(t, df=3))


def test_p_value_is_that_of_a_test_of_the_differences() -> None:
    rng = np.random.default_rng(1)
    for n in (3, 5, 20):
        one, other = rng.normal(50, 2, size=n), rng.normal(49, 2, size=n)
        expected = stats.ttest_1samp(one - other, 0.0, alternative="greater").pvalue
        assert paired_p_value(by_seed(*one), by_seed(*other)) == pytest.approx(expected)


def test_pairs_are_seeds_that_both_have() -> None:
    one, other = {0: 52.0, 1: 55.0, 2: 51.0, 7: 0.0}, {0: 51.0, 1: 52.0, 2: 50.5, 8: 99.0}
    assert paired_p_value(one, other) == paired_p_value(by_seed(52.0, 55.0, 51.0), by_seed(51.0, 52.0, 50.5))
    assert paired_p_value(by_seed(52.0, 55.0), by_seed(51.0, 52.0)) is None
    assert paired_p_value({0: 1.0, 1: 1.0, 2: 1.0}, {3: 0.0, 4: 0.0, 5: 0.0}) is None


def test_constant_difference_is_significant_and_none_is_not() -> None:
    scores = by_seed(50.0, 52.0, 51.0)
    assert paired_p_value(scores, by_seed(49.0, 51.0, 50.0)) == 0.0
    assert paired_p_value(scores, scores) == 1.0


def test_holm_is_monotone_and_at_most_one() -> None:
    # Multiplied by 4, 3, 2 and 1 in ascending order, then made monotone: 0.004, 0.06, 0.06 and 0.9.
    assert holm([0.02, 0.001, 0.9, 0.03]) == pytest.approx([0.06, 0.004, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_p_values_against_the_best_are_adjusted() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(50, 3, size=5)  # the spread between seeds is common to all methods
    scores = {
        "best": by_seed(*base),
        "close": by_seed(*(base - rng.normal(0.3, 0.5, size=5))),
        "far": by_seed(*(base - 5 - rng.normal(0, 0.5, size=5))),
        "single": by_seed(10.0),
    }
    found = p_values_of(scores, "best")
    plain = {name: paired_p_value(scores["best"], scores[name]) for name in ("close", "far")}
    assert found["single"] is None
    assert found["far"] == min(1, 2 * plain["far"]) < 0.05  # the smaller of two p-values is doubled
    assert found["close"] == max(plain["close"], found["far"]) > 0.05
