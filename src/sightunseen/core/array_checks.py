"""Check the arrays of a model folder against the shapes, types and ranges that a method declares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sightunseen.core.documents import quoted
from sightunseen.core.errors import ModelError
from sightunseen.core.limits import LARGEST

KINDS = {"f": "real numbers", "i": "whole numbers", "b": "truth values"}
LEAST_POSITIVE = 1e-100


@dataclass(frozen=True)
class Expected:
    """Declaration of one array of a model folder.

    Parameters
    ----------
    shape : str, default=""
        Sizes separated by spaces: numbers, or letters that stand for sizes; ``""`` is a single number. These letters are
        given: d features, v features after scaling (2d for two views), c classes, s seen classes, u unseen classes, a
        dimensions of a class vector. Any other letter stands for the same size wherever it occurs.
    kind : {"f", "i", "b"}, default="f"
        Real numbers, whole numbers or truth values.
    least : float, default=-1e38
        Smallest allowed value; the largest is 1e38. NaN is never allowed.
    below : str, default=""
        Size that whole numbers are below, if they are indices.
    optional : bool, default=False
        Whether the array may be missing.
    """

    shape: str = ""
    kind: str = "f"
    least: float = -LARGEST
    below: str = ""
    optional: bool = False


def indices(shape: str, below: str, optional: bool = False) -> Expected:
    """Declare an array of indices that are smaller than a size."""
    return Expected(shape, "i", 0, below, optional)


def positive(shape: str = "", optional: bool = False) -> Expected:
    """Declare an array of positive numbers."""
    return Expected(shape, least=LEAST_POSITIVE, optional=optional)


def check_arrays(arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, Expected], sizes: Mapping[str, int]) -> None:
    """Check arrays against their declarations; arrays without a declaration are ignored.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays by name.
    expected : mapping of str to Expected
        Declarations by name.
    sizes : mapping of str to int
        The sizes that letters stand for.

    Raises
    ------
    ModelError
        If an array is missing or has another type, shape or range; the message says what was found and expected.

    Examples
    --------
    >>> import numpy as np
    >>> check_arrays({"map": np.zeros((3, 2))}, {"map": Expected("d a")}, {"d": 3})
    >>> check_arrays({"map": np.zeros((3, 2))}, {"map": Expected("d d")}, {"d": 3})
    Traceback (most recent call last):
    ...
    sightunseen.core.errors.ModelError: the array 'map' has shape (3, 2); expected (3, 3)
    """
    known = dict(sizes)
    for name, declared in expected.items():
        if name in arrays:
            _check_type(name, arrays[name], declared)
            _check_shape(name, arrays[name], declared, known)
            _check_range(name, arrays[name], declared, known)
        elif not declared.optional:
            found = ", ".join(sorted(arrays)[:4]) or "none"
            raise ModelError(f"the array '{name}' is missing; found {quoted(found, 120)}")


def _check_type(name: str, array: NDArray[Any], declared: Expected) -> None:
    kind = "i" if array.dtype.kind == "u" else array.dtype.kind
    if kind != declared.kind:
        raise ModelError(f"the array '{name}' has the type {array.dtype}; expected {KINDS[declared.kind]}")


def _check_shape(name: str, array: NDArray[Any], declared: Expected, known: dict[str, int]) -> None:
    letters = declared.shape.split()
    if len(letters) == array.ndim:
        for letter, size in zip(letters, array.shape, strict=True):
            if not letter.isdigit():
                known.setdefault(letter, size)
    wanted = tuple(int(letter) if letter.isdigit() else known.get(letter, letter) for letter in letters)
    if array.shape != wanted:
        shown = ", ".join(map(str, wanted)) + ("," if len(wanted) == 1 else "")
        raise ModelError(f"the array '{name}' has shape {array.shape}; expected ({shown})")


def _check_range(name: str, array: NDArray[Any], declared: Expected, known: Mapping[str, int]) -> None:
    if not array.size or declared.kind == "b":
        return
    low, high = float(array.min()), float(array.max())  # NaN if any value is
    most = known[declared.below] - 1 if declared.below else LARGEST
    if not (declared.least <= low and high <= most):
        raise ModelError(f"the array '{name}' has values from {low:g} to {high:g}; expected {declared.least:g} to {most:g}")
