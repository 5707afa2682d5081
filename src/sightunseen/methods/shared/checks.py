"""Validation of hyperparameters that several methods share."""

from typing import Any

from sightunseen.core.checks import check_number
from sightunseen.core.errors import SettingsError


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
        raise SettingsError(f"{name} must be greater than zero; got {value!r}.")


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
        raise SettingsError(f"{name} must be a number from 0 to below 1; got {value!r}.")
