"""CONSE: zero-shot learning by convex combination of semantic embeddings (Norouzi et al., ICLR 2014)."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.preprocessing import normalize

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_positive, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.methods.shared.array_state import ArrayStateClassifier
from sightunseen.methods.shared.logistic_regression import softmax_regression


class CONSE(ArrayStateClassifier):
    """Convex combination of semantic embeddings (ConSE): an image is a weighted mean of the vectors of seen classes.

    f(x) = 1/Z sum of p(k | x) s_k over the T most probable seen classes k (Eq. 3), where Z is the sum of their probabilities.
    The scores are the cosines between f(x) and the vectors of the candidates (Eq. 4).

    Differs from the paper: p(k | x) is softmax regression on standardised features, solved with L-BFGS, instead of a trained
    network.

    Parameters
    ----------
    n_combined : int, default=5
        Number T of seen classes that are combined; at most all of them.
    penalty : float, default=0.03
        Penalty on the weights of the softmax regression; see
        :func:`~sightunseen.methods.shared.logistic_regression.softmax_regression`.
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
    map_ : ndarray of shape (d, n_seen)
        Weights of the softmax regression.
    intercepts_ : ndarray of shape (n_seen,)
        Intercepts of the softmax regression.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import CONSE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = CONSE().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"n_combined": (5, 10), "penalty": (0.01, 0.03, 0.1)}
    learned_arrays = {"map": Expected("d s"), "intercepts": Expected("s")}

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

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit the softmax regression p(k | x).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the training images.
        y : array-like of shape (n,)
            Labels of the training images; their classes are the seen classes.
        classes : ClassTable, mapping of label to vector or text, DataFrame or array-like, default=None
            Seen and unseen classes, in any form of :func:`~sightunseen.as_class_table`. None: one-hot vectors of the labels;
            then no unseen class can be recognised.

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
        classes: Any = None,
    ) -> Self:
        """Fit like :meth:`fit`, sharing the regression of each penalty; see :meth:`ZeroShotClassifier.fit_sharing`."""
        X, y = self._begin_fit(X, y, classes, shared)
        key = f"{self.feature_scaling}, {self.penalty}"
        if key not in shared:
            targets = (y[:, None] == self.seen_classes_).astype(np.float32)  # (n, s)
            shared[key] = softmax_regression(X, targets, self.penalty)
        self.map_, self.intercepts_ = shared[key]
        return self

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("n_combined", self.n_combined, 1)
        check_positive("penalty", self.penalty)

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        seen = self._vectors_of(self.seen_classes_)  # (s, a)
        directions = normalize(self._vectors_of(labels)).T  # (a, c)
        # The cosine does not depend on 1/Z.
        return lambda X: (normalize(self._most_probable(X) @ seen) @ directions).astype(np.float32)

    def _most_probable(self, X: Floats) -> NDArray[np.float64]:
        """Compute p(k | x), (n, s), set to zero for all but the T most probable classes of each image."""
        p = softmax(X @ self.map_ + self.intercepts_, axis=1)
        if self.n_combined >= p.shape[1]:
            return np.asarray(p)
        least = np.partition(p, -self.n_combined, axis=1)[:, -self.n_combined, None]  # (n, 1)
        return np.where(p >= least, p, 0)
