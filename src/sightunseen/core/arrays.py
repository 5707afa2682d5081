"""Array types that signatures share."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]  # features, scores and weights
Doubles = NDArray[np.float64]  # what is solved in closed form, and statistics
