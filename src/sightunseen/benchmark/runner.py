"""Running a plan: jobs in processes of their own, outcomes into a store, again and again until nothing is left to do."""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any

from sightunseen.benchmark.plan import Job, Plan
from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Outcome, Store, job_id
from sightunseen.core.errors import SightUnseenError
from sightunseen.methods.catalogue import CARDS

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ready:
    """A job with its identity, ready to be carried out."""

    job: Job
    identity: dict[str, Any]


def run_plan(plan: Plan, store: Store, workers: int = 1, retry: bool = False, tell: Tell = lambda _: None) -> dict[str, int]:
    """Carry out every job of the plan that is not done yet; how many of the plan's jobs are done, failed and skipped.

    A job whose data cannot be read is skipped, and tried again next time; one that failed keeps its error and is left alone
    unless ``retry``. ``tell`` is given a line for every job.
    """
    with store.locked():
        ready, skipped = _identified(plan.jobs())
        known = store.outcomes()
        for one in ready:  # whose data may not have been there last time
            store.forget(job_id(_identity_without_data(one.job)))
        for outcome in skipped:
            store.add(outcome)
        for data, reason in {outcome.shown["data"]: outcome.reason for outcome in skipped}.items():
            tell(f"skipped: all jobs on {data}: {reason}")
        settled = {DONE} if retry else {DONE, FAILED}
        waiting = [one for one in ready if _state(known, one) not in settled]
        before = len(ready) - len(waiting)
        if before:
            tell(f"{before} of {len(ready)} jobs were settled before" + (_failed_before(known, ready) if not retry else ""))
        for number, outcome in enumerate(_outcomes(waiting, known, workers), start=before + 1):
            store.add(outcome)
            known[outcome.id] = outcome
            tell(f"[{number}/{len(ready)}] {_line(outcome)}")
    states = [_state(known, one) for one in ready] + [SKIPPED] * len(skipped)
    return {state: states.count(state) for state in (DONE, FAILED, SKIPPED)}


def _identified(jobs: Sequence[Job]) -> tuple[list[Ready], list[Outcome]]:
    """The jobs whose data can be read, with their identities; the others as skipped."""
    from sightunseen.benchmark.jobs import identity_of, opened

    ready, skipped, unreadable = [], [], {}
    for job in jobs:
        if job.data not in unreadable:
            try:
                opened(job.data)
            except (SightUnseenError, OSError) as error:
                unreadable[job.data] = str(error)
        if job.data in unreadable:
            skipped.append(Outcome(SKIPPED, _identity_without_data(job), _shown(job), unreadable[job.data]))
        else:
            ready.append(Ready(job, identity_of(job)))
    return ready, skipped


def _identity_without_data(job: Job) -> dict[str, Any]:
    """All there is to know a job by while its data cannot be read."""
    return {"skipped": [job.data.name, job.method.shown, job.selection, job.seed]}


def _outcomes(waiting: Sequence[Ready], known: Mapping[str, Outcome], workers: int) -> Iterator[Outcome]:
    """Outcomes as they come. A worker is a process with its share of the cores; one that dies takes only its job along.

    ``known`` are those there are already, new ones included.
    """
    threads = max(1, _cores() // workers)
    idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
    pools = [_worker(threads) for _ in range(min(workers, len(waiting)))]
    for pool in pools:
        idle.put(pool)

    def outcome_of(one: Ready) -> Outcome:
        pool = idle.get()
        future = pool.submit(_attempt, one, _base_record(one, known))
        processes = list(pool._processes.values())
        try:
            return future.result()
        except BrokenProcessPool:
            reason = _death(processes)
            pool = _worker(threads)
            pools.append(pool)
            return Outcome(FAILED, one.identity, _shown(one.job), reason)
        finally:
            idle.put(pool)

    starters = ThreadPoolExecutor(max(1, len(pools)))
    try:
        for future in as_completed([starters.submit(outcome_of, one) for one in waiting]):
            yield future.result()
    finally:
        starters.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            for process in list((pool._processes or {}).values()):
                process.kill()  # nothing is lost but the job in hand; and a job in numpy hears no other signal
            pool.shutdown(wait=False, cancel_futures=True)


def _death(processes: Sequence[BaseProcess]) -> str:
    """Why the job of a worker that died failed."""
    for process in processes:
        process.join(5)
    codes = [process.exitcode for process in processes if process.exitcode is not None]
    code = f" with code {codes[0]}" if codes else ""
    return f"worker exited{code} (possibly out of memory)."


def _cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _base_record(one: Ready, known: Mapping[str, Outcome]) -> Mapping[str, Any] | None:
    """The record of the inductive job that a transductive one begins with, where it is done."""
    from sightunseen.benchmark.jobs import base_identity_of

    identity = base_identity_of(one.identity)
    base = None if identity is None else known.get(job_id(identity))
    return base.record if base is not None and base.state == DONE else None


def _worker(threads: int) -> ProcessPoolExecutor:
    # Spawned: a forked copy of torch and its threads can hang.
    return ProcessPoolExecutor(1, get_context("spawn"), _begin_work, (threads,))


def _begin_work(threads: int) -> None:
    import torch
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers itself
    Thread(target=_end_with_the_run, daemon=True).start()
    threadpool_limits(threads)
    torch.set_num_threads(threads)


def _end_with_the_run() -> None:
    """A worker whose run was killed would wait for its next job for ever."""
    run = parent_process()
    assert run is not None
    run.join()
    os._exit(1)


def _attempt(one: Ready, base: Mapping[str, Any] | None) -> Outcome:
    """In a worker: carry out a job; whatever goes wrong is its outcome."""
    from sightunseen.benchmark.jobs import carry_out, record_as_dict

    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = record_as_dict(carry_out(one.job, base))
        return Outcome(DONE, one.identity, _shown(one.job), record=record, seconds=round(time.monotonic() - started, 1))
    except SightUnseenError as error:
        return Outcome(FAILED, one.identity, _shown(one.job), str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        return Outcome(FAILED, one.identity, _shown(one.job), reason)


def _shown(job: Job) -> dict[str, Any]:
    """What tables need to show of a job."""
    return {
        "data": job.data.name,
        "published_name": job.data.published_name,
        "backbone": job.data.backbone,
        "method": job.method.name,
        "label": job.method.shown,
        "setting": CARDS[job.method.name].setting,
        "selection": job.selection,
        "seed": job.seed,
    }


def _state(known: dict[str, Outcome], one: Ready) -> str | None:
    outcome = known.get(job_id(one.identity))
    return outcome.state if outcome else None


def _failed_before(known: dict[str, Outcome], ready: Sequence[Ready]) -> str:
    failed = sum(_state(known, one) == FAILED for one in ready)
    return f", {failed} of them failed; --retry tries those again" if failed else ""


def _name(outcome: Outcome) -> str:
    return f"{outcome.shown['data']}, {outcome.shown['label']}, seed {outcome.shown['seed']}"


def _line(outcome: Outcome) -> str:
    if outcome.state != DONE:
        return f"{outcome.state}: {_name(outcome)}: {outcome.reason}"
    results = outcome.record["results"]
    return f"{_name(outcome)}: T1 {results['T1']:.1f}, H {results['H']:.1f} ({outcome.seconds:.0f} s)"
