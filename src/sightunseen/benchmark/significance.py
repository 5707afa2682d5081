"""Paired tests of methods over the same seeds or class splits."""

from collections.abc import Mapping, Sequence

import numpy as np

LEVEL = 0.05
FEWEST = 3  # pairs below which nothing is tested


def paired_p_value(better: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """Test by a one-sided paired t-test whether a method is better than another one.

    Parameters
    ----------
    better : mapping of int to float
        Scores of the method with the higher mean, by seed.
    other : mapping of int to float
        Scores of the other method, by seed. Seeds that only one of them has are left out.

    Returns
    -------
    float or None
        p-value; None if there are fewer than three pairs.

    Examples
    --------
    >>> round(paired_p_value({0: 52.0, 1: 53.0, 2: 54.5}, {0: 50.0, 1: 51.5, 2: 52.0}), 3)
    0.01
    """
    from scipy.stats import ttest_rel

    seeds = sorted(better.keys() & other.keys())
    if len(seeds) < FEWEST:
        return None
    first, second = (np.array([scores[seed] for seed in seeds]) for scores in (better, other))
    if np.ptp(first - second) == 0:  # without variance the statistic is not defined
        return 0.0 if first[0] > second[0] else 1.0
    return float(ttest_rel(first, second, alternative="greater").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of several tests by Holm's method.

    Parameters
    ----------
    p_values : sequence of float
        p-values.

    Returns
    -------
    list of float
        Adjusted p-values, in the same order. Those below a level are significant at that level for all tests together.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.minimum(np.maximum.accumulate(np.asarray(p_values, dtype=float)[order] * factors), 1.0)
    found = np.empty(len(p_values))
    found[order] = adjusted
    return [float(value) for value in found]


def p_values_of(scores: Mapping[str, Mapping[int, float]], best: str) -> dict[str, float | None]:
    """Test whether the best method is better than each of the others.

    Parameters
    ----------
    scores : mapping of str to mapping of int to float
        Scores of each method by seed.
    best : str
        The method with the highest mean.

    Returns
    -------
    dict of str to float or None
        p-value of the paired t-test of every other method against the best, after Holm's correction; None for methods that
        share fewer than three seeds with it.
    """
    tested = {name: paired_p_value(scores[best], found) for name, found in scores.items() if name != best}
    p_values = {name: value for name, value in tested.items() if value is not None}
    return {**tested, **dict(zip(p_values, holm(list(p_values.values())), strict=True))}
