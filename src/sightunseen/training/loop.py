"""The one training loop: draw some tasks, let an engine take its steps, tell the hooks.

Task number t is a function of the seed and t alone. So the same tasks reach every engine, in chunks of any size, and a run
can go on from any task without keeping the state of a random generator.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from sightunseen.core.errors import SettingsError, SightUnseenError
from sightunseen.training.engines import Engine, batches, engine_for, most_at_once
from sightunseen.training.objective import Objective
from sightunseen.training.optimisation import Optimisation

CHUNK = 100  # tasks trained between two words to the hooks; more where that takes no time


class TrainingInterrupted(SightUnseenError):
    """Training was stopped on purpose, at the end of a chunk."""


class Hook:
    """Something told how training goes. Subclasses fill in what they need."""

    def on_start(self, training: "Training") -> None:
        """Before the first chunk; a hook may restore a checkpoint here."""

    def on_chunk(self, training: "Training") -> None:
        """After every chunk."""

    def on_end(self, training: "Training") -> None:
        """After the last chunk, also when training is broken off."""


@dataclass
class Run:
    """A training run to be made: what is trained, how, who is told, and what to do at the end.

    ``stage`` names it among the several of one command; it ends after ``stop_after`` tasks of the schedule (None: all of
    them). ``model`` is what hooks measure; ``finish`` is called with the training once it is over.
    """

    objective: Objective
    optimisation: Optimisation
    hooks: Sequence[Hook] = ()
    stage: str = "training"
    stop_after: int | None = None
    model: Any = None
    finish: Callable[["Training"], None] = lambda training: None

    def __post_init__(self) -> None:
        if self.stop_after is not None and self.stop_after < 1:
            raise SettingsError(f"stop_after must be at least 1; got {self.stop_after}.")


class Training:
    """A run under way: how far it is, and the mean loss of every chunk so far.

    ``losses`` are pairs of tasks done and the mean loss since the pair before; ``curve`` is where hooks note what they
    measure along the way. Both are kept in checkpoints. Where chunks end does not depend on what is trained beside it.
    """

    def __init__(self, run: Run, engine: Engine, place: int) -> None:
        self.run, self.engine, self.place = run, engine, place
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
        """Whether there is nothing left to train."""
        return self.steps_done >= self.last

    @property
    def steps_before(self) -> int:
        """Tasks done before the last chunk."""
        return self.losses[-2][0] if len(self.losses) > 1 else 0

    @property
    def left_of_chunk(self) -> int:
        """Tasks until the chunk ends: after ``chunk`` tasks, where the objective changes, or with the run."""
        size = self.objective.round_size
        place = self.steps_done if size is None else self.steps_done % size
        ends = [self.last - self.steps_done, self.chunk - place % self.chunk]
        return min(ends if size is None else [*ends, size - place])

    def loss_curve(self, most: int = 200) -> list[dict[str, float]]:
        """The mean loss against the number of tasks, in at most this many points."""
        group = max(1, -(-len(self.losses) // most))  # rounded up
        found, before = [], 0
        for start in range(0, len(self.losses), group):
            part = self.losses[start : start + group]
            sizes = np.diff([before, *(tasks for tasks, _ in part)])
            before = part[-1][0]
            found.append({"steps": before, "loss": float(np.average([loss for _, loss in part], weights=sizes))})
        return found

    def state(self) -> dict[str, Tensor]:
        """Parameters, the objective's memory and, unless the schedule is over, the optimiser's state, by name."""
        memory = {f"memory.{name}": tensor for name, tensor in self.objective.memory().items()}
        return {**self.engine.state(self.place, moments=self.steps_done < self.optimisation.n_steps), **memory}

    def restore(self, state: Mapping[str, Tensor], steps_done: int, losses: Sequence[tuple[int, float]]) -> None:
        """Go on from a state saved at the end of a chunk."""
        self.engine.restore(self.place, state)
        memory = {name: tensor for name, tensor in state.items() if name.startswith("memory.")}
        self.objective.remember({name.removeprefix("memory."): tensor for name, tensor in memory.items()})
        self.steps_done = steps_done
        self.losses = [(int(tasks), float(loss)) for tasks, loss in losses]

    def advance(self, n_steps: int, loss: float) -> bool:
        """Take note of tasks that were trained, with the sum of their losses; whether they end a chunk."""
        if not np.isfinite(loss):
            raise SightUnseenError(
                f"the loss became {loss} after {self.steps_done} tasks: training diverged. "
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
    """Train one model to the end of its schedule, or to ``stop_after`` tasks of it."""
    return _train_batch([run])[0]


def train_together(runs: Iterable[Callable[[], Run]]) -> None:
    """Train many models, as many at a time as the engine can take; each ends as it would have alone, but for rounding.

    ``runs`` are functions that prepare a run: what it holds in memory is made when its turn comes, and let go after its
    ``finish``.
    """
    waiting = iter(runs)
    while first := next(waiting, None):
        prepared = [first()]
        prepared += [prepare() for prepare in islice(waiting, most_at_once(prepared[0].objective) - 1)]
        for batch in batches([run.objective for run in prepared]):
            _train_batch([prepared[k] for k in batch])
        del prepared  # before the next ones are made


def _train_batch(runs: Sequence[Run]) -> list[Training]:
    engine = engine_for([run.objective for run in runs], [run.optimisation for run in runs])
    trainings = [Training(run, engine, place) for place, run in enumerate(runs)]
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
    """Draw and train the next tasks of every model that is not finished."""
    active = [not training.finished for training in trainings]
    under_way = [training for training in trainings if not training.finished]
    size = min(training.left_of_chunk for training in under_way)
    firsts = [training.steps_done for training in trainings]
    draws = [training.objective.draw(training.steps_done, size) for training in trainings]
    losses = engine.run(draws, firsts, active)
    told = [training for training in under_way if training.advance(size, losses[training.place])]
    interruption = None
    for training in told:
        for hook in training.run.hooks:
            try:
                hook.on_chunk(training)
            except TrainingInterrupted as asked:  # every model is told before any of them stops
                interruption = asked
    if interruption is not None:
        raise interruption


def _chunk_size(run: Run) -> int:
    """On a GPU up to 5,000 tasks of a long run at a time: a hundred take it less than drawing them and telling the hooks."""
    on_gpu = run.objective.parameters[0].device.type == "cuda"
    return max(CHUNK, min(run.optimisation.n_steps // 200, 5000) // CHUNK * CHUNK) if on_gpu else CHUNK
