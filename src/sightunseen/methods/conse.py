"""CONSE: zero-shot learning by convex combination of semantic embeddings (Norouzi et al., ICLR 2014)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.preprocessing import normalize

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.methods.shared.logistic_regression import softmax_regression


class CONSE(ZeroShotClassifier):
    """An image is described by the vectors of the seen classes it looks like, weighted by how much it does.

    f(x) = 1/Z sum over the T most probable seen classes of p(k | x) s_k (Eq. 3), with Z the sum of these probabilities;
    scores are the cosines of f(x) with the vectors of the candidates (Eq. 4). The paper takes p from a trained network;
    here it is softmax regression on the features.

    Parameters
    ----------
    n_combined : T, at most the number of seen classes.
    penalty : on the weights of the softmax regression; see ``softmax_regression``.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"n_combined": (5, 10), "penalty": (0.01, 0.03, 0.1)}

    map_: NDArray[Any]
    intercepts_: NDArray[Any]

    def __init__(
        self,
        n_combined: int = 5,
        penalty: float = 0.03,
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        seen_penalty: float = 0.0,
    ) -> None:
        self.n_combined = n_combined
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Learn p(k | x) from features (n, d) and labels (n,); the class table holds seen and unseen classes."""
        X, y = self._begin_fit(X, y, classes)
        targets = (y[:, None] == self.seen_classes_).astype(np.float32)  # (n, s)
        self.map_, self.intercepts_ = softmax_regression(X, targets, self.penalty)
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_whole("n_combined", self.n_combined, 1)
        check_number("penalty (more than zero)", self.penalty, np.nextafter(0, 1))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        seen = self._vectors_of(self.seen_classes_)  # (s, a)
        directions = normalize(self._vectors_of(labels)).T  # (a, c)
        # The cosine does not see 1/Z.
        return lambda X: (normalize(self._most_probable(X) @ seen) @ directions).astype(np.float32)

    def _most_probable(self, X: Floats) -> NDArray[np.float64]:
        """p(k | x), (n, s), but zero for all except the T most probable classes of each image."""
        p = softmax(X @ self.map_ + self.intercepts_, axis=1)
        if self.n_combined >= p.shape[1]:
            return np.asarray(p)
        least = np.partition(p, -self.n_combined, axis=1)[:, -self.n_combined, None]  # (n, 1)
        return np.where(p >= least, p, 0)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"map": self.map_, "intercepts": self.intercepts_}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.map_, self.intercepts_ = arrays["map"], arrays["intercepts"]
