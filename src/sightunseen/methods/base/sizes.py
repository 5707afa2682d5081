"""Scales of data to which penalties and widths are relative, so that defaults suit data of any scale."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_diagonal(square: NDArray[Any]) -> float:
    """Compute the mean diagonal of a square matrix; 1 if it is zero. For a Gram matrix, it is the mean square of a column."""
    return float(np.trace(square)) / len(square) or 1.0


def mean_between(distances: NDArray[Any]) -> float:
    """Compute the mean of pairwise distances (s, s) without the diagonal; 1 if it is zero."""
    return float(distances.sum()) / max(distances.size - len(distances), 1) or 1.0
