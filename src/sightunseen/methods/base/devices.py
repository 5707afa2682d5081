"""Devices of closed-form methods; torch is imported only where a GPU may be used."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sightunseen.core.arrays import Floats

DEVICES = ("cpu", "cuda", "auto")
LARGE = 1 << 30  # bytes of features from which a GPU saves more time than importing torch takes


def has_gpu() -> bool:
    """Return whether torch finds a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def device_for(wanted: str, X: Any) -> str:
    """Choose the device of a pass over features.

    Parameters
    ----------
    wanted : {"cpu", "cuda", "auto"}
        The device; ``"auto"`` is a GPU if there is one and the features have at least 1 GiB.
    X : ndarray or Rows of shape (n, d)
        Features.

    Returns
    -------
    {"cpu", "cuda"}
        The device.
    """
    if wanted != "auto":
        return wanted
    return "cuda" if X.nbytes >= LARGE and has_gpu() else "cpu"


def linear_scorer(weights: Floats, bias: Floats, device: str) -> Callable[[Floats], Floats]:
    """Return a function from features (n, d) to scores (n, c).

    Parameters
    ----------
    weights : ndarray of shape (c, d)
        Weights of each class.
    bias : ndarray of shape (c,)
        Bias of each class.
    device : {"cpu", "cuda", "auto"}
        ``"cuda"``: scores are computed on a GPU if there is one; otherwise on the CPU.

    Returns
    -------
    callable
        The function.
    """
    if device != "cuda" or not has_gpu():
        return lambda X: np.asarray(X @ weights.T + bias)
    import torch

    there = torch.tensor(weights.T, device="cuda"), torch.tensor(bias, device="cuda")

    def score(X: Floats) -> Floats:
        images = torch.tensor(np.ascontiguousarray(X), device="cuda")
        return np.asarray(torch.addmm(there[1], images, there[0]).cpu().numpy())

    return score
