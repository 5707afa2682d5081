"""Comparison of methods over many class splits: mean ranks, confidence intervals, Friedman and Nemenyi tests (Demsar, 2006)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightunseen.benchmark.draws import ALL, Draw
from sightunseen.benchmark.groups import newest
from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.benchmark.significance import LEVEL

COMPARED = ("T1", "H")

Block = tuple[str, int]  # data set and seed of the draw
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Results of methods on the same random class splits.

    A block is one draw of one data set. Only blocks in which every method has a result are compared.

    Parameters
    ----------
    draw : Draw
        How the splits were drawn.
    setting : {"inductive", "transductive"}
        Setting of the methods.
    methods : tuple of str
        Names of the methods.
    blocks : tuple of (str, int)
        Data set and seed of each block.
    scores : mapping of str to ndarray of shape (blocks, methods)
        T1 and H in percent.
    missing : mapping of str to int
        Number of blocks without a result, by method; methods that have all are left out.
    repeated : tuple of str, default=()
        Methods whose newest version has several results on one data set, such as with other hyperparameters; the last one is
        used.
    """

    draw: Draw
    setting: str
    methods: tuple[str, ...]
    blocks: tuple[Block, ...]
    scores: Mapping[str, Scores]
    missing: Mapping[str, int]
    repeated: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name in titles: draws and setting."""
        return f"{self.draw.name}, {self.setting}"

    @property
    def data(self) -> list[str]:
        """Data sets of the blocks, sorted."""
        return sorted({data for data, _ in self.blocks})

    def ranks(self, metric: str) -> NDArray[np.float64]:
        """Mean rank of each method, shape (methods,); 1 is best."""
        return mean_ranks(self.scores[metric])

    def p_value(self, metric: str) -> float | None:
        """p-value of the Friedman test; see :func:`friedman`."""
        return friedman(self.scores[metric])

    @property
    def critical_difference(self) -> float:
        """Critical difference of mean ranks; see :func:`critical_difference`."""
        return critical_difference(len(self.methods), len(self.blocks))

    def interval(self, metric: str, method: int) -> tuple[float, float | None]:
        """Mean of a method and half the width of its confidence interval; see :func:`stratified_mean`."""
        strata: dict[str, list[float]] = defaultdict(list)
        for (data, _), score in zip(self.blocks, self.scores[metric][:, method], strict=True):
            strata[data].append(float(score))
        return stratified_mean(list(strata.values()))


def comparisons(outcomes: Iterable[Outcome]) -> list[Comparison]:
    """Compare methods on random class splits.

    Jobs whose hyperparameters were selected on test data are left out. Of several results of a method on one data set, that of
    :func:`~sightunseen.benchmark.groups.newest` is compared.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of Comparison
        One per kind of draw and setting, by number of seen classes, "all" last; those with fewer than two methods or without
        a complete block are left out.
    """
    groups: dict[tuple[Draw, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.draw is not None and outcome.state == DONE and outcome.shown["selection"] != "oracle":
            groups[outcome.draw, outcome.shown["setting"]].append(outcome)
    found = [_comparison(draw, setting, group) for (draw, setting), group in groups.items()]
    chosen = [one for one in found if len(one.methods) > 1 and one.blocks]
    return sorted(chosen, key=lambda one: (one.setting, one.draw.unequal, *draw_order(one.draw)))


def draw_order(draw: Draw | None) -> tuple[bool, float]:
    """Sort key of draws: by number of seen classes, "all" last; no draw comes first."""
    return (False, 0) if draw is None else (draw.seen == ALL, 0 if draw.seen == ALL else float(draw.seen))


def mean_ranks(scores: Scores) -> NDArray[np.float64]:
    """Mean rank of methods over blocks.

    Parameters
    ----------
    scores : ndarray of shape (blocks, methods)
        Scores; higher is better.

    Returns
    -------
    ndarray of shape (methods,)
        Mean ranks; 1 is best, and ties have the average of their ranks.

    Examples
    --------
    >>> mean_ranks(np.array([[50.0, 40.0, 40.0], [30.0, 60.0, 20.0]]))
    array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores, axis=1).mean(axis=0))


