"""Base class of methods with bilinear scores x' V s that are fitted in closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.shared.array_state import ArrayStateClassifier


class BilinearClassifier(ArrayStateClassifier):
    """Classifier with scores x' V s. A subclass implements ``fit``, which sets ``map_``.

    Attributes
    ----------
    map_ : ndarray of shape (d, a)
        V.
    """

    learned_arrays = {"map": Expected("d a")}

    map_: NDArray[Any]

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return the joint embedding space: images x' V and class vectors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of labels, {"all", "seen", "unseen"} or None
            The classes; None stands for all.

        Returns
        -------
        images : ndarray of shape (n, a)
            Projected images.
        classes : ndarray of shape (c, a)
            Scaled class vectors.
        """
        images = self._features(X) @ self.map_
        return images.astype(np.float32), self._vectors_of(self.candidates(labels)).astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """Return one layer, w = V s."""
        return ClassifierMap((Layer(self.map_),))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        classifiers = (self.map_ @ self._vectors_of(labels).T).astype(np.float32)  # (d, c)
        return lambda X: X @ classifiers
