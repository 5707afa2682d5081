"""The training loop: draw batches, let an engine take the gradient steps, call the hooks.

The batch of step t depends on the seed and on t alone. Every engine therefore sees the same batches, in chunks of any size,
and training can resume at any step without storing the state of a random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen.core.errors import SettingsError, SightUnseenError
from sightunseen.training.objective import Objective
from sightunseen.training.optimisation import Optimisation

if TYPE_CHECKING:
    from torch import Tensor

    from sightunseen.training.engines import Engine

CHUNK = 100  # most steps between two calls of the hooks; more on a GPU
CHUNKS = 10  # least number of calls in a training of ten steps or more, so that hooks can measure its progress


class TrainingInterrupted(SightUnseenError):
    """Training was stopped on request, at the end of a chunk."""


class Hook:
    """Callback of the training loop. Subclasses override the methods they need."""

    def on_start(self, training: Training) -> None:
        """Handle the start of training; a hook may restore a checkpoint here."""

    def on_resume(self, training: Training) -> None:
        """Handle a restored checkpoint; a hook may check here what it measured so far, and raise a ``ModelError``."""

    def on_chunk(self, training: Training) -> None:
        """Handle the end of a chunk of steps."""

    def on_end(self, training: Training) -> None:
        """Handle the end of training, also if it ends by an exception."""


@dataclass
class Run:
    """Specification of a training run.

    Parameters
    ----------
    objective : Objective
        Loss, parameters and batches.
    optimisation : Optimisation
        Hyperparameters of the optimiser.
    hooks : sequence of Hook, default=()
        Callbacks.
    stage : str, default="training"
        Name of the run among those of one command; checkpoints and the progress bar use it.
    stop_after : int, default=None
        Number of steps after which training ends, without changing the learning rate schedule. None: all steps.
    model : object, default=None
        Model that hooks may evaluate.
    finish : callable, default=no operation
        Called with the :class:`Training` when training is complete.

    Raises
    ------
    SettingsError
        If ``stop_after`` is less than one.
    """

    objective: Objective
    optimisation: Optimisation
    hooks: Sequence[Hook] = ()
    stage: str = "training"
    stop_after: int | None = None
    model: Any = None
    finish: Callable[[Training], None] = lambda training: None

    def __post_init__(self) -> None:
        if self.stop_after is not None and self.stop_after < 1:
            raise SettingsError(f"stop_after must be at least 1; got {self.stop_after}.")


class Training:
    """Progress of a run. The ends of its chunks do not depend on the models that are trained at the same time.

    Parameters
    ----------
    run : Run
        Specification of the run.
    engine : Engine
        Engine that takes the steps.
    index : int
        Index of the model within the engine.

    Attributes
    ----------
    steps_done : int
        Number of steps taken so far.
    last : int
        Number of steps at which training ends.
    losses : list of (int, float)
        For every chunk, the number of steps taken at its end and its mean loss; part of checkpoints.
    curve : list of dict
        Measurements appended by hooks; part of checkpoints.
    """

    def __init__(self, run: Run, engine: Engine, index: int) -> None:
        self.run, self.engine, self.index = run, engine, index
        self.objective, self.optimisation = run.objective, run.optimisation
        self.stage, self.model = run.stage, run.model
        self.last = min(run.stop_after or run.optimisation.n_steps, run.optimisation.n_steps)
        self.chunk = _chunk_size(run)
        self.steps_done = 0
        self._loss_of_chunk = 0.0
        self.losses: list[tuple[int, float]] = []
        self.curve: list[dict[str, Any]] = []

    @property
    def finished(self) -> bool:
        """Whether all steps are taken."""
        return self.steps_done >= self.last

    def stop(self) -> None:
        """End training after the steps taken so far, without changing the learning rate schedule; for hooks."""
        self.last = self.steps_done

    @property
    def steps_before(self) -> int:
        """Number of steps taken before the most recent chunk."""
        return self.losses[-2][0] if len(self.losses) > 1 else 0

    @property
    def left_of_chunk(self) -> int:
        """Number of steps to the end of the chunk: after ``chunk`` steps, where the objective changes, or with the run."""
        size = self.objective.round_size
        position = self.steps_done if size is None else self.steps_done % size
        ends = [self.last - self.steps_done, self.chunk - position % self.chunk]
        return min(ends if size is None else [*ends, size - position])

    def loss_curve(self, most: int = 200) -> list[dict[str, float]]:
        """Average the losses of consecutive chunks for plotting.

        Parameters
        ----------
        most : int, default=200
            Largest number of points.

        Returns
        -------
        list of dict
            Points with ``steps`` and the mean ``loss`` since the previous point.
        """
        group = max(1, -(-len(self.losses) // most))  # rounded up
        found, before = [], 0
        for start in range(0, len(self.losses), group):
            part = self.losses[start : start + group]
            sizes = np.diff([before, *(steps for steps, _ in part)])
            before = part[-1][0]
            found.append({"steps": before, "loss": float(np.average([loss for _, loss in part], weights=sizes))})
        return found

    def state(self) -> dict[str, Tensor]:
        """Copy the state for a checkpoint: parameters, memory of the objective and, while steps remain, Adam's state."""
        memory = {f"memory.{name}": tensor for name, tensor in self.objective.memory().items()}
        return {**self.engine.state(self.index, moments=self.steps_done < self.optimisation.n_steps), **memory}

    def restore(self, state: Mapping[str, Tensor], steps_done: int, losses: Sequence[tuple[int, float]]) -> None:
        """Resume from a state saved at the end of a chunk.

        Parameters
        ----------
        state : mapping of str to Tensor
            Result of :meth:`state`.
        steps_done : int
            Number of steps taken by then.
        losses : sequence of (int, float)
            Losses by then; see :attr:`losses`.
        """
        self.engine.restore(self.index, state)
        memory = {name: tensor for name, tensor in state.items() if name.startswith("memory.")}
        self.objective.remember({name.removeprefix("memory."): tensor for name, tensor in memory.items()})
        self.steps_done = steps_done
        self.losses = [(int(steps), float(loss)) for steps, loss in losses]

    def advance(self, n_steps: int, loss: float) -> bool:
        """Record steps that the engine has taken.

        Parameters
        ----------
        n_steps : int
            Number of steps.
        loss : float
            Sum of their losses.

        Returns
        -------
        bool
            Whether the steps complete a chunk.

        Raises
        ------
        SightUnseenError
            If the loss is not finite.
        """
        if not np.isfinite(loss):
            raise SightUnseenError(
                f"the loss became {loss} after {self.steps_done} steps: training diverged. "
                "Lower the learning rate, or look for extreme values with: sightunseen inspect"
            )
        ends = n_steps == self.left_of_chunk
        self.steps_done += n_steps
        self._loss_of_chunk += loss
        if ends:
            before = self.losses[-1][0] if self.losses else 0
            self.losses.append((self.steps_done, self._loss_of_chunk / (self.steps_done - before)))
            self._loss_of_chunk = 0.0
        self.objective.after_chunk(self.steps_done, n_steps, loss / n_steps)
        return ends


