"""Base class of methods whose fitted state is a fixed list of arrays."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.array_checks import Expected
from sightunseen.methods.base.classifier import ZeroShotClassifier


class ArrayStateClassifier(ZeroShotClassifier):
    """Save and restore the fitted attributes named by ``learned_arrays``.

    Attributes
    ----------
    learned_arrays : mapping of str to Expected
        Shapes of the fitted attributes by name, without the trailing underscore.
    """

    learned_arrays: ClassVar[Mapping[str, Expected]] = {}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, f"{name}_")) for name in self.learned_arrays}

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        return dict(self.learned_arrays)

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in self.learned_arrays:
            setattr(self, f"{name}_", arrays[name])
