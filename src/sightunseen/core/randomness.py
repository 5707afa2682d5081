"""Randomness is an argument: every random choice has a name, and its seed follows from one number and that name."""

import hashlib
from typing import Any

import numpy as np

# SplitMix64 (Steele, Lea & Flood 2014), its constants written as the signed numbers that torch and numpy count in.
GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - (1 << 64)
SECOND_FACTOR = 0x94D049BB133111EB - (1 << 64)


def derive_seed(seed: int, *names: object) -> int:
    """A 63-bit seed for the choice called ``names``, independent of every other name.

    >>> derive_seed(0, "tasks", 3) == derive_seed(0, "tasks", 3)
    True
    >>> derive_seed(0, "tasks", 3) == derive_seed(0, "tasks", 4)
    False
    """
    # Escaped, so that ("a/b",) and ("a", "b") are different names.
    parts = [str(name).replace("\\", "\\\\").replace("/", "\\/") for name in (seed, *names)]
    text = "/".join(parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def as_generator(seed: int) -> np.random.Generator:
    """The numpy generator of a seed."""
    return np.random.default_rng(seed)


def splitmix(seed: int, places: Any) -> Any:
    """The numbers of a stream at these places, any of them without those before: integers below 2**63.

    ``places`` is an int64 array of numpy or torch, on any device; the same places hold the same numbers everywhere.
    """
    z = seed + (places + 1) * GAMMA
    z = (z ^ _shifted(z, 30)) * FIRST_FACTOR
    z = (z ^ _shifted(z, 27)) * SECOND_FACTOR
    return _shifted(z ^ _shifted(z, 31), 1)  # the highest 63 bits, so that no number is negative


def _shifted(z: Any, bits: int) -> Any:
    """Shift to the right and fill with zeros; the operator alone would fill with the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
