"""Selection of the training engine: eager on a CPU, CUDA graphs on a GPU, fused kernels where the objective allows them."""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor

from sightunseen.training.cpu import EagerEngine
from sightunseen.training.cuda import GraphEngine
from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation
from sightunseen.training.triton_kernels import has_kernels

BATCH = 32  # models trained at once on a GPU by the fused kernels
STREAMS = 6  # models trained at once on a GPU by graphs of their own
HEAVY = 1_000_000  # number of parameters from which a step is limited by arithmetic and not by the Python interpreter
MOST_CLASSES = 1024  # most classes per batch for the fused kernels; their buffers grow with its square


class Engine(Protocol):
    """Interface of engines: take the gradient steps of one or several models, addressed by their index."""

    name: str  # with the precision of its matrix products, as stored in run records

    def run(self, draws: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take one gradient step per batch in every active model.

        Parameters
        ----------
        draws : sequence of mappings of str to Tensor of shape (k, ...)
            Index arrays of k batches for each model.
        first_steps : sequence of int
            Number of the first step of each model.
        active : sequence of bool
            Whether each model is to be trained; the others keep their parameters.

        Returns
        -------
        list of float
            Sum of the k losses of each model; zero for an inactive model.
        """

    def state(self, index: int, moments: bool = True) -> dict[str, Tensor]:
        """Copy the parameters and, with ``moments``, Adam's state of one model; see :meth:`EagerEngine.state`."""

    def restore(self, index: int, state: Mapping[str, Tensor]) -> None:
        """Restore a state of one model that any engine returned."""

    def release(self) -> None:
        """Free the resources that models share, at the end of training."""


class SideBySide:
    """Several models with one engine each, at the same time.

    On a CPU each model is trained on a thread of its own, which is faster than all cores working on one model; on a GPU on a
    stream of its own, because the small kernels of one model leave most of the GPU idle.

    Parameters
    ----------
    engines : sequence of EagerEngine
        Engines of the models, all on one device.
    """

    def __init__(self, engines: Sequence[EagerEngine]) -> None:
        self.engines = engines
        self.name = engines[0].name
        self.threads = len(engines) if engines[0].device.type == "cpu" else 1

    def run(self, draws: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take one gradient step per batch in every active model; see :meth:`Engine.run`."""
        work = [(e, draw, first) for e, draw, first, on in zip(self.engines, draws, first_steps, active, strict=True) if on]
        if self.threads == 1 or len(work) == 1:
            for engine, draw, first in work:
                engine.launch(draw, first)
            sums = iter([engine.finish() for engine, _, _ in work])
        else:
            threads = torch.get_num_threads()
            try:
                with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                    sums = iter(list(pool.map(lambda job: job[0].run(*job[1:]), work)))
            finally:
                torch.set_num_threads(threads)  # the workers' number would apply to all later threads
        return [next(sums) if on else 0.0 for on in active]

    def state(self, index: int, moments: bool = True) -> dict[str, Tensor]:
        """Copy the state of one model."""
        return self.engines[index].state(moments)

    def restore(self, index: int, state: Mapping[str, Tensor]) -> None:
        """Restore the state of one model."""
        self.engines[index].restore(state)

    def release(self) -> None:
        """Do nothing: the models share no resources."""


def engine_for(objectives: Sequence[Objective], optimisations: Sequence[Optimisation]) -> Engine:
    """Choose the fastest engine for objectives that one engine can train.

    Parameters
    ----------
    objectives : sequence of Objective
        One group of :func:`group_by_shape`.
    optimisations : sequence of Optimisation
        Hyperparameters of the optimiser for each objective.

    Returns
    -------
    Engine
        Engine for all of them.
    """
    if _fusible(objectives[0]):
        from sightunseen.training.batched import BatchedEngine

        return BatchedEngine(objectives, optimisations)
    on_gpu = objectives[0].parameters[0].device.type == "cuda"
    kind = GraphEngine if on_gpu else EagerEngine
    return SideBySide([kind(objective, how) for objective, how in zip(objectives, optimisations, strict=True)])


def most_at_once(objective: Objective) -> int:
    """Compute how many models like this one to train at once, given the cores or the GPU memory that is free.

    Parameters
    ----------
    objective : Objective
        Objective of one of the models.

    Returns
    -------
    int
        Number of models, at least one.
    """
    if objective.parameters[0].device.type == "cpu":
        heavy = sum(parameter.numel() for parameter in objective.parameters) >= HEAVY
        return torch.get_num_threads() if heavy else 1
    device = objective.parameters[0].device
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    form = objective.fused_form() if _fusible(objective) else None
    if form is None:
        # Parameters, moments, and the gradients and activations of all steps of a graph.
        most, needed = STREAMS, 40 * sum(parameter.nbytes for parameter in objective.parameters)
    else:
        # Each model may have its own features, which the engine concatenates and normalises: about three copies.
        most, needed = BATCH, 3 * form.features.nbytes
    return int(min(most, max(1, free // 2 // needed)))


def group_by_shape(objectives: Sequence[Objective]) -> list[list[int]]:
    """Group objectives that one engine can train together.

    Parameters
    ----------
    objectives : sequence of Objective
        Objectives on one device.

    Returns
    -------
    list of list of int
        Indices of the objectives in each group.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, objective in enumerate(objectives):
        groups.setdefault(_shape(objective) if _fusible(objective) else "any", []).append(index)
    return list(groups.values())


def _fusible(objective: Objective) -> bool:
    if not has_kernels(objective.parameters[0]) or objective.fused_form() is None:
        return False
    return objective.draw(0, 1)["classes"].shape[1] <= MOST_CLASSES


def _shape(objective: Objective) -> Hashable:
    """Shapes and flags that must agree between models trained by the same kernels."""
    form = objective.fused_form()
    assert form is not None
    parameters = tuple(parameter.shape for parameter in objective.parameters)
    return parameters, form.rectify, objective.draw(0, 1)["classes"].shape
