"""Scores x' V s: a linear map between features and class vectors, however it was learned."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import Labels
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier


class BilinearClassifier(ZeroShotClassifier):
    """A method fills in ``fit``, which sets ``map_`` (d, a)."""

    map_: NDArray[Any]

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images in the space of class vectors, x' V, and the class vectors: (n, a), (c, a)."""
        images = self._features(X) @ self.map_
        return images.astype(np.float32), self._vectors_of(self.candidates(labels)).astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """One layer: w = V s."""
        return ClassifierMap((Layer(self.map_),))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        classifiers = (self.map_ @ self._vectors_of(labels).T).astype(np.float32)  # (d, c)
        return lambda X: X @ classifiers

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"map": self.map_}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.map_ = arrays["map"]
