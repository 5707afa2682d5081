"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes & Torr, ICML 2015), in closed form."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.core.checks import check_positive
from sightunseen.methods.base.one_pass import OnePassClassifier
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.sizes import mean_diagonal
from sightunseen.methods.base.span import Span
from sightunseen.methods.shared.bilinear import BilinearClassifier


class ESZSL(OnePassClassifier, BilinearClassifier):
    """Embarrassingly simple zero-shot learning (ESZSL): bilinear scores x' V s by regularised least squares, in closed form.

    V minimises ||X V S' - Y||^2 with penalties on X V, V S' and V (Eq. 3), where Y is 1 if the image belongs to the class and
    -1 otherwise. As in the paper, the third penalty is the product of the other two, so that the solution is (Eq. 4)

        V = (X'X + gamma I)^-1 X' Y S (S'S + lambda I)^-1

    Differs from the paper: the penalties are relative to the scale of features and attributes, and features are standardised.

    Parameters
    ----------
    feature_penalty : float, default=3.0
        Gamma, relative to the mean square of a feature times the number of training images.
    semantic_penalty : float, default=0.3
        Lambda, relative to the mean square of an attribute times the number of seen classes.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="standard"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    map_ : ndarray of shape (d, a)
        V.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = ESZSL().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
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

    def _learn(self, scatter: Scatter, span: Span, shared: dict[str, Any]) -> None:
        """Solve Eq. 4; the solution for features is shared between semantic penalties."""
        S = self._vectors_of(self.seen_classes_)  # (s, a)
        key = f"{self.feature_scaling}, {self.semantic_norm}, {self.feature_penalty}"
        if key not in shared:
            shared[key] = _solved_for_features(scatter, span, S, self.feature_penalty)
        right = S.T @ S  # (a, a)
        right = _penalised(right, self.semantic_penalty * mean_diagonal(right))
        self.map_ = span.expand(linalg.solve(right, shared[key].T, assume_a="pos").T)

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        for name in ("feature_penalty", "semantic_penalty"):
            check_positive(name, getattr(self, name))


def _solved_for_features(scatter: Scatter, span: Span, S: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Compute (X'X + gamma I)^-1 X' Y S, of shape (r, a), in coordinates of the span of the images."""
    square = scatter.second_moment()  # (r, r)
    left = _penalised(square, penalty * span.mean_diagonal(square))
    sums = scatter.means * scatter.counts[:, None]  # (s, r); Y is 1 for the images of a class and -1 for all others
    return np.asarray(linalg.solve(left, (2 * sums - sums.sum(axis=0)).T @ S, assume_a="pos"))


def _penalised(square: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Add a penalty to the diagonal of a square matrix, in place."""
    square[np.diag_indices_from(square)] += penalty
    return square
