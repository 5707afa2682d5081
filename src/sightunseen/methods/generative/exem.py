"""EXEM: predicting visual exemplars of unseen classes for zero-shot learning (Changpinyo, Chao & Sha, ICCV 2017)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import NuSVR

from sightunseen.core.array_checks import Expected, positive
from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.checks import check_choice, check_number, check_positive, check_whole
from sightunseen.core.class_table import Labels, Vectors
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.scatter import memberships, weighted_means
from sightunseen.methods.base.sizes import mean_between
from sightunseen.methods.base.span import Span
from sightunseen.methods.shared.array_state import ArrayStateClassifier

DISTANCES = ("standardised", "euclidean")
LEAST_VARIANCE = 1e-9  # of a principal component, relative to the first; less is rounding error
LEAST_DEVIATION = 1e-3  # of a component within classes, relative to the root mean square of all projected features
LEAST_SIZE = 1e-6  # of the exemplars' spread along a component, relative to all components; less is predicted by its mean
MOST_ITERATIONS = 100_000  # of one support vector regression; a few thousand are usual


class EXEM(ArrayStateClassifier):
    """Visual exemplars (EXEM): support vector regression predicts class means in PCA space, the nearest one wins.

    Features are projected onto their first principal components. The exemplar v_c of a seen class is the mean of its images
    there. For each component, nu-support vector regression with the kernel exp(-gamma ||s - t||^2) of class vectors predicts
    the exemplar of any class (Eq. 4). The score is the negative distance of an image to the predicted exemplar: Euclidean
    (1NN), or with each component divided by its mean standard deviation within the seen classes (1NNs). Seen classes have
    predicted exemplars, too.

    Differs from the paper: ``C`` and ``gamma`` are relative to the scale of exemplars and class vectors, and fewer values of
    them are compared.

    Parameters
    ----------
    n_components : int, default=500
        Number of principal components; all of them if there are fewer.
    C : float, default=0.3
        Bound of the dual coefficients, relative to the root mean square distance of exemplars from their mean.
    nu : float, default=0.5
        Share of seen classes that are support vectors at least, at most 1.
    gamma : float, default=1.0
        Factor of squared distances in the kernel, relative to their inverse mean between two seen classes' vectors.
    distance : {"standardised", "euclidean"}, default="standardised"
        Distance of images and exemplars: the paper's 1NNs and 1NN.
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
    centre_ : ndarray of shape (d,)
        Mean of the training images.
    components_ : ndarray of shape (d, k)
        Principal components.
    deviations_ : ndarray of shape (k,)
        Mean standard deviation of each component within the seen classes.
    weights_ : ndarray of shape (n_seen, k)
        Dual coefficients of the regressions.
    intercepts_ : ndarray of shape (k,)
        Intercepts of the regressions.
    squared_width_ : float
        Mean squared distance between two seen classes' vectors.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import EXEM
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = EXEM().fit(data.train.X, data.train.y, data.classes)
    >>> model.exemplars(["thing 000", "thing 001"]).shape
    (2, 12)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"C": (0.3, 1.0), "nu": (0.2, 0.5), "gamma": (0.5, 1.0, 2.0), "distance": DISTANCES}
    learned_arrays = {
        "centre": Expected("v"),
        "components": Expected("v k"),
        "deviations": positive("k"),
        "weights": Expected("s k"),
        "intercepts": Expected("k"),
        "squared_width": positive(),
    }

    def __init__(
        self,
        n_components: int = 500,
        C: float = 0.3,
        nu: float = 0.5,
        gamma: float = 1.0,
        distance: str = "standardised",
        feature_scaling: str = "none",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.nu = nu
        self.gamma = gamma
        self.distance = distance
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit the projection and the regressions.

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

    def fit_sharing(self, shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit like :meth:`fit`, sharing projections and regressions; see :meth:`ZeroShotClassifier.fit_sharing`."""
        X, y = self._begin_fit(X, y, classes, shared)
        space = f"{self.feature_scaling}, {self.n_components}"
        if space not in shared:
            shared[space] = PrincipalComponents.of(X, np.searchsorted(self.seen_classes_, y), self.n_components)
        projection: PrincipalComponents = shared[space]
        vectors = self._vectors_of(self.seen_classes_)
        self.squared_width_ = np.float64(mean_between(cdist(vectors, vectors, "sqeuclidean")))
        regression = f"{space}, {self.semantic_norm}, {self.C}, {self.nu}, {self.gamma}"
        if regression not in shared:
            shared[regression] = regressed(self._kernel(vectors), projection.exemplars, self.C, self.nu)
        self.weights_, self.intercepts_ = shared[regression]
        self.centre_, self.components_, self.deviations_ = projection.centre, projection.components, projection.deviations
        return self

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("n_components", self.n_components, 1, SIZE)
        for name in ("C", "gamma"):
            check_positive(name, getattr(self, name))
        check_positive("nu", self.nu)
        check_number("nu", self.nu, 0, most=1)
        check_choice("distance", self.distance, DISTANCES)

    def exemplars(self, labels: ArrayLike | str | None = None) -> Doubles:
        """Predict the exemplars of classes.

        Parameters
        ----------
        labels : array-like of labels, {"all", "seen", "unseen"} or None, default=None
            The classes; None stands for all.

        Returns
        -------
        ndarray of shape (c, k)
            Exemplars in PCA space, k principal components.
        """
        kernel = self._kernel(self._vectors_of(self.candidates(labels)))  # (c, s)
        return np.asarray(kernel @ self.weights_ + self.intercepts_)

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return the joint embedding space: projected images and predicted exemplars, scaled as for the distance.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of labels, {"all", "seen", "unseen"} or None
            The classes; None stands for all.

        Returns
        -------
        images : ndarray of shape (n, k)
            Projected images.
        classes : ndarray of shape (c, k)
            Predicted exemplars.
        """
        units = self._units()
        images = (self._features(X) - self.centre_) @ (self.components_ / units)
        return images.astype(np.float32), (self.exemplars(labels) / units).astype(np.float32)

    def _units(self) -> Doubles:
        """Units (k,) of the components in the distance."""
        return self.deviations_ if self.distance == "standardised" else np.ones_like(self.deviations_)

    def _kernel(self, vectors: Vectors) -> Doubles:
        """Compute the kernel (c, s) of class vectors (c, a) and those of the seen classes."""
        distances = cdist(vectors, self._vectors_of(self.seen_classes_), "sqeuclidean")
        return np.asarray(np.exp(-self.gamma * distances / self.squared_width_))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        units = self._units()
        exemplars, components = self.exemplars(labels) / units, self.components_ / units
        squares = (exemplars**2).sum(axis=1)  # (c,)

        def scores(X: Floats) -> Floats:
            images = (X - self.centre_) @ components  # (n, k), in double precision
            squared = (images**2).sum(axis=1)[:, None] - 2 * images @ exemplars.T + squares
            return np.asarray(-np.sqrt(np.maximum(squared, 0)), dtype=np.float32)

        return scores


@dataclass(frozen=True)
class PrincipalComponents:
    """Principal components, and the seen classes in their space.

    Parameters
    ----------
    centre : ndarray of shape (d,)
        Mean of the images.
    components : ndarray of shape (d, k)
        Principal components, by descending variance.
    exemplars : ndarray of shape (s, k)
        Class means of the projected images.
    deviations : ndarray of shape (k,)
        Standard deviation of each component within a class, averaged over the classes with at least two images.
    """

    centre: Doubles
    components: Doubles
    exemplars: Doubles
    deviations: Doubles

    @classmethod
    def of(cls, X: Floats, targets: NDArray[Any], n_components: int) -> "PrincipalComponents":
        """Fit the projection to features (n, d) with class indices (n,)."""
        centre = X.mean(axis=0, dtype=np.float64)
        span = Span.of(X - centre)
        variances, basis = linalg.eigh(span.X.T @ span.X)
        used = np.arange(len(variances))[::-1][:n_components]
        used = used[variances[used] > LEAST_VARIANCE * variances[-1]] if variances[-1] > 0 else used[:1]
        images = span.X @ basis[:, used]  # (n, k)
        belongs = memberships(targets, int(targets.max()) + 1)
        exemplars, counts = weighted_means(images, belongs)
        squares, _ = weighted_means((images - exemplars[targets]) ** 2, belongs)
        several = counts > 1
        unbiased = squares[several] * (counts / np.maximum(counts - 1, 1))[several, None]
        deviations = np.sqrt(unbiased).mean(axis=0) if several.any() else np.zeros(len(used))
        least = LEAST_DEVIATION * float(np.sqrt((images**2).mean())) or 1.0
        return cls(centre, span.expand(basis[:, used]), exemplars, np.maximum(deviations, least))


def regressed(kernel: Doubles, targets: Doubles, C: float, nu: float) -> tuple[Doubles, Doubles]:
    """Fit a nu-support vector regression to each column of the targets.

    Parameters
    ----------
    kernel : ndarray of shape (s, s)
        Kernel of the classes.
    targets : ndarray of shape (s, k)
        Targets.
    C : float
        Bound of the dual coefficients, relative to the root mean square distance of the targets from their mean.
    nu : float
        Nu.

    Returns
    -------
    weights : ndarray of shape (s, k)
        Dual coefficients.
    intercepts : ndarray of shape (k,)
        Intercepts.
    """
    weights, intercepts = np.zeros(targets.shape), targets.mean(axis=0)
    centred = targets - intercepts
    sizes = np.sqrt((centred**2).mean(axis=0))  # (k,)
    total = float(np.sqrt((sizes**2).sum()))
    for column, (values, size) in enumerate(zip(centred.T, sizes, strict=True)):
        if size <= LEAST_SIZE * total:
            continue
        # The problem is homogeneous: in units of the column, the solver's tolerance means the same for all columns.
        regression = NuSVR(C=C * total / size, nu=nu, kernel="precomputed", max_iter=MOST_ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the solution is near enough by then
            regression.fit(kernel, values / size)
        weights[regression.support_, column] = size * regression.dual_coef_[0]
        intercepts[column] += size * regression.intercept_[0]
    return weights, intercepts
