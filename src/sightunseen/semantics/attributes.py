"""Class vectors as a generator likes them."""

import math

import numpy as np

from sightunseen.classes import Vectors
from sightunseen.errors import DataError, SettingsError


def scale_vectors(vectors: Vectors, norm: float | str | None) -> Vectors:
    """Scale every vector (c, a) to one length: a number, ``sqrt`` for the square root of a, or None to leave them.

    The size of attributes differs a hundredfold between benchmarks; at length sqrt(a) an entry is about one.
    """
    length = length_of(norm, vectors.shape[1])
    if length is None:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise DataError(
            f"{int((lengths == 0).sum())} class vectors are all zero and say nothing about their class. "
            "Describe these classes, drop them, or set semantic_norm=None."
        )
    return np.asarray(vectors * (length / lengths))


def length_of(norm: float | str | None, size: int) -> float | None:
    """The length that ``norm`` stands for in vectors of this size; None leaves them as they are."""
    if norm is None:
        return None
    length = math.sqrt(size) if norm == "sqrt" else norm
    if isinstance(length, str) or not length > 0:
        raise SettingsError(f"semantic_norm must be a positive number, 'sqrt' or None; got {norm!r}.")
    return float(length)
