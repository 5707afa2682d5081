"""Cost of a job besides its time: joules if it ran alone on a machine with energy counters, otherwise FLOPs of training."""

from collections.abc import Mapping
from typing import Any

from sightunseen.benchmark.jobs import data_of, specifications_of
from sightunseen.benchmark.outcome import FLOPS, JOULES
from sightunseen.benchmark.variants import Job
from sightunseen.core.energy import EnergyMeter
from sightunseen.methods import GradientTrainedClassifier
from sightunseen.selection.choice import Choice


def cost_of(job: Job, record: Mapping[str, Any], meter: EnergyMeter | None) -> dict[str, float]:
    """Measure the cost of a job that has just finished.

    Parameters
    ----------
    job : Job
        The job.
    record : mapping
        Its run record.
    meter : EnergyMeter or None
        Meter that was made when the job started. None: other jobs ran at the same time, so that the measured
        energy is not that of this job alone.

    Returns
    -------
    dict of str to float
        ``joules_gpu`` and ``joules_cpu``; else ``flops``; empty if none can be measured.
    """
    joules = {} if meter is None else meter.joules()
    if joules:
        return {f"{JOULES}{device}": round(value, 1) for device, value in joules.items()}
    flops = training_flops(job, record)
    return {} if flops is None else {FLOPS: flops}


def training_flops(job: Job, record: Mapping[str, Any]) -> float | None:
    """Floating-point operations of the gradient steps of a job.

    One cycle of steps of the final training is counted with the chosen hyperparameters, forwards and backwards, and multiplied
    by the number of steps of all trainings: those of the selection, and the final one. A step of the selection may take fewer
    operations, because class folds have fewer classes. The preparation of the final training is repeated for this, including
    what the method computes before its first step.

    Parameters
    ----------
    job : Job
        Job of a plan.
    record : mapping
        Its run record.

    Returns
    -------
    float or None
        None if the method is not trained by gradient steps or is transductive.
    """
    training, adaptation = specifications_of(job)
    model = training.estimators()[0]
    if adaptation is not None or not isinstance(model, GradientTrainedClassifier):
        return None
    choice = Choice.from_report(record["selection"])
    data = data_of(job)
    run = model.set_params(**choice.parameters).fitting(data.train.X, data.train.y, data.classes)

    from torch.utils.flop_counter import FlopCounterMode

    from sightunseen.training.cpu import EagerEngine

    cycle = run.objective.turns
    engine = EagerEngine(run.objective, run.optimisation)
    with FlopCounterMode(display=False) as counter:
        engine.run(run.objective.draw(0, cycle), 0)
    flops: float = counter.get_total_flops() / cycle * all_steps(record["selection"], model.n_steps)
    return flops


def all_steps(selection: Mapping[str, Any], n_steps: int) -> int:
    """Count the gradient steps of all trainings of a job.

    Parameters
    ----------
    selection : mapping
        ``selection`` of its run record.
    n_steps : int
        Number of steps of the final training, if no stopping point was chosen.

    Returns
    -------
    int
        Steps of the selection and of the final training.
    """
    tried = selection.get("tried", ())
    if "folds" in selection:
        return int(sum(entry["steps"] for entry in tried) + selection["chosen"].get("steps", n_steps))
    # Selected on test data: the best training that was tried is the final one. Not selected: one training.
    return sum(entry["points"][-1]["steps"] for entry in tried) or n_steps