def friedman(scores: Scores) -> float | None:
    """Friedman test of the hypothesis that all methods perform equally.

    Parameters
    ----------
    scores : ndarray of shape (blocks, methods)
        Scores.

    Returns
    -------
    float or None
        p-value; None with fewer than three methods or two blocks, or if all scores of each block are equal.
    """
    from scipy.stats import friedmanchisquare

    if scores.shape[1] < 3 or len(scores) < 2 or (scores == scores[:, :1]).all():
        return None
    return float(friedmanchisquare(*scores.T).pvalue)


def critical_difference(n_methods: int, n_blocks: int, level: float = LEVEL) -> float:
    """Critical difference of mean ranks of the Nemenyi test (Demsar, JMLR 2006, Section 3.2.2).

    Parameters
    ----------
    n_methods : int
        Number of methods, at least two.
    n_blocks : int
        Number of blocks.
    level : float, default=0.05
        Significance level.

    Returns
    -------
    float
        Methods whose mean ranks differ by at least this are significantly different.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - level, n_methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, ...]]:
    """Groups of methods that are not significantly different.

    Parameters
    ----------
    ranks : sequence of float
        Mean ranks.
    difference : float
        Critical difference.

    Returns
    -------
    list of tuple of int
        Indices of the methods of each group, best first. Groups of one method and groups within another are left out.

    Examples
    --------
    >>> cliques([1.0, 4.0, 1.8, 2.5], 1.0)
    [(0, 2), (2, 3)]
    """
    order = sorted(range(len(ranks)), key=lambda k: ranks[k])
    found: list[tuple[int, ...]] = []
    end = 0
    for start, first in enumerate(order):
        reached = sum(ranks[k] - ranks[first] < difference for k in order)  # all that are better count, too
        if reached > max(end, start + 1):
            found.append(tuple(order[start:reached]))
        end = max(end, reached)
    return found


def stratified_mean(strata: Sequence[Sequence[float]]) -> tuple[float, float | None]:
    """Mean over data sets of the mean over draws, with a 95% t-interval over the draws.

    The data sets are fixed and their draws random: the variance of the mean is the sum of those of the data sets, with the
    degrees of freedom of Welch and Satterthwaite.

    Parameters
    ----------
    strata : sequence of sequence of float
        Scores of the draws of each data set.

    Returns
    -------
    mean : float
        The mean.
    half_width : float or None
        Half the width of the interval; None if a data set has a single draw.
    """
    from scipy.stats import t

    mean = float(np.mean([np.mean(values) for values in strata]))
    if min(len(values) for values in strata) < 2:
        return mean, None
    variances = np.array([np.var(values, ddof=1) / len(values) for values in strata]) / len(strata) ** 2
    total = float(variances.sum())
    if total == 0:
        return mean, 0.0
    freedom = total**2 / sum(one**2 / (len(values) - 1) for one, values in zip(variances, strata, strict=True))
    return mean, float(t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(total))


def _comparison(draw: Draw, setting: str, outcomes: Sequence[Outcome]) -> Comparison:
    chosen = newest(outcomes)
    versions = {(outcome.shown["data"], outcome.row_name): outcome.version for outcome in chosen}
    used = {outcome.id for outcome in chosen}
    repeated = {
        outcome.row_name
        for outcome in outcomes
        if outcome.id not in used and outcome.version == versions[outcome.shown["data"], outcome.row_name]
    }
    results: dict[Block, dict[str, Mapping[str, float]]] = defaultdict(dict)
    for outcome in chosen:
        results[outcome.shown["data"], outcome.shown["seed"]][outcome.row_name] = outcome.record["results"]
    methods = tuple(sorted({outcome.row_name for outcome in chosen}))
    missing = {name: sum(name not in found for found in results.values()) for name in methods}
    blocks = tuple(block for block in sorted(results) if len(results[block]) == len(methods))
    scores = {metric: np.array([[results[block][name][metric] for name in methods] for block in blocks]) for metric in COMPARED}
    incomplete = {name: count for name, count in missing.items() if count}
    return Comparison(draw, setting, methods, blocks, scores, incomplete, tuple(sorted(repeated)))
