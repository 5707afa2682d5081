"""The one training loop: draw a chunk of tasks, let an engine take its steps, tell the hooks.

Tasks are drawn on the host in chunks, and chunk number c is a pure function of the seed and c. So the same tasks reach
every engine, and a run can go on from any chunk without keeping the state of a random generator.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightunseen.errors import SettingsError, SightUnseenError
from sightunseen.training.cpu import EagerEngine
from sightunseen.training.cuda import GraphEngine
from sightunseen.training.objective import Objective
from sightunseen.training.optimisation import Optimisation


class TrainingInterrupted(SightUnseenError):
    """Training was stopped on purpose, at the end of a chunk."""


class Training:
    """A training run under way: what is trained, how far it is, and the mean loss of every chunk so far.

    ``curve`` is where hooks note what they measure along the way; it is kept in checkpoints. ``stage`` names this run among
    the several of one command; it ends after ``last`` tasks of the schedule. ``model`` is what hooks measure.
    """

    def __init__(self, objective: Objective, optimisation: Optimisation, stage: str, last: int, model: Any = None) -> None:
        self.model = model
        self.objective = objective
        self.optimisation = optimisation
        self.stage = stage
        self.last = last
        self.tasks_done = 0
        self.losses: list[float] = []
        self.curve: list[dict[str, Any]] = []
        self.device = objective.parameters[0].device
        self.engine = (GraphEngine if self.device.type == "cuda" else EagerEngine)(objective, optimisation)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.tasks_done >= self.last

    def loss_curve(self, most: int = 200) -> list[dict[str, float]]:
        """The mean loss against the number of tasks, in at most this many points."""
        group = -(-len(self.losses) // most)  # rounded up
        ends = range(group, len(self.losses) + group, group)
        return [
            {
                "tasks": min(end * self.objective.chunk_size, self.tasks_done),
                "loss": float(np.mean(self.losses[end - group : end])),
            }
            for end in ends
        ]

    def state(self) -> dict[str, Tensor]:
        """Parameters, the objective's memory and, unless the schedule is over, the optimiser's state, by name."""
        memory = {f"memory.{name}": tensor for name, tensor in self.objective.memory().items()}
        return {**self.engine.state(moments=self.tasks_done < self.optimisation.n_tasks), **memory}

    def restore(self, state: Mapping[str, Tensor], tasks_done: int, losses: Sequence[float]) -> None:
        """Go on from a state saved at the end of a chunk."""
        self.engine.restore(state)
        memory = {name: tensor for name, tensor in state.items() if name.startswith("memory.")}
        self.objective.remember({name.removeprefix("memory."): tensor for name, tensor in memory.items()})
        self.tasks_done = tasks_done
        self.losses = list(losses)

    def run_chunk(self) -> None:
        """Draw and train the next chunk."""
        size = min(self.objective.chunk_size, self.last - self.tasks_done)
        drawn = self.objective.draw(self.tasks_done // self.objective.chunk_size, size)
        # Copied, since a drawn array may be a read-only view that torch cannot share.
        tasks = {name: torch.from_numpy(np.array(array)).to(self.device) for name, array in drawn.items()}
        loss = self.engine.run(tasks, first_task=self.tasks_done) / size
        if not np.isfinite(loss):
            raise SightUnseenError(
                f"the loss became {loss} after {self.tasks_done} tasks: training diverged. "
                "Lower the learning rate, or look for extreme values with: sightunseen inspect"
            )
        self.tasks_done += size
        self.losses.append(loss)
        self.objective.after_chunk(self.tasks_done, loss)


class Hook:
    """Something told how training goes. Subclasses fill in what they need."""

    def on_start(self, training: Training) -> None:
        """Before the first chunk; a hook may restore a checkpoint here."""

    def on_chunk(self, training: Training) -> None:
        """After every chunk."""

    def on_end(self, training: Training) -> None:
        """After the last chunk, also when training is broken off."""


def train(
    objective: Objective,
    optimisation: Optimisation,
    hooks: Sequence[Hook] = (),
    stage: str = "training",
    stop_after: int | None = None,
    model: Any = None,
) -> Training:
    """Train to the end of the schedule, or to ``stop_after`` tasks of it."""
    if stop_after is not None and stop_after < 1:
        raise SettingsError(f"stop_after must be at least 1; got {stop_after}.")
    last = optimisation.n_tasks if stop_after is None else min(stop_after, optimisation.n_tasks)
    training = Training(objective, optimisation, stage, last, model)
    for hook in hooks:
        hook.on_start(training)
    try:
        while not training.finished:
            training.run_chunk()
            for hook in hooks:
                hook.on_chunk(training)
    finally:
        for hook in hooks:
            hook.on_end(training)
    return training
