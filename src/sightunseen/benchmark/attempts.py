"""One attempt at a job of a plan: it runs in a worker process, and an error becomes a failed outcome."""

import os
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sightunseen.benchmark.outcome import DONE, FAILED, Outcome, job_id
from sightunseen.benchmark.variant_names import OWN
from sightunseen.benchmark.variants import Job
from sightunseen.core.documents import quoted
from sightunseen.core.energy import EnergyMeter
from sightunseen.core.errors import SightUnseenError
from sightunseen.core.limits import LABEL_LENGTH, MESSAGE_LENGTH
from sightunseen.methods.catalogue import card_of


@dataclass(frozen=True)
class PendingJob:
    """A job whose data can be read.

    Parameters
    ----------
    job : Job
        The job.
    identity : dict
        Everything that determines its result.
    """

    job: Job
    identity: dict[str, Any]

    @property
    def id(self) -> str:
        """Hash of the identity."""
        return job_id(self.identity)


def attempt(one: PendingJob, base: Mapping[str, Any] | None = None, work: Path | None = None, alone: bool = False) -> Outcome:
    """Run a job; an error becomes a failed outcome.

    Parameters
    ----------
    one : PendingJob
        The job.
    base : mapping, optional
        Run record of the inductive job that a transductive job builds on.
    work : Path, optional
        Folder for intermediate files. Default: that of the system.
    alone : bool, default=False
        Whether no other job runs at the same time, so that the energy that the machine uses is that of the job.

    Returns
    -------
    Outcome
        Done, with the run record, or failed, with the reason.
    """
    from sightunseen.benchmark.jobs import carry_out, record_as_dict

    started, meter = time.monotonic(), EnergyMeter() if alone else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = record_as_dict(carry_out(one.job, base, work))
        done = Outcome(DONE, one.identity, shown(one.job), record=record, seconds=round(time.monotonic() - started, 1))
    except SightUnseenError as error:
        return failed_outcome(one, quoted(error, MESSAGE_LENGTH))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return failed_outcome(one, f"{type(error).__name__}: {quoted(error, MESSAGE_LENGTH)} ({place})")
    return replace(done, cost=_measured_cost(one.job, record, meter))


def _measured_cost(job: Job, record: Mapping[str, Any], meter: EnergyMeter | None) -> dict[str, float]:
    """Cost of a job that is done; empty if measuring it fails."""
    from sightunseen.benchmark.cost import cost_of

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cost_of(job, record, meter)
    except Exception:  # it runs code of the method again, which may fail; the result of the job is valid without its cost
        return {}


def failed_outcome(one: PendingJob, reason: str) -> Outcome:
    """Make the outcome of a job that failed.

    Parameters
    ----------
    one : PendingJob
        The job.
    reason : str
        Why it failed.

    Returns
    -------
    Outcome
        The outcome.
    """
    return Outcome(FAILED, one.identity, shown(one.job), reason)


def base_record(one: PendingJob, known: Mapping[str, Outcome]) -> Mapping[str, Any] | None:
    """Find the run record of the inductive job that a transductive one builds on.

    Parameters
    ----------
    one : PendingJob
        The job.
    known : mapping of str to Outcome
        Outcomes by job id.

    Returns
    -------
    mapping or None
        The record; None if the job builds on no other, or that is not done.
    """
    from sightunseen.benchmark.jobs import base_identity_of

    identity = base_identity_of(one.identity)
    base = None if identity is None else known.get(job_id(identity))
    return base.record if base is not None and base.state == DONE else None


def shown(job: Job) -> dict[str, Any]:
    """Collect the names and properties of a job that tables show.

    Parameters
    ----------
    job : Job
        The job.

    Returns
    -------
    dict
        Names and properties.
    """
    return {
        "data": job.data.name,
        "published_name": job.data.published_name,
        "backbone": quoted(job.data.backbone, LABEL_LENGTH),
        "method": job.method.name,
        "label": job.method.shown,
        "setting": card_of(job.method.name).setting,
        "selection": job.selection,
        "seed": job.seed,
        **({"budget": job.budget} if job.budget else {}),
        **({"scaling": job.scaling} if job.scaling != OWN else {}),
        **({} if job.draw is None else {"draw": job.draw.as_dict()}),
    }


def use_threads(threads: int) -> None:
    """Limit the threads of numerical libraries in this process.

    Parameters
    ----------
    threads : int
        Number of threads.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)
