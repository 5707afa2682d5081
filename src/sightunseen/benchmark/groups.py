"""Groups of outcomes that belong together: the seeds of a method, and the newest of several results."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sightunseen.benchmark.outcome import DONE, Outcome, job_id


def seeds_together(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Group outcomes that differ only in their seed: each group is one row of a table.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    list of list of Outcome
        Non-empty groups, in the order of their first outcome.
    """
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.split_name, _without_seed(outcome)].append(outcome)
    return list(groups.values())


def _without_seed(outcome: Outcome) -> str:
    """Hash of the identity without the seed; skipped jobs are identified by their names."""
    if "skipped" in outcome.identity:
        return f"skipped {outcome.variant}"
    method: dict[str, Any] = outcome.identity["method"]
    settings = {name: value for name, value in method["settings"].items() if name != "seed"}
    return job_id({**outcome.identity, "seed": None, "method": {**method, "settings": settings}})


def newest(outcomes: Iterable[Outcome], name: Callable[[Outcome], str] = lambda outcome: outcome.variant) -> list[Outcome]:
    """Choose one result per name and data set: a changed plan or method leaves earlier ones in the folder.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.
    name : callable, optional
        Returns the name of the row of an outcome. Default: that of the variant of the method.

    Returns
    -------
    list of Outcome
        Of several results under one name on one data set, that of the newest version on this data set, and of these the one
        with most seeds that are done.
    """
    rivals: dict[tuple[str, str], list[list[Outcome]]] = defaultdict(list)
    for group in seeds_together(outcomes):
        rivals[group[0].split_name, name(group[0])].append(group)
    return [outcome for groups in rivals.values() for outcome in max(groups, key=_recency)]


def _recency(group: Sequence[Outcome]) -> tuple[int, int]:
    """Sort key of results of one name: version, then number of seeds."""
    return group[0].version, sum(outcome.state == DONE for outcome in group)
