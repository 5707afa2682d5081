"""SYNC: synthesized classifiers for zero-shot learning (Changpinyo, Chao, Gong & Sha, CVPR 2016)."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_positive
from sightunseen.core.class_table import Labels, Vectors
from sightunseen.methods.base.sizes import mean_between
from sightunseen.methods.base.span import Span
from sightunseen.methods.shared.array_state import ArrayStateClassifier

LOSSES = ("one-versus-other", "crammer-singer", "structured")
TEMPERATURE = 0.1  # of the smooth maximum, for margins of mean 1
TOLERANCE = 1e-5  # relative, of the objective: about the resolution of single precision
MOST_ITERATIONS = 100

# Maps scores (n, s) to the mean loss over images and its gradient (n, s).
Loss = Callable[[NDArray[Any]], tuple[float, NDArray[Any]]]


class SYNC(ArrayStateClassifier):
    """Synthesized classifiers (SynC): classifiers of all classes are mixtures of the classifiers of phantom classes.

    w_c = sum_r s_cr v_r, where s_c is the softmax over r of -||a_c - b_r||^2 / sigma^2. The vectors of the phantom classes are
    those of the seen classes, b_r = a_r, as in the paper's main results. Their classifiers v minimise the mean loss of the
    training images plus lambda / 2 sum_c ||w_c||^2.

    Differs from the paper: solved with L-BFGS, for which the maximum in the Crammer-Singer and structured losses is smoothed;
    vectors of phantom classes are not learned; ``penalty`` and ``width`` are relative to the scale of the data.

    Parameters
    ----------
    loss : {"one-versus-other", "crammer-singer", "structured"}, default="one-versus-other"
        Squared hinge of each class against the rest, hinge of the best wrong class with margin 1, or the same with the squared
        distance between the two class vectors as margin.
    penalty : float, default=1.0
        Lambda, relative to the mean square of a feature.
    width : float, default=1.5
        Sigma^2, relative to the mean squared distance between two seen classes' vectors.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default=1.0
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
    phantom_vectors_ : ndarray of shape (n_seen, a)
        Vectors b of the phantom classes.
    phantom_classifiers_ : ndarray of shape (n_seen, d)
        Classifiers v of the phantom classes.
    squared_width_ : float
        Sigma^2.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import SYNC
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = SYNC().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"loss": ("one-versus-other", "structured"), "penalty": (0.3, 1.0), "width": (0.7, 1.5)}
    learned_arrays = {"phantom_vectors": Expected("k a"), "phantom_classifiers": Expected("k d"), "squared_width": positive()}

    def __init__(
        self,
        loss: str = "one-versus-other",
        penalty: float = 1.0,
        width: float = 1.5,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.width = width
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit the classifiers of the phantom classes.

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
        """Fit like :meth:`fit`, sharing classifiers between widths; see :meth:`ZeroShotClassifier.fit_sharing`."""
        X, y = self._begin_fit(X, y, classes, shared)
        vectors = self._vectors_of(self.seen_classes_)
        distances = cdist(vectors, vectors, "sqeuclidean")  # (s, s)
        mean = mean_between(distances)
        self.phantom_vectors_, self.squared_width_ = vectors, np.float64(self.width * mean)
        # With one phantom per seen class, w = S v is a change of variables: solve for w, then for v. The rows of a wide
        # softmax are nearly dependent; the pseudo-inverse drops those directions.
        key = f"{self.feature_scaling}, {self.semantic_norm}, {self.loss}, {self.penalty}"
        if key not in shared:
            loss = self._loss(np.searchsorted(self.seen_classes_, y), distances / mean)
            shared[key] = learned_classifiers(X, loss, len(vectors), self.penalty)  # (s, d)
        self.phantom_classifiers_ = linalg.pinv(self._mixtures(vectors)) @ shared[key]
        return self

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_choice("loss", self.loss, LOSSES)
        for name in ("penalty", "width"):
            check_positive(name, getattr(self, name))

    def _loss(self, targets: NDArray[Any], distances: NDArray[np.float64]) -> Loss:
        """Choose the loss for class indices (n,) and distances between classes (s, s) of mean 1."""
        if self.loss == "one-versus-other":
            return one_versus_other(targets, len(distances))
        # Margins have mean 1, so that ``penalty`` has the same meaning for all losses and units of distance.
        return best_wrong_class(targets, distances if self.loss == "structured" else 1.0 - np.eye(len(distances)))

    def _mixtures(self, vectors: Vectors) -> NDArray[np.float64]:
        """Compute the shares (c, r) of the phantom classes for class vectors (c, a)."""
        return np.asarray(softmax(-cdist(vectors, self.phantom_vectors_, "sqeuclidean") / self.squared_width_, axis=1))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        classifiers = (self._mixtures(self._vectors_of(labels)) @ self.phantom_classifiers_).T.astype(np.float32)  # (d, c)
        return lambda X: X @ classifiers


def one_versus_other(targets: NDArray[Any], n_classes: int) -> Loss:
    """Return the loss sum_c max(0, 1 - y_c score_c)^2, where y_c is 1 for the class of the image and -1 for all others.

    Parameters
    ----------
    targets : ndarray of shape (n,)
        Class indices of the images.
    n_classes : int
        Number of classes.

    Returns
    -------
    callable
        Function from scores (n, s) to the mean loss and its gradient (n, s).
    """
    signs = np.where(targets[:, None] == np.arange(n_classes), 1, -1).astype(np.int8)  # (n, s)

    def loss(scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        missing = np.maximum(1 - signs * scores, 0)
        return float(np.vdot(missing, missing)) / len(scores), signs * missing * (-2 / len(scores))

    return loss


def best_wrong_class(targets: NDArray[Any], margins: NDArray[Any], temperature: float = TEMPERATURE) -> Loss:
    """Return the loss max_c(margin_yc + score_c) - score_y, with a smoothed maximum.

    The maximum is replaced by t log sum_c exp(./t), which is larger by at most t log s.

    Parameters
    ----------
    targets : ndarray of shape (n,)
        Class indices of the images.
    margins : ndarray of shape (s, s)
        Margins, zero on the diagonal.
    temperature : float, default=0.1
        Temperature t of the smoothed maximum.

    Returns
    -------
    callable
        Function from scores (n, s) to the mean loss and its gradient (n, s).
    """
    rows = np.arange(len(targets))

    def loss(scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        raised = (scores + margins[targets].astype(scores.dtype)) / temperature
        value = temperature * float(logsumexp(raised, axis=1).sum()) - float(scores[rows, targets].sum())
        gradient = softmax(raised, axis=1)
        gradient[rows, targets] -= 1
        return value / len(scores), gradient / len(scores)

    return loss


def learned_classifiers(X: Floats, loss: Loss, n_classes: int, penalty: float) -> NDArray[np.float64]:
    """Minimise loss(X w') + lambda / 2 ||w||^2 over classifiers w by L-BFGS.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    loss : callable
        Function from scores (n, s) to the mean loss and its gradient.
    n_classes : int
        Number s of classes.
    penalty : float
        Lambda, as for :class:`SYNC`.

    Returns
    -------
    ndarray of shape (s, d)
        Classifiers.
    """
    span = Span.of(X)
    X, (n, r) = span.X, span.X.shape
    square = (X.T @ X).astype(np.float64) / n  # (r, r)
    strength = penalty * span.mean_diagonal(square)
    # Preconditioning: in coordinates u = L'w with LL' = X'X / n + lambda / 2 I, L-BFGS needs few iterations.
    square[np.diag_indices(r)] += strength / 2
    inverse = linalg.solve_triangular(linalg.cholesky(square, lower=True), np.eye(r), lower=True).astype(X.dtype)  # L^-1
    Z = X @ inverse.T  # (n, r)
    ridge = np.float64(strength) * (inverse @ inverse.T)  # (r, r) in double precision; the penalty is u' ridge u / 2

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        u = flat.reshape(r, n_classes).astype(X.dtype)
        value, gradient = loss(Z @ u)
        penalised = ridge @ u
        return value + float(np.vdot(u, penalised)) / 2, (Z.T @ gradient + penalised).astype(np.float64).ravel()

    found = optimize.minimize(
        objective,
        np.zeros(r * n_classes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "ftol": TOLERANCE, "gtol": 0.0},
    )
    classifiers = found.x.reshape(r, n_classes).T @ inverse  # (s, r)
    return np.asarray(span.expand(classifiers.T).T, dtype=np.float64)
