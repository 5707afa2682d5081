"""Randomness is an argument: every random choice has a name, and its seed follows from one number and that name."""

import hashlib

import numpy as np


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
