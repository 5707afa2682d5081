"""How the parameters move: Adam, its learning rate over time, weight decay and gradient clipping."""

import math
import re
from dataclasses import dataclass

from sightunseen.errors import SettingsError


@dataclass(frozen=True)
class Optimisation:
    """The settings of the optimiser.

    ``schedule`` is ``constant``, ``cosine`` (down to zero at the last task) or ``halve every K`` (tasks).
    ``weight_decay`` is Adam's own, added to the gradient; ``clip_norm`` bounds the norm of the whole gradient.
    """

    n_tasks: int
    learning_rate: float
    schedule: str = "constant"
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name, value, least in (
            ("n_tasks", self.n_tasks, 1),
            ("learning_rate", self.learning_rate, 0),
            ("weight_decay", self.weight_decay, 0),
            ("clip_norm", self.clip_norm, 0),
        ):
            if value is not None and not (least <= value < math.inf):
                raise SettingsError(f"{name} must be a number from {least} up; got {value}.")
        self.learning_rate_at(0)

    def learning_rate_at(self, task: int) -> float:
        """The learning rate of the task with this number, counted from zero."""
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * task / self.n_tasks))
        halving = re.fullmatch(r"halve every (\d+)", self.schedule)
        if halving is None or int(halving[1]) == 0:
            raise SettingsError(f"schedule must be 'constant', 'cosine' or 'halve every K'; got '{self.schedule}'.")
        return self.learning_rate * 0.5 ** (task // int(halving[1]))
