"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes & Torr, ICML 2015), in closed form."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from sightunseen.core.checks import check_number
from sightunseen.core.class_table import ClassTable
from sightunseen.methods.shared.bilinear import BilinearClassifier
from sightunseen.methods.shared.sizes import mean_diagonal


class ESZSL(BilinearClassifier):
    """Scores x' V s by least squares: V minimises ||X V S' - Y||^2 with penalties on X V, V S' and V (Eq. 3).

    Y is 1 where an image is of the class and -1 elsewhere. The third penalty is the product of the other two, as in the
    paper, which makes the solution (Eq. 4): V = (X'X + gamma I)^-1 X' Y S (S'S + lambda I)^-1.

    Parameters
    ----------
    feature_penalty : gamma, relative to the mean square of a feature over the training images (times their number).
    semantic_penalty : lambda, relative to the mean square of an attribute over the seen classes (times their number).
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"feature_penalty": (1.0, 3.0, 10.0), "semantic_penalty": (0.3, 1.0, 3.0)}

    def __init__(
        self,
        feature_penalty: float = 3.0,
        semantic_penalty: float = 0.3,
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        seen_penalty: float = 0.0,
    ) -> None:
        self.feature_penalty = feature_penalty
        self.semantic_penalty = semantic_penalty
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Solve Eq. 4 for features (n, d), labels (n,) and the class table of seen and unseen classes."""
        X, y = self._begin_fit(X, y, classes)
        S = self._vectors_of(self.seen_classes_)  # (s, a)
        Y = np.where(y[:, None] == self.seen_classes_, 1.0, -1.0)  # (n, s)
        X = X.astype(np.float64)
        left = _penalised(X.T @ X, self.feature_penalty)  # (d, d)
        right = _penalised(S.T @ S, self.semantic_penalty)  # (a, a)
        half = linalg.solve(left, X.T @ Y @ S, assume_a="pos")  # (d, a)
        self.map_ = linalg.solve(right, half.T, assume_a="pos").T
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        for name in ("feature_penalty", "semantic_penalty"):
            check_number(f"{name} (more than zero)", getattr(self, name), np.nextafter(0, 1))


def _penalised(square: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """The matrix plus the penalty times its mean diagonal, on the diagonal."""
    square[np.diag_indices_from(square)] += penalty * mean_diagonal(square)
    return square
