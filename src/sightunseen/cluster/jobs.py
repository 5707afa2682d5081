"""Jobs of a plan as tasks of a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sightunseen.benchmark.attempts import PendingJob, attempt, base_record, failed_outcome, use_threads
from sightunseen.benchmark.outcome import Outcome
from sightunseen.cluster.connection import ClusterError
from sightunseen.cluster.map_reduce import Cluster


@dataclass(frozen=True)
class ClusterJobs:
    """Run jobs as Ray tasks; an argument of :func:`~sightunseen.benchmark.runner.run_plan`.

    A job whose worker is lost runs again, on another node if need be.

    Parameters
    ----------
    cluster : Cluster
        The cluster; the data of the plan are read by all its nodes.
    per_node : int, default=1
        Number of jobs that run at the same time on the largest node; each has an equal share of its cores.
    """

    cluster: Cluster
    per_node: int = 1

    def __call__(self, waiting: Sequence[PendingJob], known: Mapping[str, Outcome], work: Path) -> Iterator[Outcome]:
        """Yield outcomes as jobs finish.

        Parameters
        ----------
        waiting : sequence of PendingJob
            The jobs.
        known : mapping of str to Outcome
            All earlier outcomes by job id, including those yielded here.
        work : Path
            Folder of intermediate files; used on this machine only.

        Yields
        ------
        Outcome
            Outcome of one job.
        """
        threads = max(1, self.cluster.largest_node() // self.per_node)
        run = partial(_run, threads, work.absolute() if self.cluster.is_local else None)
        tasks = ((one, base_record(one, known)) for one in waiting)
        for (one, _), found in self.cluster.as_completed(run, tasks, threads):
            yield failed_outcome(one, str(found)) if isinstance(found, ClusterError) else found


def _run(threads: int, work: Path | None, task: tuple[PendingJob, Mapping[str, Any] | None]) -> Outcome:
    use_threads(threads)
    return attempt(*task, work)
