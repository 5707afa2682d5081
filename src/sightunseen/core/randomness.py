"""Reproducible randomness: every random choice has a name, and its seed is derived from one seed and that name."""

import hashlib
from typing import Any

import numpy as np

# Constants of SplitMix64 (Steele, Lea & Flood, 2014), as the signed 64-bit integers of torch and numpy.
GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - (1 << 64)
SECOND_FACTOR = 0x94D049BB133111EB - (1 << 64)


def derive_seed(seed: int, *names: object) -> int:
    """Derive the seed of a named random choice.

    Parameters
    ----------
    seed : int
        Seed of the run.
    *names : object
        Name of the choice, such as ``"held out", 3``.

    Returns
    -------
    int
        A 63-bit seed; different names give independent seeds.

    Examples
    --------
    >>> derive_seed(0, "episodes", 3) == derive_seed(0, "episodes", 3)
    True
    >>> derive_seed(0, "episodes", 3) == derive_seed(0, "episodes", 4)
    False
    """
    # Slashes are escaped, so that ("a/b",) and ("a", "b") are different names.
    parts = [str(name).replace("\\", "\\\\").replace("/", "\\/") for name in (seed, *names)]
    text = "/".join(parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def as_generator(seed: int) -> np.random.Generator:
    """Make a numpy random generator.

    Parameters
    ----------
    seed : int
        Its seed.

    Returns
    -------
    numpy.random.Generator
        The generator.
    """
    return np.random.default_rng(seed)


def splitmix(seed: int, positions: Any) -> Any:
    """Random integers at given positions of the SplitMix64 stream of a seed.

    The generator is counter-based: a number depends on the seed and its position alone, so no earlier number has to be drawn.
    Numpy and torch give the same numbers on every device.

    Parameters
    ----------
    seed : int
        Seed of the stream.
    positions : numpy or torch array of int64
        Positions in the stream, from 0.

    Returns
    -------
    array of int64, of the same kind and shape
        Integers from 0 to 2**63 - 1.
    """
    z = seed + (positions + 1) * GAMMA
    z = (z ^ _shifted(z, 30)) * FIRST_FACTOR
    z = (z ^ _shifted(z, 27)) * SECOND_FACTOR
    return _shifted(z ^ _shifted(z, 31), 1)  # the upper 63 bits: never negative


def _shifted(z: Any, bits: int) -> Any:
    """Logical shift to the right; ``>>`` alone is arithmetic and fills with the sign bit."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
