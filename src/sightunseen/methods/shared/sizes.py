"""Sizes that penalties and widths are relative to, so that one value serves data of any scale; one where all is zero."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_diagonal(square: NDArray[Any]) -> float:
    """The mean of a square matrix's diagonal: of a Gram matrix, the mean square of a column."""
    return float(np.trace(square)) / len(square) or 1.0


def mean_between(distances: NDArray[Any]) -> float:
    """The mean of distances (s, s), without those of each to itself."""
    return float(distances.sum()) / max(distances.size - len(distances), 1) or 1.0
