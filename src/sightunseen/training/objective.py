"""What a method hands to the training loop."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

CHUNK = 100  # tasks drawn, trained and reported at a time, unless an objective needs another number

Draw = Mapping[str, NDArray[np.int64]]


class Objective:
    """A loss over tasks, the parameters that lower it, and the way tasks are drawn.

    ``notes`` is what the objective reports about its way, for the run record; it is kept in checkpoints.
    """

    chunk_size: int = CHUNK

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.notes: list[dict[str, Any]] = []

    def draw(self, chunk: int, n_tasks: int) -> Draw:
        """Index arrays of ``n_tasks`` tasks, each with the tasks along its first axis.

        A pure function of ``chunk`` and of :meth:`memory`, so that a run can go on from any chunk.
        """
        raise NotImplementedError

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The loss of one task: one entry of each drawn array."""
        raise NotImplementedError

    def after_chunk(self, tasks_done: int, loss: float) -> None:
        """Told after every chunk, before any hook; for objectives that change as they go."""

    def memory(self) -> dict[str, Tensor]:
        """What the objective knows beyond its parameters and must have back to go on."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`memory` gave."""
