"""GFZSL: a simple exponential family framework for zero-shot learning (Verma & Rai, ECML 2017), with Gaussian classes."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import logsumexp, softmax

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.shared.sizes import mean_diagonal

Doubles = NDArray[np.float64]

KERNELS = ("linear", "quadratic")
SEEN = ("predicted", "estimated")


class GFZSL(AdaptableClassifier):
    """Class c is a Gaussian N(m_c, diag(v_c)), and regression on class vectors predicts m and log v of any class.

    The score of an image is its log density over the root of the number of features, which keeps scores in range. Means of
    seen classes are those of their images. Variances are maximal a posteriori under an inverse gamma prior that counts as k
    (``prior_images``) images of variance w, the mean variance within classes over all features: v = (n v' + k w) / (n + k),
    which leaves no feature with a variance of zero. Ridge regression with the kernel s't or (1 + s't)^2 then goes from
    vectors to parameters. It shrinks towards the mean of the seen classes, so that with a large ``variance_penalty``, as
    published, all classes have one variance. :meth:`adapt` runs EM for the mixture of the unseen classes, from the
    predicted parameters.

    Parameters
    ----------
    kernel : ``quadratic``, or ``linear`` for linear regression.
    mean_penalty, variance_penalty : of the two regressions, relative to the kernel's mean diagonal.
    prior_images : the weight of the prior of variances.
    seen : whether seen classes have ``predicted`` parameters, as unseen ones do, or those ``estimated`` from their images.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"mean_penalty": (0.03, 0.1, 0.3, 1.0), "prior_images": (10.0, 40.0)}
    adaptation_space = {"mean_images": (1.0, 10.0, 100.0), "variance_images": (10.0, 1e6)}

    def __init__(
        self,
        kernel: str = "quadratic",
        mean_penalty: float = 0.1,
        variance_penalty: float = 1e6,
        prior_images: float = 40.0,
        seen: str = "predicted",
        feature_scaling: str = "none",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.mean_penalty = mean_penalty
        self.variance_penalty = variance_penalty
        self.prior_images = prior_images
        self.seen = seen
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Estimate the seen classes' parameters from features (n, d) and labels (n,), and regress them on their vectors."""
        X, y = self._begin_fit(X, y, classes)
        means, variances = estimates(X, np.searchsorted(self.seen_classes_, y), self.prior_images)  # (s, d) each
        self.offset_ = np.stack([means.mean(axis=0), np.log(variances).mean(axis=0)])  # (2, d)
        vectors = self._vectors_of(self.seen_classes_)
        targets = np.stack([means, np.log(variances)]) - self.offset_[:, None]  # (2, s, d)
        penalties = self.mean_penalty, self.variance_penalty
        kernel = self._kernel(vectors, vectors)  # (s, s)
        self.weights_ = np.stack([_ridge(kernel, penalty, target) for penalty, target in zip(penalties, targets, strict=True)])
        # The classes whose own parameters are used instead of predicted ones.
        self.own_classes_ = self.seen_classes_ if self.seen == "estimated" else self.seen_classes_[:0]
        own = slice(len(self.own_classes_))
        self.own_means_, self.own_variances_ = means[own], variances[own]
        self._remember_images(X, y)
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("seen", self.seen, SEEN)
        for name in ("mean_penalty", "variance_penalty", "prior_images"):
            check_number(f"{name} (more than zero)", getattr(self, name), np.nextafter(0, 1))

    def parameters_of(self, labels: ArrayLike) -> tuple[Doubles, Doubles]:
        """Means and variances of these classes, (c, d) each."""
        labels = self.candidates(labels)
        kernel = self._kernel(self._vectors_of(labels), self._vectors_of(self.seen_classes_))  # (c, s)
        means, logarithms = self.offset_[:, None] + kernel @ self.weights_
        variances = np.exp(logarithms)
        place = {label: row for row, label in enumerate(self.own_classes_.tolist())}
        for row, label in enumerate(labels.tolist()):
            if label in place:
                means[row], variances[row] = self.own_means_[place[label]], self.own_variances_[place[label]]
        return means, variances

    def _adapt(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        *,
        steps: int = 20,
        mean_images: float = 10.0,
        variance_images: float = 1e6,
    ) -> None:
        """At most so many steps of EM, in which the predicted mean and variance count as so many images of the class.

        The paper's EM has no such priors (``mean_images`` of 0, small ``variance_images``); variances learned from the few
        images that a class gets make it win or lose all others in thousands of dimensions.
        """
        check_whole("steps", steps, 1)
        check_number("mean_images", mean_images, 0)
        check_number("variance_images (more than zero)", variance_images, np.nextafter(0, 1))
        images = X.astype(np.float64)
        mixture = Mixture(*self.parameters_of(unseen), mean_images, variance_images)
        self.history_ = [mixture.objective(images)]
        for _ in range(steps):
            mixture.step(images)
            self.history_.append(mixture.objective(images))
            if self.history_[-1] - self.history_[-2] <= 1e-9 * abs(self.history_[-1]):
                break
        kept = ~np.isin(self.own_classes_, unseen)
        self.own_classes_ = np.concatenate([self.own_classes_[kept], unseen])
        self.own_means_ = np.concatenate([self.own_means_[kept], mixture.means])
        self.own_variances_ = np.concatenate([self.own_variances_[kept], mixture.variances])

    def _kernel(self, one: NDArray[Any], other: NDArray[Any]) -> Doubles:
        products = one.astype(np.float64) @ other.astype(np.float64).T
        return products if self.kernel == "linear" else (1 + products) ** 2

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        means, variances = self.parameters_of(labels)
        # Around the mean of all classes: squares of what is left lose no digits.
        centre = self.offset_[0]
        return lambda X: (log_densities(X - centre, means - centre, variances) / np.sqrt(len(centre))).astype(np.float32)

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        if hasattr(self, "own_classes_"):
            kept = np.array([label in table for label in self.own_classes_.tolist()], dtype=bool)
            self.own_classes_, self.own_means_ = self.own_classes_[kept], self.own_means_[kept]
            self.own_variances_ = self.own_variances_[kept]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own = {"own_rows": self.table_.rows_of(self.own_classes_), "own_means": self.own_means_}
        return {"offset": self.offset_, "weights": self.weights_, **own, "own_variances": self.own_variances_}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.offset_, self.weights_ = arrays["offset"], arrays["weights"]
        self.own_classes_ = self.table_.labels[arrays["own_rows"]]
        self.own_means_, self.own_variances_ = arrays["own_means"], arrays["own_variances"]


class Mixture:
    """Gaussians of diagonal covariance, with conjugate priors around the parameters they start from.

    The objective is sum_i log sum_c p_c N(x_i; m_c, v_c), plus, for every class and feature, the logarithm of the prior,
    -1/2 [k (m - m0)^2 / v + h (log v + v0 / v)], and log p_c; k and h are the images the priors count as.
    """

    def __init__(self, means: Doubles, variances: Doubles, mean_images: float, variance_images: float) -> None:
        self.means, self.variances = self.first_means, self.first_variances = means, variances  # (c, d) each
        self.mean_images, self.variance_images = mean_images, variance_images
        self.shares = np.full(len(means), 1 / len(means))  # (c,), p

    def step(self, X: Doubles) -> None:
        """One E and one M step on images (m, d)."""
        of_class = softmax(log_densities(X, self.means, self.variances) + np.log(self.shares), axis=1)  # (m, c)
        images = of_class.sum(axis=0)[:, None]  # (c, 1)
        sums, squares = of_class.T @ X, of_class.T @ X**2  # (c, d) each
        prior, first = self.mean_images, self.first_means
        # A class that no image is of stays where it is, prior or none.
        counted = images + prior
        self.means = np.where(counted > 1e-9, (sums + prior * first) / np.maximum(counted, 1e-9), self.means)
        spread = np.maximum(squares - 2 * self.means * sums + images * self.means**2, 0) + prior * (self.means - first) ** 2
        self.variances = (spread + self.variance_images * self.first_variances) / (images + self.variance_images)
        self.shares = (images.ravel() + 1) / (len(X) + len(images))

    def objective(self, X: Doubles) -> float:
        """What a step raises."""
        likelihood = logsumexp(log_densities(X, self.means, self.variances) + np.log(self.shares), axis=1).sum()
        near = self.mean_images * (self.means - self.first_means) ** 2 / self.variances
        spread = self.variance_images * (np.log(self.variances) + self.first_variances / self.variances)
        return float(likelihood - (near + spread).sum() / 2 + np.log(self.shares).sum())


def log_densities(X: NDArray[Any], means: Doubles, variances: Doubles) -> Doubles:
    """Log densities (n, c) of features (n, d) under Gaussians of diagonal covariance, (c, d)."""
    precisions = 1 / variances
    constant = (means**2 * precisions + np.log(2 * np.pi * variances)).sum(axis=1)  # (c,)
    return np.asarray(-(X**2 @ precisions.T - 2 * X @ (means * precisions).T + constant) / 2)


def estimates(X: Floats, places: NDArray[np.int64], prior_images: float) -> tuple[Doubles, Doubles]:
    """Means and MAP variances (s, d) of features (n, d) whose classes stand at ``places`` (n,) from 0 to s - 1."""
    counts = np.bincount(places)[:, None]  # (s, 1)
    belongs = (places == np.arange(len(counts))[:, None]).astype(np.float64)  # (s, n)
    means = belongs @ X / counts
    squares = belongs @ (X - means[places]) ** 2
    within = squares.sum() / X.size
    return means, (squares + prior_images * (within if within > 0 else 1.0)) / (counts + prior_images)


def _ridge(kernel: Doubles, penalty: float, targets: Doubles) -> Doubles:
    """(K + penalty I)^-1 targets, (s, d); the penalty relative to the mean diagonal of K."""
    penalised = kernel + penalty * mean_diagonal(kernel) * np.eye(len(kernel))
    return np.asarray(linalg.solve(penalised, targets, assume_a="pos"))
