"""SYNC: synthesized classifiers for zero-shot learning (Changpinyo, Chao, Gong & Sha, CVPR 2016)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax

from sightunseen.core.checks import check_choice, check_number
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.methods.shared.sizes import mean_between, mean_diagonal

LOSSES = ("one-versus-other", "crammer-singer", "structured")
TEMPERATURE = 0.1  # of the smooth maximum, where a margin is 1
TOLERANCE = 1e-5  # of the objective, relative: single precision carries little more
MOST_ITERATIONS = 100

# Scores (n, s) -> the loss, a mean over images, and its gradient (n, s).
Loss = Callable[[NDArray[Any]], tuple[float, NDArray[Any]]]


class SYNC(ZeroShotClassifier):
    """The classifier of a class is a mixture of those of phantom classes, by nearness of its vector to theirs.

    w_c = sum_r s_cr v_r, with s_c the softmax over r of -||a_c - b_r||^2 / sigma^2. The phantom classes stand
    where the seen classes do, b_r = a_r, as in the paper's main results; their classifiers v minimise the mean loss of the
    seen classes' images plus lambda / 2 sum_c ||w_c||^2.

    Parameters
    ----------
    loss : ``one-versus-other`` (squared hinge of each class against the rest), ``crammer-singer`` (hinge of the best wrong
        class, margin 1) or ``structured`` (margin by the squared distance of the two class vectors).
    penalty : lambda, relative to the mean square of a feature over the training images.
    width : sigma^2, relative to the mean squared distance between two seen classes' vectors.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"loss": ("one-versus-other", "structured"), "penalty": (0.3, 1.0), "width": (0.7, 1.5)}

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

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Learn the phantom classes' classifiers from features (n, d), labels (n,) and the class table."""
        X, y = self._begin_fit(X, y, classes)
        vectors = self._vectors_of(self.seen_classes_)
        distances = cdist(vectors, vectors, "sqeuclidean")  # (s, s)
        mean = mean_between(distances)
        places = np.searchsorted(self.seen_classes_, y)
        if self.loss == "one-versus-other":
            loss = one_versus_other(places, len(vectors))
        else:
            # Another unit of distance is another lambda: with a mean margin of 1 the penalty means the same for both.
            loss = best_wrong_class(places, distances / mean if self.loss == "structured" else 1.0 - np.eye(len(vectors)))
        self.phantom_vectors_, self.squared_width_ = vectors, np.float64(self.width * mean)
        # With as many phantoms as seen classes w = S v is as free as v, and the problem is solved for w. A wide softmax has
        # near-dependent rows, whose directions the pseudo-inverse leaves out.
        classifiers = learned_classifiers(X, loss, len(vectors), self.penalty)  # (s, d)
        self.phantom_classifiers_ = linalg.pinv(self._mixtures(vectors)) @ classifiers
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_choice("loss", self.loss, LOSSES)
        for name in ("penalty", "width"):
            check_number(f"{name} (more than zero)", getattr(self, name), np.nextafter(0, 1))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _mixtures(self, vectors: Vectors) -> NDArray[np.float64]:
        """The shares (c, r) of the phantoms in the classes with these vectors (c, a)."""
        return np.asarray(softmax(-cdist(vectors, self.phantom_vectors_, "sqeuclidean") / self.squared_width_, axis=1))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        classifiers = (self._mixtures(self._vectors_of(labels)) @ self.phantom_classifiers_).T.astype(np.float32)  # (d, c)
        return lambda X: X @ classifiers

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "phantom_vectors": self.phantom_vectors_,
            "phantom_classifiers": self.phantom_classifiers_,
            "squared_width": np.array(self.squared_width_),
        }

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.phantom_vectors_, self.phantom_classifiers_ = arrays["phantom_vectors"], arrays["phantom_classifiers"]
        self.squared_width_ = np.float64(arrays["squared_width"])


def one_versus_other(places: NDArray[Any], n_classes: int) -> Loss:
    """sum_c max(0, 1 - y_c score_c)^2, y_c being 1 for the class of the image and -1 for the others."""
    signs = np.where(places[:, None] == np.arange(n_classes), 1, -1).astype(np.int8)  # (n, s)

    def loss(scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        missing = np.maximum(1 - signs * scores, 0)
        return float(np.vdot(missing, missing)) / len(scores), signs * missing * (-2 / len(scores))

    return loss


def best_wrong_class(places: NDArray[Any], margins: NDArray[Any], temperature: float = TEMPERATURE) -> Loss:
    """max_c(margin_yc + score_c) - score_y, with margins (s, s) that are zero on the diagonal: so it is never negative.

    The maximum is smoothed, t log sum_c exp(./t), for the optimiser to have a gradient everywhere; it is too high by at most
    t log s.
    """
    rows = np.arange(len(places))

    def loss(scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        raised = (scores + margins[places].astype(scores.dtype)) / temperature
        value = temperature * float(logsumexp(raised, axis=1).sum()) - float(scores[rows, places].sum())
        gradient = softmax(raised, axis=1)
        gradient[rows, places] -= 1
        return value / len(scores), gradient / len(scores)

    return loss


def learned_classifiers(X: Floats, loss: Loss, n_classes: int, penalty: float) -> NDArray[np.float64]:
    """The classifiers w (s, d) with the least loss(X w') + lambda / 2 ||w||^2, by L-BFGS; convex."""
    n, d = X.shape
    square = (X.T @ X).astype(np.float64) / n  # (d, d)
    strength = penalty * mean_diagonal(square)
    # In coordinates u = L'w, LL' = X'X / n + lambda / 2 I, the loss is about as curved in every direction: few steps do.
    square[np.diag_indices(d)] += strength / 2
    inverse = linalg.solve_triangular(linalg.cholesky(square, lower=True), np.eye(d), lower=True).astype(X.dtype)  # L^-1
    Z = X @ inverse.T  # (n, d)
    ridge = np.float64(strength) * (inverse @ inverse.T)  # in double precision: (d, d), the penalty is u' ridge u / 2

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        u = flat.reshape(d, n_classes).astype(X.dtype)
        value, gradient = loss(Z @ u)
        penalised = ridge @ u
        return value + float(np.vdot(u, penalised)) / 2, (Z.T @ gradient + penalised).astype(np.float64).ravel()

    found = optimize.minimize(
        objective,
        np.zeros(d * n_classes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "ftol": TOLERANCE, "gtol": 0.0},
    )
    return np.asarray(found.x.reshape(d, n_classes).T @ inverse, dtype=np.float64)
