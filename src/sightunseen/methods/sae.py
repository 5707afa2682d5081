"""SAE: semantic autoencoder for zero-shot learning (Kodirov, Xiang & Gong, CVPR 2017), in closed form."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.preprocessing import normalize

from sightunseen.core.checks import check_choice, check_number
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.methods.shared.sizes import mean_diagonal

SPACES = ("semantic", "feature")


class SAE(ZeroShotClassifier):
    """One linear map W encodes images as the vectors of their classes, and its transpose decodes those again.

    It minimises ||X - S W||^2 + lambda ||X W' - S||^2 (Eq. 4), rows being images and the vectors of their classes, which a
    Sylvester equation solves: (S'S) W + W (lambda X'X) = (1 + lambda) S'X (Eq. 6). Scores are cosines, between encoded images
    and class vectors or between images and decoded class vectors.

    Parameters
    ----------
    encoder_weight : lambda, relative to the mean square of an attribute over that of a feature.
    space : where images and classes are compared, ``semantic`` (the paper's F to S) or ``feature`` (S to F).
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"encoder_weight": (0.01, 0.1, 1.0, 10.0), "space": SPACES}

    map_: NDArray[np.float64]

    def __init__(
        self,
        encoder_weight: float = 0.1,
        space: str = "feature",
        feature_scaling: str = "standard",
        semantic_norm: float | str | None = "sqrt",
        seen_penalty: float = 0.0,
    ) -> None:
        self.encoder_weight = encoder_weight
        self.space = space
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Solve Eq. 6 for features (n, d), labels (n,) and the class table of seen and unseen classes."""
        X, y = self._begin_fit(X, y, classes)
        vectors = self._vectors_of(self.seen_classes_)  # (s, a)
        members = (self.seen_classes_[:, None] == y).astype(np.float64)  # (s, n)
        X = X.astype(np.float64)
        # S has one row an image and the same for all images of a class, so sums over the images of each class are enough.
        SS = vectors.T @ (members.sum(axis=1)[:, None] * vectors)  # (a, a)
        SX = vectors.T @ (members @ X)  # (a, d)
        self.map_ = solve_autoencoder(SS, X.T @ X, SX, self.encoder_weight)
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_number("encoder_weight (more than zero)", self.encoder_weight, np.nextafter(0, 1))
        check_choice("space", self.space, SPACES)

    def classifier_map(self) -> ClassifierMap:
        """One layer, the decoder; where images are encoded, their lengths are not those of the features."""
        return ClassifierMap((Layer(self.map_.T),), "cosine") if self.space == "feature" else super().classifier_map()

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        vectors = self._vectors_of(labels)
        if self.space == "feature":
            decoded = normalize(vectors @ self.map_).T.astype(np.float32)  # (d, c)
            return lambda X: normalize(X) @ decoded
        encoder, described = self.map_.T.astype(np.float32), normalize(vectors).T.astype(np.float32)  # (d, a), (a, c)
        return lambda X: normalize(X @ encoder) @ described

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"map": self.map_}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.map_ = arrays["map"]


def solve_autoencoder(
    SS: NDArray[np.float64],
    XX: NDArray[np.float64],
    SX: NDArray[np.float64],
    encoder_weight: float,
) -> NDArray[np.float64]:
    """W (a, d) of Eq. 6 from S'S (a, a), X'X (d, d) and S'X (a, d).

    Both sides are symmetric, so in their eigenvectors the equation is one division an entry. Where neither the images nor
    the class vectors vary, any entry would do, and it is zero.
    """
    weight = encoder_weight * mean_diagonal(SS) / mean_diagonal(XX)
    semantic_values, semantic_axes = linalg.eigh(SS)
    feature_values, feature_axes = linalg.eigh(XX)
    divisors = semantic_values[:, None] + weight * feature_values  # (a, d)
    kept = divisors > divisors.max() * np.finfo(np.float64).eps * len(XX)
    turned = (1 + weight) * semantic_axes.T @ SX @ feature_axes
    solved = np.divide(turned, divisors, out=np.zeros_like(turned), where=kept)
    return np.asarray(semantic_axes @ solved @ feature_axes.T)
