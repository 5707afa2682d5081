"""Worker processes of a run: each job in a process of its own pool, closed-form methods beside those on the GPU."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any

from sightunseen.benchmark.attempts import PendingJob, attempt, base_record, failed_outcome, use_threads
from sightunseen.benchmark.outcome import Outcome, job_id


@dataclass(frozen=True)
class Lane:
    """Workers that take the same kind of jobs.

    Parameters
    ----------
    workers : int
        Number of processes.
    threads : int
        Number of threads of numerical libraries in each.
    trained : bool, optional
        Whether the jobs are gradient-trained methods. Default: any job.
    gpu : bool, default=True
        Whether the workers may use a GPU.
    """

    workers: int
    threads: int
    trained: bool | None = None
    gpu: bool = True

    def takes(self, one: PendingJob) -> bool:
        """Whether a job is of the kind of this lane."""
        return self.trained is None or one.job.trained == self.trained


def lanes(workers: int, waiting: Sequence[PendingJob], gpu: bool, cores: int) -> list[Lane]:
    """Divide the machine among jobs.

    Parameters
    ----------
    workers : int
        Number of jobs that run at the same time.
    waiting : sequence of PendingJob
        The jobs.
    gpu : bool
        Whether there is a GPU.
    cores : int
        Number of cores of the CPU.

    Returns
    -------
    list of Lane
        One lane of at most ``workers`` processes. With a GPU and several workers, two: gradient-trained methods on the GPU,
        closed-form methods on the CPU.
    """
    trained = sum(one.job.trained for one in waiting)
    split = gpu and workers > 1 and 0 < trained < len(waiting)
    counts = [min(workers, trained), min(workers, len(waiting) - trained)] if split else [min(workers, len(waiting))]
    threads = max(1, cores // sum(counts))
    if not split:
        return [Lane(counts[0], threads)]
    return [Lane(counts[0], threads, True), Lane(counts[1], threads, False, gpu=False)]


def outcomes(
    workers: int, waiting: Sequence[PendingJob], known: Mapping[str, Outcome], work: Path, gpu: bool | None = None
) -> Iterator[Outcome]:
    """Run jobs in worker processes, and yield their outcomes as they finish.

    If a worker dies, only its job fails; a new worker takes its place. A transductive job waits for the inductive job that it
    builds on, if that is among the jobs, and uses its selection.

    Parameters
    ----------
    workers : int
        Number of jobs that run at the same time; see :func:`lanes`.
    waiting : sequence of PendingJob
        The jobs, in the order in which they start.
    known : mapping of str to Outcome
        Earlier outcomes by job id.
    work : Path
        Folder for intermediate files.
    gpu : bool, optional
        Whether there is a GPU. Default: whether torch finds one.

    Yields
    ------
    Outcome
        Outcome of one job.
    """
    if not waiting:
        return
    found = lanes(workers, waiting, _has_gpu() if gpu is None else gpu, available_cores())
    pools = [_Worker(lane) for lane in found for _ in range(lane.workers)]
    queue = JobQueue(waiting, known)
    finished: SimpleQueue[Outcome | BaseException] = SimpleQueue()

    def serve(worker: _Worker) -> None:
        try:
            while (one := queue.take(worker.lane)) is not None:
                outcome = worker.run(one, queue.base_of(one), work, alone=len(pools) == 1)
                queue.settle(outcome)
                finished.put(outcome)
        except BaseException as error:  # told to the main thread
            finished.put(error)

    for worker in pools:
        Thread(target=serve, args=(worker,), daemon=True).start()
    try:
        for _ in waiting:
            outcome = finished.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        queue.close()
        for worker in pools:
            worker.close()


class JobQueue:
    """Jobs that wait for a worker, and the outcomes that later jobs build on.

    Parameters
    ----------
    waiting : sequence of PendingJob
        The jobs.
    known : mapping of str to Outcome
        Earlier outcomes by job id.
    """

    def __init__(self, waiting: Sequence[PendingJob], known: Mapping[str, Outcome]) -> None:
        from sightunseen.benchmark.jobs import base_identity_of

        self._waiting = [(one, job_id(one.identity), base_identity_of(one.identity)) for one in waiting]
        self._unsettled = {job for _, job, _ in self._waiting}
        self._changed = Condition()
        self._known = dict(known)

    def base_of(self, one: PendingJob) -> Mapping[str, Any] | None:
        """Run record of the inductive job that a transductive one builds on, if that is done."""
        with self._changed:
            return base_record(one, self._known)

    def take(self, lane: Lane) -> PendingJob | None:
        """Wait for the next job of a lane that need not wait for another; None if there are no more."""
        with self._changed:
            while any(lane.takes(one) for one, _, _ in self._waiting):
                for position, (one, _, base) in enumerate(self._waiting):
                    if lane.takes(one) and (base is None or job_id(base) not in self._unsettled):
                        del self._waiting[position]
                        return one
                self._changed.wait()
            return None

    def settle(self, outcome: Outcome) -> None:
        """Record an outcome, which other jobs may wait for."""
        with self._changed:
            self._known[outcome.id] = outcome
            self._unsettled.discard(outcome.id)
            self._changed.notify_all()

    def close(self) -> None:
        """Let no further job start."""
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()


class _Worker:
    """A process that runs one job at a time; it is replaced when it dies.

    Parameters
    ----------
    lane : Lane
        Its lane.
    """

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._closed = False
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Spawn, because a forked process with torch's threads can deadlock.
        return ProcessPoolExecutor(1, get_context("spawn"), _begin_work, (self.lane.threads, self.lane.gpu))

    def run(self, one: PendingJob, base: Mapping[str, Any] | None, work: Path, alone: bool) -> Outcome:
        """Run a job; if the process dies, the job has failed."""
        future = self._pool.submit(attempt, one, base, work, alone)
        processes = list(self._pool._processes.values())
        try:
            return future.result()
        except BrokenProcessPool:
            self._pool.shutdown()  # until its own thread has reaped the process: only one thread learns an exit code
            if not self._closed:
                self._pool = self._start()
            return failed_outcome(one, _exit_reason(processes))

    def close(self) -> None:
        """End the process."""
        self._closed = True
        for process in list((self._pool._processes or {}).values()):
            process.kill()  # a job inside a numpy call does not react to other signals
        self._pool.shutdown(wait=False, cancel_futures=True)


def _exit_reason(processes: Sequence[BaseProcess]) -> str:
    """Describe how the reaped processes of a worker exited."""
    codes = [process.exitcode for process in processes if process.exitcode is not None]
    code = f" with code {codes[0]}" if codes else ""
    return f"worker exited{code} (possibly out of memory)."


def available_cores() -> int:
    """Number of cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_gpu() -> bool:
    from sightunseen.methods.base.devices import has_gpu

    return find_spec("torch") is not None and has_gpu()


def _begin_work(threads: int, gpu: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C and ends its workers
    Thread(target=_exit_with_parent, daemon=True).start()
    if not gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read by torch when it first looks for a GPU
    use_threads(threads)


def _exit_with_parent() -> None:
    """Exit when the main process has died; otherwise the worker would wait for its next job forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
