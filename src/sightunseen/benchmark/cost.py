"""Cost of a job besides its time: joules if it ran alone on a machine with energy counters, otherwise FLOPs of training."""

from collections.abc import Mapping
from typing import Any

from sightunseen.benchmark.jobs import data_of, specifications_of
from sightunseen.benchmark.variants import Job
from sightunseen.core.energy import EnergyMeter
from sightunseen.methods import GradientTrainedClassifier
from sightunseen.selection.choice import Choice

FLOPS = "flops"
JOULES = "joules_"  # followed by the device


def cost_of(job: Job, record: Mapping[str, Any], meter: EnergyMeter | None) -> dict[str, float]:
    """Measure the cost of a job that has just finished.

    Parameters
    ----------
    job : Job
        The job.
    record : mapping
        Its run record.
    meter : EnergyMeter or None
        Meter that was made when the job started. None: other jobs ran at the same time, so that energy has no owner.

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

    One cycle of steps is counted with the chosen hyperparameters, forwards and backwards, and multiplied by the number of steps
    of all trainings: those of the selection, and the final one.

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
    flops: float = counter.get_total_flops() / cycle * _steps(record["selection"], model.n_steps)
    return flops


def _steps(selection: Mapping[str, Any], n_steps: int) -> int:
    """Gradient steps of all trainings of a job."""
    tried = sum(entry["points"][-1]["steps"] for entry in selection.get("tried", ()))
    if "folds" not in selection:  # selected on test data, with the trainings that were tried, or not selected
        return tried or n_steps
    return int(tried * len(selection["folds"]) + selection["chosen"].get("steps", n_steps))
