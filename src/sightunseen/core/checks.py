"""Validate single hyperparameters; each error names the parameter, the allowed values and the value found."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import WHOLE

LARGEST_BITS = 1000  # of an integer; larger ones may not be finite in double precision


def check_whole(name: str, value: Any, least: int, most: int = WHOLE, optional: bool = False) -> None:
    """Check that a parameter is an integer within bounds.

    Parameters
    ----------
    name : str
        The parameter, for the error message.
    value : object
        Its value.
    least : int
        The smallest allowed value.
    most : int, default=2**32 - 1
        The largest allowed value.
    optional : bool, default=False
        Whether None is allowed, too.

    Raises
    ------
    SettingsError
        If the value is not an integer (a bool is not), or is out of bounds.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SettingsError(f"{name} must be a whole number from {least} up; got {_shown(value)}.")
    if value > most:
        raise SettingsError(f"{name} must be a whole number of at most {most:,}; got {_shown(value)}.")


def check_number(
    name: str, value: Any, least: float = -float("inf"), optional: bool = False, most: float = float("inf")
) -> None:
    """Check that a parameter is a finite number within bounds.

    Parameters
    ----------
    name : str
        The parameter, for the error message.
    value : object
        Its value.
    least, most : float, default=-inf and inf
        The smallest and the largest allowed value.
    optional : bool, default=False
        Whether None is allowed, too.

    Raises
    ------
    SettingsError
        If the value is not a number (a bool is not), not finite, or out of bounds.
    """
    if value is None and optional:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not least <= value <= most
        or value in (float("inf"), -float("inf"))
        or (isinstance(value, int) and value.bit_length() > LARGEST_BITS)
    ):
        bound = "" if least == -float("inf") else f" from {least:g} {'up' if most == float('inf') else f'to {most:g}'}"
        raise SettingsError(f"{name} must be a number{bound}{' or None' * optional}; got {_shown(value)}.")


def _shown(value: Any) -> str:
    """Value for an error message; Python does not print integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        return "an integer of more than 300 digits"
    return quoted(repr(value))


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Check that a parameter has one of a few values.

    Parameters
    ----------
    name : str
        The parameter, for the error message.
    value : object
        Its value.
    allowed : sequence
        The allowed values.

    Raises
    ------
    SettingsError
        If the value is not among them.
    """
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(map(str, allowed))}; got {_shown(value)}.")


def check_positive(name: str, value: Any) -> None:
    """Check that a hyperparameter is a finite number greater than zero.

    Parameters
    ----------
    name : str
        Name of the hyperparameter, for the error message.
    value : object
        Its value.

    Raises
    ------
    SettingsError
        If it is anything else.
    """
    check_number(name, value)
    if value <= 0:
        raise SettingsError(f"{name} must be greater than zero; got {_shown(value)}.")


def check_below_one(name: str, value: Any) -> None:
    """Check that a hyperparameter is a number from 0 to below 1.

    Parameters
    ----------
    name : str
        Name of the hyperparameter, for the error message.
    value : object
        Its value.

    Raises
    ------
    SettingsError
        If it is anything else.
    """
    check_number(name, value, 0)
    if value >= 1:
        raise SettingsError(f"{name} must be a number from 0 to below 1; got {_shown(value)}.")