def train(run: Run) -> Training:
    """Train one model to the end of its schedule, or for ``run.stop_after`` steps.

    Parameters
    ----------
    run : Run
        What to train.

    Returns
    -------
    Training
        The completed training.

    Raises
    ------
    TrainingInterrupted
        If a hook requested a stop.
    SightUnseenError
        If the loss diverges.
    """
    return _train_together([run])[0]


def train_together(runs: Iterable[Callable[[], Run]]) -> None:
    """Train many models, several at a time. Each ends like a model trained alone, up to rounding.

    Parameters
    ----------
    runs : iterable of callables that return a Run
        Each is called shortly before its training starts, and its memory is freed after its ``finish``.

    Raises
    ------
    TrainingInterrupted
        If a hook requested a stop.
    SightUnseenError
        If a loss diverges.
    """
    waiting = iter(runs)
    while first := next(waiting, None):
        # Imports torch, and therefore waits until there is something to train.
        from sightunseen.training.engines import group_by_shape, most_at_once

        prepared = [first()]
        prepared += [prepare() for prepare in islice(waiting, most_at_once(prepared[0].objective) - 1)]
        for group in group_by_shape([run.objective for run in prepared]):
            _train_together([prepared[k] for k in group])
        del prepared  # frees the memory before the next runs are prepared


def _train_together(runs: Sequence[Run]) -> list[Training]:
    from sightunseen.training.engines import engine_for  # imports torch

    engine = engine_for([run.objective for run in runs], [run.optimisation for run in runs])
    trainings = [Training(run, engine, index) for index, run in enumerate(runs)]
    for training in trainings:
        for hook in training.run.hooks:
            hook.on_start(training)
    try:
        while not all(training.finished for training in trainings):
            _run_chunk(engine, trainings)
    finally:
        for training in trainings:
            for hook in training.run.hooks:
                hook.on_end(training)
    engine.release()
    for training in trainings:
        training.run.finish(training)
    return trainings


def _run_chunk(engine: Engine, trainings: Sequence[Training]) -> None:
    """Take the next steps of every unfinished model, and call the hooks of those that complete a chunk."""
    active = [not training.finished for training in trainings]
    unfinished = [training for training in trainings if not training.finished]
    size = min(training.left_of_chunk for training in unfinished)
    firsts = [training.steps_done for training in trainings]
    draws = [training.objective.draw(training.steps_done, size) for training in trainings]
    losses = engine.run(draws, firsts, active)
    completed = [training for training in unfinished if training.advance(size, losses[training.index])]
    interruption = None
    for training in completed:
        for hook in training.run.hooks:
            try:
                hook.on_chunk(training)
            except TrainingInterrupted as request:  # raised after the hooks of all models have run
                interruption = request
    if interruption is not None:
        raise interruption


def _chunk_size(run: Run) -> int:
    """Steps per chunk: up to 5,000 on a GPU, where 100 steps take less time than drawing their batches and the hooks."""
    n_steps = run.optimisation.n_steps
    if run.objective.parameters[0].device.type == "cuda" and n_steps >= 200 * CHUNK:
        return min(n_steps // 200, 5000) // CHUNK * CHUNK
    return max(1, min(CHUNK, n_steps // CHUNKS))
