"""Hyperparameters of the optimiser: Adam with a learning rate schedule, weight decay and gradient clipping."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.checks import check_below_one, check_number, check_whole
from sightunseen.core.errors import SettingsError

MOMENTUM = 0.9


@dataclass(frozen=True)
class Optimisation:
    """Hyperparameters of Adam.

    Parameters
    ----------
    n_steps : int
        Number of gradient steps.
    learning_rate : float
        Initial learning rate.
    schedule : str, default="constant"
        ``"constant"``, ``"cosine"`` (decays to zero at the last step) or ``"halve every K"`` (halved every K steps).
    weight_decay : float, default=0.0
        L2 penalty, added to the gradient.
    clip_norm : float, default=None
        Largest allowed norm of the gradient of all parameters. None: no clipping.
    momentum : float, default=0.9
        Beta 1 of Adam; adversarial training commonly uses a smaller one.

    Raises
    ------
    SettingsError
        If a hyperparameter is out of range.

    Examples
    --------
    >>> Optimisation(n_steps=4, learning_rate=0.8, schedule="halve every 2").learning_rates(0, 4).tolist()
    [0.8, 0.8, 0.4, 0.4]
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
        check_below_one("momentum", self.momentum)
        self.learning_rates(0, 1)  # validates the schedule

    def learning_rates(self, first: int, n_steps: int) -> NDArray[np.float64]:
        """Compute the learning rates of consecutive steps.

        Parameters
        ----------
        first : int
            Number of the first step, counted from zero.
        n_steps : int
            Number of steps.

        Returns
        -------
        ndarray of shape (n_steps,)
            Learning rates.

        Raises
        ------
        SettingsError
            If the schedule is unknown.
        """
        steps = first + np.arange(n_steps)
        if self.schedule == "constant":
            return np.full(n_steps, float(self.learning_rate))
        if self.schedule == "cosine":
            return np.asarray(self.learning_rate * 0.5 * (1 + np.cos(np.pi * steps / self.n_steps)))
        halving = re.fullmatch(r"halve every (\d+)", str(self.schedule))
        if halving is None or int(halving[1]) == 0:
            raise SettingsError(f"schedule must be 'constant', 'cosine' or 'halve every K'; got '{self.schedule}'.")
        return np.asarray(self.learning_rate * 0.5 ** (steps // int(halving[1])))
