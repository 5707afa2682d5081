"""Groups of outcomes that belong together: the seeds of a method, and the newest of several results."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
        # Skipped jobs are identified by their names.
        row = f"skipped {outcome.variant}" if "skipped" in outcome.identity else row_id(outcome.identity)
        groups[outcome.split_name, row].append(outcome)
    return list(groups.values())


def row_id(identity: Mapping[str, Any]) -> str:
    """Hash an identity without its seed: the jobs of one row have the same.

    Parameters
    ----------
    identity : mapping
        Identity of a job whose data can be read.

    Returns
    -------
    str
        20 hexadecimal digits.
    """
    method: dict[str, Any] = identity["method"]
    settings = {name: value for name, value in method["settings"].items() if name != "seed"}
    return job_id({**identity, "seed": None, "method": {**method, "settings": settings}})


def newest(outcomes: Iterable[Outcome], name: Callable[[Outcome], str] = lambda outcome: outcome.row_name) -> list[Outcome]:
    """Choose one result per name and data set: a changed plan or method leaves earlier ones in the folder.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.
    name : callable, optional
        Returns the name of the row of an outcome. Default: :attr:`Outcome.row_name`.

    Returns
    -------
    list of Outcome
        For each name and data set, the seeds of one result: of the newest version that has a finished job, the result that
        was computed last.
    """
    rivals: dict[tuple[str, str], list[list[Outcome]]] = defaultdict(list)
    for group in seeds_together(outcomes):
        rivals[group[0].split_name, name(group[0])].append(group)
    return [outcome for groups in rivals.values() for outcome in max(groups, key=_recency)]


def _recency(group: Sequence[Outcome]) -> tuple[bool, int, str, int]:
    """Sort key of results of one name: whether there is one at all, version, time of the last job, then number of seeds."""
    created = [str(outcome.record.get("created", "")) for outcome in group if outcome.state == DONE]
    return len(created) > 0, group[0].version, max(created, default=""), len(created)
