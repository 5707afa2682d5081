"""Which engine trains what: the plain one on a CPU, CUDA graphs on a GPU, batched where the objectives can be fused."""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Protocol

import torch
from torch import Tensor

from sightunseen.training.cpu import EagerEngine
from sightunseen.training.cuda import GraphEngine
from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation

BATCH = 32  # models trained at once on a GPU
HEAVY = 1_000_000  # parameters from which on a step is work for the cores rather than for Python, which has but one
MOST_CLASSES = 1024  # generated in a task by the fused kernels, whose buffers grow with the square of it


class Engine(Protocol):
    """Takes the steps of one model or several, known by their place."""

    name: str  # as run records have it, with the precision of its products

    def run(self, tasks: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take a step a task in every active model; the sums of their losses."""

    def state(self, place: int, moments: bool = True) -> dict[str, Tensor]:
        """Parameters and, to train on from here, Adam's moments, by name."""

    def restore(self, place: int, state: Mapping[str, Tensor]) -> None:
        """Take over a state that any engine gave."""

    def release(self) -> None:
        """Let go of the models: training is over."""


class SideBySide:
    """One engine a model; on a CPU each of them on a thread of its own, which is faster than all cores on one model."""

    def __init__(self, engines: Sequence[EagerEngine]) -> None:
        self.engines = engines
        self.name = engines[0].name
        self.threads = len(engines) if engines[0].device.type == "cpu" else 1

    def run(self, tasks: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take a step a task in every active model; the sums of their losses."""
        work = [(e, draw, first) for e, draw, first, on in zip(self.engines, tasks, first_steps, active, strict=True) if on]
        if self.threads == 1 or len(work) == 1:
            sums = iter([engine.run(draw, first) for engine, draw, first in work])
        else:
            threads = torch.get_num_threads()
            try:
                with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                    sums = iter(list(pool.map(lambda job: job[0].run(*job[1:]), work)))
            finally:
                torch.set_num_threads(threads)  # what the workers set would hold for every later thread
        return [next(sums) if on else 0.0 for on in active]

    def state(self, place: int, moments: bool = True) -> dict[str, Tensor]:
        """Parameters and moments of one model."""
        return self.engines[place].state(moments)

    def restore(self, place: int, state: Mapping[str, Tensor]) -> None:
        """Take over a state."""
        self.engines[place].restore(state)

    def release(self) -> None:
        """Nothing is shared between the models."""


def engine_for(objectives: Sequence[Objective], optimisations: Sequence[Optimisation]) -> Engine:
    """The fastest engine for objectives that :func:`batches` put together."""
    if _fusible(objectives[0]):
        from sightunseen.training.batched import BatchedEngine

        return BatchedEngine(objectives, optimisations)
    on_gpu = objectives[0].parameters[0].device.type == "cuda"
    kind = GraphEngine if on_gpu and objectives[0].alike else EagerEngine
    return SideBySide([kind(objective, how) for objective, how in zip(objectives, optimisations, strict=True)])


def most_at_once(objective: Objective) -> int:
    """How many models like this one are worth training at once."""
    if objective.parameters[0].device.type == "cpu":
        heavy = sum(parameter.numel() for parameter in objective.parameters) >= HEAVY
        return torch.get_num_threads() if heavy else 1
    form = objective.fused_form() if _fusible(objective) else None
    if form is None:
        return 1
    # Every model may bring features of its own, which are joined and brought to unit length.
    device = form.features.device
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(min(BATCH, max(1, free // 2 // (3 * form.features.nbytes))))


def batches(objectives: Sequence[Objective]) -> list[list[int]]:
    """Places of the objectives, grouped by what one engine can train together."""
    groups: dict[Hashable, list[int]] = {}
    for place, objective in enumerate(objectives):
        groups.setdefault(_shape(objective) if _fusible(objective) else "any", []).append(place)
    return list(groups.values())


def _fusible(objective: Objective) -> bool:
    if objective.parameters[0].device.type != "cuda" or objective.fused_form() is None or find_spec("triton") is None:
        return False
    return objective.draw(0, 1)["classes"].shape[1] <= MOST_CLASSES


def _shape(objective: Objective) -> Hashable:
    """What models must share to be trained by the same kernels."""
    form = objective.fused_form()
    assert form is not None
    parameters = tuple(parameter.shape for parameter in objective.parameters)
    return parameters, form.rectify, objective.draw(0, 1)["classes"].shape
