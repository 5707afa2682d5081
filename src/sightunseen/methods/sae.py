"""SAE: semantic autoencoder for zero-shot learning (Kodirov, Xiang & Gong, CVPR 2017), in closed form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.preprocessing import normalize

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_positive
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.linear import ClassifierMap, Layer
from sightunseen.methods.shared.array_state import ArrayStateClassifier
from sightunseen.methods.shared.sizes import mean_diagonal
from sightunseen.methods.shared.span import Span

SPACES = ("semantic", "feature")


class SAE(ArrayStateClassifier):
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
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root"}, default="standard"
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

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Solve Eq. 6.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the training images.
        y : array-like of shape (n,)
            Labels of the training images; their classes are the seen classes.
        classes : ClassTable or mapping of label to vector, default=None
            Vectors of the seen and unseen classes; None stands for one-hot vectors of the seen classes.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors cannot be used.
        """
        return self.fit_sharing({}, X, y, classes)

    def fit_sharing(
        self,
        shared: dict[str, Any],
        X: ArrayLike,
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None = None,
    ) -> Self:
        """Fit like :meth:`fit`, sharing eigenvectors between encoder weights; see :meth:`ZeroShotClassifier.fit_sharing`."""
        X, y = self._begin_fit(X, y, classes)
        key = f"{self.feature_scaling}, {self.semantic_norm}"
        if key not in shared:
            vectors = self._vectors_of(self.seen_classes_)  # (s, a)
            members = (self.seen_classes_[:, None] == y).astype(np.float64)  # (s, n)
            X = X.astype(np.float64)
            # The rows of S are equal within a class, so S'S and S'X follow from counts and sums per class.
            SS = vectors.T @ (members.sum(axis=1)[:, None] * vectors)  # (a, a)
            shared[key] = SylvesterEquation.of(SS, X, vectors.T @ (members @ X))
        self.map_ = shared[key].solve(self.encoder_weight)
        return self

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
    def of(cls, SS: NDArray[np.float64], X: NDArray[np.float64], SX: NDArray[np.float64]) -> Self:
        """Decompose S'S (a, a) and X'X of images X (n, d), for S'X (a, d)."""
        span = Span.of(X)
        XX = span.X.T @ span.X  # (r, r)
        values, axes = linalg.eigh(XX)
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
