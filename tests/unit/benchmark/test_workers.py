"""Worker processes: shares of the machine, jobs beside a GPU, and transductive jobs that wait for inductive ones."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sightunseen.benchmark.attempts import PendingJob
from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.benchmark.plan import plan_of
from sightunseen.benchmark.workers import JobQueue, Lane, lanes


def pending(*names: str) -> list[PendingJob]:
    """Jobs without data; a transductive one builds on the inductive one of the same method."""
    jobs = plan_of({"methods": list(names), "data": [{"path": "CUB"}]}, Path()).jobs()
    return [
        PendingJob(
            job,
            {
                "setting": "transductive" if job.method.name.endswith("-tran") else "inductive",
                "method": job.method.name.removesuffix("-tran"),
                "adaptation": {} if job.method.name.endswith("-tran") else None,
            },
        )
        for job in jobs
    ]


def done(one: PendingJob, **record: Any) -> Outcome:
    return Outcome(DONE, one.identity, {}, record=record)


def names(taken: list[PendingJob | None]) -> list[str]:
    return [one.job.method.name for one in taken if one is not None]


@pytest.mark.parametrize("gpu", [False, True])
def test_one_worker_takes_all_jobs(gpu: bool) -> None:
    assert lanes(1, pending("ESZSL", "ALE"), gpu, 8) == [Lane(1, 8)]


def test_workers_share_the_cores() -> None:
    assert lanes(3, pending("ESZSL", "ALE", "SAE", "DEM"), False, 8) == [Lane(3, 2)]
    assert lanes(3, pending("ESZSL", "ALE"), False, 8) == [Lane(2, 4)]  # no more processes than jobs
    assert lanes(16, pending("ESZSL", "ALE", "SAE", "DEM"), False, 3) == [Lane(4, 1)]


def test_closed_form_methods_run_beside_those_on_the_gpu() -> None:
    jobs = pending("ESZSL", "SAE", "ALE", "DEM", "CVC")
    on_gpu, beside = lanes(2, jobs, True, 16)
    assert (on_gpu, beside) == (Lane(2, 4, True), Lane(2, 4, False, gpu=False))
    assert names([one for one in jobs if on_gpu.takes(one)]) == ["ALE", "DEM", "CVC"]
    assert names([one for one in jobs if beside.takes(one)]) == ["ESZSL", "SAE"]
    assert lanes(2, pending("ESZSL", "SAE"), True, 16) == [Lane(2, 8)]
    assert lanes(6, pending("ESZSL", "ALE"), True, 16) == [Lane(1, 8, True), Lane(1, 8, False, gpu=False)]


def test_transductive_job_waits_for_its_inductive_job_and_gets_its_record() -> None:
    inductive, other, transductive = jobs = pending("GFZSL", "ESZSL", "GFZSL-tran")
    assert names(list(jobs)) == ["GFZSL", "ESZSL", "GFZSL-tran"]
    queue, lane = JobQueue(jobs, {}), Lane(1, 1)
    assert [queue.take(lane), queue.take(lane)] == [inductive, other]
    taken: list[PendingJob | None] = []
    waiting = Thread(target=lambda: taken.append(queue.take(lane)))
    waiting.start()
    queue.settle(done(other))
    waiting.join(0.2)
    assert waiting.is_alive()
    queue.settle(done(inductive, selection="that of the inductive job"))
    waiting.join(30)
    assert taken == [transductive]
    assert queue.base_of(transductive) == {"selection": "that of the inductive job"}
    assert queue.take(lane) is None


def test_job_whose_base_is_not_in_the_run_does_not_wait() -> None:
    (job,) = pending("GFZSL-tran")
    queue = JobQueue([job], {})
    assert queue.take(Lane(1, 1)) == job
    assert queue.base_of(job) is None


def test_each_lane_takes_its_own_jobs_in_order_and_none_after_the_end() -> None:
    jobs = pending("ESZSL", "ALE", "SAE")
    queue = JobQueue(jobs, {})

    def taken(lane: Lane) -> Iterator[PendingJob]:
        while (one := queue.take(lane)) is not None:
            yield one

    assert names(list(taken(Lane(1, 1, trained=False, gpu=False)))) == ["ESZSL", "SAE"]
    queue.close()
    assert queue.take(Lane(1, 1, trained=True)) is None
