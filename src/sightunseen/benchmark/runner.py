"""Run a plan: each job in a worker process, its outcome in a results folder; jobs that are done are not repeated."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sightunseen.benchmark.attempts import PendingJob, shown
from sightunseen.benchmark.draws import Draw, class_numbers
from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.groups import row_id
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome, job_id
from sightunseen.benchmark.plan import Plan
from sightunseen.benchmark.store import DamagedOutcomeError, Store
from sightunseen.benchmark.variant_names import variant_name
from sightunseen.benchmark.variants import Job
from sightunseen.benchmark.workers import outcomes
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError, SightUnseenError
from sightunseen.core.limits import MESSAGE_LENGTH, WORKERS
from sightunseen.data.photo_lists import is_photos

Tell = Callable[[str], None]
Execute = Callable[[Sequence[PendingJob], Mapping[str, Outcome], Path], Iterator[Outcome]]


def run_plan(
    plan: Plan,
    store: Store,
    workers: int = 1,
    retry: bool = False,
    tell: Tell = lambda _: None,
    execute: Execute | None = None,
) -> dict[str, int]:
    """Run the jobs of a plan that are not done yet.

    Jobs whose data cannot be read are skipped, and attempted again in the next run. Outcomes of jobs that an earlier run
    skipped are removed: the plan may have been corrected. A job whose stored outcome is damaged is run again. Finished jobs
    get the names that this plan gives to their data and method, also those of seeds and methods that it does not have.

    Parameters
    ----------
    plan : Plan
        The plan.
    store : Store
        Results folder.
    workers : int, default=1
        Number of jobs that run at the same time; with a GPU and several, as many closed-form ones beside those on the GPU.
    retry : bool, default=False
        Run jobs again that failed in an earlier run.
    tell : callable, optional
        Called with a line of text for every job.
    execute : callable, optional
        Called with the jobs to run, a mapping of job id to outcome that grows as outcomes are yielded, and a folder for
        intermediate files; yields outcomes. Default: ``workers`` processes on this machine.

    Returns
    -------
    dict of str to int
        Number of jobs of the plan that are done, failed and skipped.

    Raises
    ------
    SettingsError
        If there are too many workers, if a method does not have a hyperparameter of the plan, or if two of its jobs are the
        same; no job is run.
    StorageError
        If another run writes to the same folder, or the folder cannot be written.
    """
    if workers > WORKERS:
        raise SettingsError(f"{workers} jobs cannot run at the same time; the limit is {WORKERS:,}. Lower --jobs.")

    def tell_damage(error: DamagedOutcomeError) -> None:
        tell(f"{error.path} is damaged ({error.reason}); its job is run again")

    with store.locked():
        ready, skipped = _identified(plan.jobs(), tell)
        _check_distinct(ready)
        known = store.outcomes(tell_damage) if store.jobs.is_dir() else {}
        for job, outcome in known.items():  # of an earlier run, perhaps with another version of the plan
            if outcome.state == SKIPPED:
                store.forget(job)
        for outcome in skipped:
            store.add(outcome)
        for data, reason in {outcome.split_name: outcome.reason for outcome in skipped}.items():
            tell(f"skipped: all jobs on {data}: {reason}")
        for job, outcome in _renamed(known, ready).items():
            known[job] = outcome
            store.add(outcome)
        settled = {DONE} if retry else {DONE, FAILED}
        waiting = [one for one in ready if _state(known, one) not in settled]
        before = len(ready) - len(waiting)
        if before:
            failed = 0 if retry else sum(_state(known, one) == FAILED for one in ready)
            hint = f", {failed} of them failed; --retry runs those again" if failed else ""
            tell(f"{before} of {len(ready)} jobs were finished in an earlier run{hint}")
        execute = execute or partial(outcomes, workers)
        for number, outcome in enumerate(execute(waiting, known, store.work), start=before + 1):
            store.add(outcome)
            known[outcome.id] = outcome
            tell(f"[{number}/{len(ready)}] {_line(outcome)}")
    states = [_state(known, one) for one in ready] + [SKIPPED] * len(skipped)
    return {state: states.count(state) for state in (DONE, FAILED, SKIPPED)}


def _identified(jobs: Sequence[Job], tell: Tell) -> tuple[list[PendingJob], list[Outcome]]:
    """Separate the jobs whose data can be read, with their identities, from skipped ones."""
    from sightunseen.benchmark.jobs import identity_of, opened

    ready: dict[int, PendingJob] = {}
    skipped: list[Outcome] = []
    unreadable: dict[tuple[DataEntry, Draw | None], str] = {}
    checked, told = set(), set()
    order = {data: rank for rank, data in enumerate(dict.fromkeys(job.data for job in jobs))}
    for index, job in sorted(enumerate(jobs), key=lambda pair: order[pair[1].data]):  # each data set is opened once
        split = job.data, job.draw
        if split not in checked:
            checked.add(split)
            try:
                if job.data not in told and is_photos(job.data.path):
                    tell(f"{job.data.name}: features of photos by {job.data.backbone}; those that are cached are not repeated")
                told.add(job.data)
                data = opened(job.data).data
                if job.draw is not None:
                    class_numbers(data, job.draw.seen)
            except (SightUnseenError, OSError) as error:
                unreadable[split] = quoted(error, MESSAGE_LENGTH)
        if split in unreadable:
            skipped.append(Outcome(SKIPPED, _identity_without_data(job), shown(job), unreadable[split]))
        else:
            ready[index] = PendingJob(job, identity_of(job))
    return [ready[index] for index in sorted(ready)], skipped


def _renamed(known: Mapping[str, Outcome], ready: Sequence[PendingJob]) -> dict[str, Outcome]:
    """Outcomes of earlier runs whose data set or row has another name in this plan, with that name."""
    names_of_data, names_of_row = {}, {}
    for one in ready:
        of_data, of_row, _ = _names_of(shown(one.job))
        names_of_data[job_id(one.identity["data"])], names_of_row[row_id(one.identity)] = of_data, of_row
    found = {}
    for job, outcome in known.items():
        if outcome.state == SKIPPED:  # its data are not identified
            continue
        of_data, of_row, others = _names_of(outcome.shown)
        of_data = names_of_data.get(job_id(outcome.identity["data"]), of_data)
        of_row = names_of_row.get(row_id(outcome.identity), of_row)
        if outcome.shown != (names := {**of_data, **of_row, **others}):
            found[job] = replace(outcome, shown=names)
    return found


def _names_of(names: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What tables show of a job, divided into that of its data set, that of its row, and seed and draw."""
    parts: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = {}, {}, {}
    for name, value in names.items():
        part = 0 if name in ("data", "published_name", "backbone") else 2 if name in ("seed", "draw") else 1
        parts[part][name] = value
    return parts


