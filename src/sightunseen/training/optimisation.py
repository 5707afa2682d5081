"""How the parameters move: Adam, its learning rate over time, weight decay and gradient clipping."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.errors import SettingsError

MOMENTUM = 0.9


@dataclass(frozen=True)
class Optimisation:
    """The settings of the optimiser.

    ``schedule`` is ``constant``, ``cosine`` (down to zero at the last task) or ``halve every K`` (tasks).
    ``weight_decay`` is Adam's own, added to the gradient; ``clip_norm`` bounds the norm of the whole gradient; ``momentum``
    is Adam's beta 1, which adversarial training wants lower.
    """

    n_steps: int
    learning_rate: float
    schedule: str = "constant"
    weight_decay: float = 0.0
    clip_norm: float | None = None
    momentum: float = MOMENTUM

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        check_number("learning_rate", self.learning_rate, 0)
        check_number("weight_decay", self.weight_decay, 0)
        check_number("clip_norm", self.clip_norm, 0, optional=True)
        check_number("momentum", self.momentum, 0)
        self.learning_rate_at(0)

    def learning_rate_at(self, task: int) -> float:
        """The learning rate of the task with this number, counted from zero."""
        return float(self.learning_rates(task, 1)[0])

    def learning_rates(self, first: int, n_steps: int) -> NDArray[np.float64]:
        """The learning rates of the tasks with numbers ``first`` and up."""
        tasks = first + np.arange(n_steps)
        if self.schedule == "constant":
            return np.full(n_steps, float(self.learning_rate))
        if self.schedule == "cosine":
            return np.asarray(self.learning_rate * 0.5 * (1 + np.cos(np.pi * tasks / self.n_steps)))
        halving = re.fullmatch(r"halve every (\d+)", str(self.schedule))
        if halving is None or int(halving[1]) == 0:
            raise SettingsError(f"schedule must be 'constant', 'cosine' or 'halve every K'; got '{self.schedule}'.")
        return np.asarray(self.learning_rate * 0.5 ** (tasks // int(halving[1])))
