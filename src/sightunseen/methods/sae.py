"""SAE: semantic autoencoder for zero-shot learning (Kodirov, Xiang & Gong, CVPR 2017), in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.preprocessing import normalize

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_positive
from sightunseen.core.class_table import Labels
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.base.one_pass import OnePassClassifier
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.sizes import mean_diagonal
from sightunseen.methods.base.span import Span
from sightunseen.methods.shared.array_state import ArrayStateClassifier

SPACES = ("semantic", "feature")


class SAE(OnePassClassifier, ArrayStateClassifier):
    """Semantic autoencoder (SAE): a linear encoder of images into class vectors, whose transpose decodes, in closed form.

    W minimises ||X - S W||^2 + lambda ||X W' - S||^2 (Eq. 4), where the rows of X and S are images and the vectors of their
    classes. It solves the Sylvester equation (S'S) W + W (lambda X'X) = (1 + lambda) S'X (Eq. 6). Scores are cosines, between
    encoded images and class vectors or between images and decoded class vectors.

    Differs from the paper: lambda is relative to the scale of the data, and by default features are standardised and compared
    in feature space, which validation classes prefer. Raw features in semantic space reproduce the published accuracy, which is
    lower.

    Parameters
    ----------
    encoder_weight : float, default=0.1
        Lambda, relative to the mean square of an attribute divided by that of a feature.
    space : {"feature", "semantic"}, default="feature"
        Space of the comparison: ``"semantic"`` is the paper's F to S, ``"feature"`` its S to F.
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
    map_ : ndarray of shape (a, d)
        W.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import SAE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = SAE().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"encoder_weight": (0.01, 0.1, 1.0, 10.0), "space": SPACES}
    learned_arrays = {"map": Expected("a d")}

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

    def _learn(self, scatter: Scatter, span: Span, shared: dict[str, Any]) -> None:
        """Solve Eq. 6; eigenvectors are shared between encoder weights."""
        key = f"{self.feature_scaling}, {self.semantic_norm}"
        if key not in shared:
            shared[key] = SylvesterEquation.of(self._vectors_of(self.seen_classes_), scatter, span)
        self.map_ = shared[key].solve(self.encoder_weight)

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_positive("encoder_weight", self.encoder_weight)
        check_choice("space", self.space, SPACES)

    def classifier_map(self) -> ClassifierMap:
        """Return the decoder as one layer.

        Raises
        ------
        SettingsError
            If ``space="semantic"``: scores are then not a linear function of the features.
        """
        return ClassifierMap((Layer(self.map_.T),), "cosine") if self.space == "feature" else super().classifier_map()

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        vectors = self._vectors_of(labels)
        if self.space == "feature":
            decoded = normalize(vectors @ self.map_).T.astype(np.float32)  # (d, c)
            return lambda X: normalize(X) @ decoded
        encoder, described = self.map_.T.astype(np.float32), normalize(vectors).T.astype(np.float32)  # (d, a), (a, c)
        return lambda X: normalize(X @ encoder) @ described


@dataclass(frozen=True)
class SylvesterEquation:
    """Eq. 6 in the eigenbases of S'S and X'X, where each entry of the solution is one division.

    Eigenvectors of X'X that are orthogonal to all images may be left out: the right-hand side of the equation, and so the
    solution, is zero there.

    Parameters
    ----------
    SX : ndarray of shape (a, d)
        S'X.
    semantic_values : ndarray of shape (a,)
        Eigenvalues of S'S.
    semantic_axes : ndarray of shape (a, a)
        Eigenvectors of S'S.
    semantic_size : float
        Mean diagonal of S'S.
    feature_values : ndarray of shape (r,)
        Eigenvalues of X'X, at least all that are not zero.
    feature_axes : ndarray of shape (d, r)
        Their eigenvectors.
    feature_size : float
        Mean diagonal of X'X.
    """

    SX: NDArray[np.float64]
    semantic_values: NDArray[np.float64]
    semantic_axes: NDArray[np.float64]
    semantic_size: float
    feature_values: NDArray[np.float64]
    feature_axes: NDArray[np.float64]
    feature_size: float

    @classmethod
    def of(cls, vectors: NDArray[np.float64], scatter: Scatter, span: Span) -> Self:
        """Decompose S'S (a, a) and X'X (r, r), for class vectors (s, a) and the scatter of images in coordinates of a span.

        The rows of S are equal within a class, so S'S and S'X follow from counts and means of the classes.
        """
        weighted = vectors * scatter.counts[:, None]  # (s, a)
        SS, XX = vectors.T @ weighted, scatter.second_moment()
        SX = span.expand((weighted.T @ scatter.means).T).T  # (a, d)
        values, axes = linalg.eigh(XX)
        values = np.maximum(values, 0)  # rounding makes eigenvalues near zero negative
        return cls(SX, *linalg.eigh(SS), mean_diagonal(SS), values, span.expand(axes), span.mean_diagonal(XX))

    def solve(self, encoder_weight: float) -> NDArray[np.float64]:
        """Solve the equation.

        Entries whose divisor is zero are undetermined and set to zero.

        Parameters
        ----------
        encoder_weight : float
            Lambda, as for :class:`SAE`.

        Returns
        -------
        ndarray of shape (a, d)
            W.
        """
        weight = encoder_weight * self.semantic_size / self.feature_size
        divisors = self.semantic_values[:, None] + weight * self.feature_values  # (a, r)
        kept = divisors > divisors.max() * np.finfo(np.float64).eps * self.SX.shape[1]
        turned = (1 + weight) * self.semantic_axes.T @ self.SX @ self.feature_axes
        solved = np.divide(turned, divisors, out=np.zeros_like(turned), where=kept)
        return np.asarray(self.semantic_axes @ solved @ self.feature_axes.T)
