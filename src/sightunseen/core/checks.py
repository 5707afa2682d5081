"""Checks of single settings, each with one message: what it must be, and what was found."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightunseen.core.errors import SettingsError


def check_whole(name: str, value: Any, least: int) -> None:
    """A whole number from ``least`` up."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SettingsError(f"{name} must be a whole number from {least} up; got {value!r}.")


def check_number(
    name: str, value: Any, least: float = -float("inf"), optional: bool = False, most: float = float("inf")
) -> None:
    """A finite number from ``least`` to ``most``; None, too, where it is optional."""
    if value is None and optional:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not least <= value <= most
        or np.isinf(value)
    ):
        bound = "" if least == -float("inf") else f" from {least:g} {'up' if most == float('inf') else f'to {most:g}'}"
        raise SettingsError(f"{name} must be a number{bound}{' or None' * optional}; got {value!r}.")


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """One of a few values."""
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}.")