def _check_distinct(jobs: Sequence[PendingJob]) -> None:
    """Check that no two jobs are the same, or have the same name: they would have one outcome, or one row of a table."""
    first: dict[str, PendingJob] = {}
    repeated = [name for name, count in Counter(str(one.job) for one in jobs).items() if count > 1]
    if repeated:
        raise SettingsError(f"the plan has several jobs with the name '{repeated[0]}'. Change the label of one of the methods.")
    for one in jobs:
        other = first.setdefault(one.id, one)
        if other is not one:
            raise SettingsError(
                f"the plan has a job twice, as '{other.job}' and as '{one.job}': same data, method, hyperparameters and "
                "selection. Remove one of them."
            )


def _identity_without_data(job: Job) -> dict[str, Any]:
    """Identity of a job whose data cannot be read."""
    name = variant_name(job.method.shown, job.budget, job.scaling)
    return {"skipped": [job.split_name, name, job.selection, job.seed]}


def _state(known: dict[str, Outcome], one: PendingJob) -> str | None:
    outcome = known.get(one.id)
    return outcome.state if outcome else None


def _line(outcome: Outcome) -> str:
    name = f"{outcome.split_name}, {outcome.variant}, seed {outcome.shown['seed']}"
    if outcome.state != DONE:
        return f"{outcome.state}: {name}: {outcome.reason}"
    results = outcome.record["results"]
    return f"{name}: T1 {results['T1']:.1f}, H {results['H']:.1f} ({outcome.seconds:.0f} s)"
