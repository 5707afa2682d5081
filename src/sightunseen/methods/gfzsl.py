"""GFZSL: a simple exponential family framework for zero-shot learning (Verma & Rai, ECML 2017), with Gaussian classes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import logsumexp, softmax

from sightunseen.core.array_checks import Expected, indices, positive
from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.checks import check_choice, check_number, check_positive, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.moments import AllMoments, normalisations_of
from sightunseen.methods.base.one_pass import OnePassClassifier
from sightunseen.methods.base.sizes import mean_diagonal
from sightunseen.methods.shared.array_state import ArrayStateClassifier

KERNELS = ("linear", "quadratic")
SEEN = ("predicted", "estimated")


class GFZSL(OnePassClassifier, ArrayStateClassifier, AdaptableClassifier):
    """Generative framework (GFZSL): Gaussian classes whose parameters are regressed on class vectors.

    Class c is N(m_c, diag(v_c)). The mean of a seen class is that of its images; its variances are the maximum a posteriori
    estimates v = (n v' + k w) / (n + k) under an inverse gamma prior that counts as k images (``prior_images``) of variance w,
    the mean within-class variance over all features, so that no variance is zero. Ridge regression with the kernel s't or
    (1 + s't)^2 predicts m and log v of any class from its vector, shrunk towards the mean of the seen classes. With the large
    default of ``variance_penalty`` all classes have the same variances. The score is the log density divided by
    the square root of the number of features. :meth:`adapt` runs EM for the mixture of unseen classes, starting from the
    predicted parameters; its hyperparameters are ``steps``, ``mean_images`` and ``variance_images``.

    Differs from the paper: seen classes have predicted parameters by default, as unseen ones do; whether variances differ
    between classes is chosen on validation classes; penalties are relative to the kernel; EM has priors centred on the
    predicted parameters, without which it drifts away from them.

    Parameters
    ----------
    kernel : {"quadratic", "linear"}, default="quadratic"
        Kernel of the regressions; ``"linear"`` is linear regression.
    mean_penalty : float, default=0.1
        Penalty of the regression of the means, relative to the kernel's mean diagonal.
    variance_penalty : float, default=1e6
        Penalty of the regression of the log variances, relative to the kernel's mean diagonal.
    prior_images : float, default=40.0
        Number k of images that the prior of the variances counts as.
    seen : {"predicted", "estimated"}, default="predicted"
        Parameters of seen classes: predicted from their vectors or estimated from their images.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="none"
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
    offset_ : ndarray of shape (2, d)
        Mean of the seen classes' means and log variances.
    weights_ : ndarray of shape (2, n_seen, d)
        Dual coefficients of the two regressions.
    own_classes_ : ndarray of shape (k,)
        Classes with estimated or adapted parameters instead of predicted ones.
    own_means_, own_variances_ : ndarray of shape (k, d)
        Their parameters.
    history_ : list of float
        Objective of EM before and after each step; set by ``adapt``.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import GFZSL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = GFZSL().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    >>> adapted = model.adapt(data.test_unseen.X)
    >>> adapted.is_adapted
    True
    """

    search_space = {
        "mean_penalty": (0.03, 0.1, 0.3, 1.0),
        "variance_penalty": (1.0, 30.0, 1e6),
        "prior_images": (10.0, 40.0),
    }
    adaptation_space = {"mean_images": (1.0, 10.0, 100.0), "variance_images": (10.0, 1e6)}
    in_span, squares_by_class = False, True
    learned_arrays = {
        "offset": Expected("2 d"),
        "weights": Expected("2 s d"),
        "own_means": Expected("k d"),
        "own_variances": positive("k d"),
    }

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

    def _learn_moments(self, moments: AllMoments, shared: dict[str, Any]) -> None:
        """Estimate the parameters of the seen classes and regress them on the class vectors."""
        (sums,) = (moments[name] for name in normalisations_of(self.feature_scaling))
        self.scaling_ = sums.scaling(self.feature_scaling)
        means = sums.means(self.scaling_)
        variances = map_variances(sums.squares(self.scaling_), sums.counts, self.prior_images)  # (s, d) each
        self.offset_ = np.stack([means.mean(axis=0), np.log(variances).mean(axis=0)])  # (2, d)
        vectors = self._vectors_of(self.seen_classes_)
        targets = np.stack([means, np.log(variances)]) - self.offset_[:, None]  # (2, s, d)
        penalties = self.mean_penalty, self.variance_penalty
        kernel = self._kernel(vectors, vectors)  # (s, s)
        self.weights_ = np.stack([_ridge(kernel, penalty, target) for penalty, target in zip(penalties, targets, strict=True)])
        # Classes with estimated or adapted parameters instead of predicted ones.
        self.own_classes_ = self.seen_classes_ if self.seen == "estimated" else self.seen_classes_[:0]
        own = slice(len(self.own_classes_))
        self.own_means_, self.own_variances_ = means[own], variances[own]

    @property
    def needs_seen_images(self) -> bool:
        """Whether ``adapt`` needs images of the seen classes: it does not."""
        return False

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("seen", self.seen, SEEN)
        for name in ("mean_penalty", "variance_penalty", "prior_images"):
            check_positive(name, getattr(self, name))

    def parameters_of(self, labels: ArrayLike) -> tuple[Doubles, Doubles]:
        """Return the parameters of classes.

        Parameters
        ----------
        labels : array-like of shape (c,)
            Labels of the classes.

        Returns
        -------
        means : ndarray of shape (c, d)
            Means.
        variances : ndarray of shape (c, d)
            Variances.
        """
        labels = self.candidates(labels)
        kernel = self._kernel(self._vectors_of(labels), self._vectors_of(self.seen_classes_))  # (c, s)
        means, logarithms = self.offset_[:, None] + kernel @ self.weights_
        variances = np.exp(logarithms)
        own = {label: row for row, label in enumerate(self.own_classes_.tolist())}
        for row, label in enumerate(labels.tolist()):
            if label in own:
                means[row], variances[row] = self.own_means_[own[label]], self.own_variances_[own[label]]
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
        """Run EM on the unlabelled images until it converges.

        The paper's EM has no priors (``mean_images=0`` and a small ``variance_images``). Variances estimated from the few
        images of a class then decide the competition between classes in thousands of dimensions.

        Parameters
        ----------
        steps : int, default=20
            Maximum number of EM steps.
        mean_images : float, default=10.0
            Number of images that the prior of a mean counts as.
        variance_images : float, default=1000000.0
            Number of images that the prior of the variances counts as.
        """
        check_whole("steps", steps, 1)
        check_number("mean_images", mean_images, 0)
        check_positive("variance_images", variance_images)
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
        # Centred on the mean of all classes, so that squares lose no precision.
        centre = self.offset_[0]
        return lambda X: (log_densities(X - centre, means - centre, variances) / np.sqrt(len(centre))).astype(np.float32)

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        if hasattr(self, "own_classes_"):
            kept = np.array([label in table for label in self.own_classes_.tolist()], dtype=bool)
            self.own_classes_, self.own_means_ = self.own_classes_[kept], self.own_means_[kept]
            self.own_variances_ = self.own_variances_[kept]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), "own_rows": self.table_.rows_of(self.own_classes_)}

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        return {**super()._expected_arrays(arrays), "own_rows": indices("k", "c")}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self.own_classes_ = self.table_.labels[arrays["own_rows"]]


class Mixture:
    """Mixture of Gaussians with diagonal covariances and conjugate priors centred on the initial parameters.

    The objective is sum_i log sum_c p_c N(x_i; m_c, v_c), plus log p_c for each class and -1/2 [k (m - m0)^2 / v + h (log v +
    v0 / v)] for each class and feature, where the priors count as k and h images.

    Parameters
    ----------
    means, variances : ndarray of shape (c, d)
        Initial parameters m0 and v0.
    mean_images, variance_images : float
        k and h.
    """

    def __init__(self, means: Doubles, variances: Doubles, mean_images: float, variance_images: float) -> None:
        self.means, self.variances = self.first_means, self.first_variances = means, variances  # (c, d) each
        self.mean_images, self.variance_images = mean_images, variance_images
        self.shares = np.full(len(means), 1 / len(means))  # (c,), p

    def step(self, X: Doubles) -> None:
        """Run one E step and one M step on images (m, d)."""
        of_class = softmax(log_densities(X, self.means, self.variances) + np.log(self.shares), axis=1)  # (m, c)
        images = of_class.sum(axis=0)[:, None]  # (c, 1)
        sums, squares = of_class.T @ X, of_class.T @ X**2  # (c, d) each
        prior, first = self.mean_images, self.first_means
        # A class without images keeps its mean.
        counted = images + prior
        self.means = np.where(counted > 1e-9, (sums + prior * first) / np.maximum(counted, 1e-9), self.means)
        spread = np.maximum(squares - 2 * self.means * sums + images * self.means**2, 0) + prior * (self.means - first) ** 2
        self.variances = (spread + self.variance_images * self.first_variances) / (images + self.variance_images)
        self.shares = (images.ravel() + 1) / (len(X) + len(images))

    def objective(self, X: Doubles) -> float:
        """Compute the objective on images (m, d); a step never lowers it."""
        likelihood = logsumexp(log_densities(X, self.means, self.variances) + np.log(self.shares), axis=1).sum()
        near = self.mean_images * (self.means - self.first_means) ** 2 / self.variances
        spread = self.variance_images * (np.log(self.variances) + self.first_variances / self.variances)
        return float(likelihood - (near + spread).sum() / 2 + np.log(self.shares).sum())


def log_densities(X: NDArray[Any], means: Doubles, variances: Doubles) -> Doubles:
    """Compute log densities under Gaussians with diagonal covariances.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    means, variances : ndarray of shape (c, d)
        Parameters.

    Returns
    -------
    ndarray of shape (n, c)
        Log densities.
    """
    precisions = 1 / variances
    constant = (means**2 * precisions + np.log(2 * np.pi * variances)).sum(axis=1)  # (c,)
    return np.asarray(-(X**2 @ precisions.T - 2 * X @ (means * precisions).T + constant) / 2)


def map_variances(squares: Doubles, counts: Doubles, prior_images: float) -> Doubles:
    """Compute maximum a posteriori estimates of the variances.

    Parameters
    ----------
    squares : ndarray of shape (s, d)
        Sums of squared deviations of the images of a class from its mean.
    counts : ndarray of shape (s,)
        Number of images of each class.
    prior_images : float
        Number of images that the prior of the variances counts as.

    Returns
    -------
    ndarray of shape (s, d)
        The estimates.
    """
    within = squares.sum() / (counts.sum() * squares.shape[1])
    return np.asarray((squares + prior_images * (within if within > 0 else 1.0)) / (counts[:, None] + prior_images))


def _ridge(kernel: Doubles, penalty: float, targets: Doubles) -> Doubles:
    """Compute (K + penalty I)^-1 targets, (s, d), with the penalty relative to the mean diagonal of K."""
    penalised = kernel + penalty * mean_diagonal(kernel) * np.eye(len(kernel))
    return np.asarray(linalg.solve(penalised, targets, assume_a="pos"))
