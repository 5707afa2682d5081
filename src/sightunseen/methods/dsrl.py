"""DSRL: zero-shot classification with discriminative semantic representation learning (Ye & Guo, CVPR 2017)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import Ridge

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_positive, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SEED, SIZE
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.shared.array_state import ArrayStateClassifier
from sightunseen.methods.shared.label_propagation import Propagation, check_graph, propagation_arrays

SWEEPS = 20  # of coordinate descent, to encode images


class DSRL(ArrayStateClassifier, AdaptableClassifier):
    """Discriminative semantic representation learning (DSRL): non-negative factorisation of images, aligned with class vectors.

    Images are factorised into sparse non-negative codes, x = z U, and z is aligned with the vector of the image's class. The
    objective over Z >= 0, U, W and b is

        1/2 ||X - Z U||^2 + beta sum(Z) + alpha/2 [sum_i ||z_i - s(y_i) W - b||^2 + lambda ||W||^2]

    with rows of U of norm at most one, and U >= 0 if the features are not negative. The sum over i runs over labelled images.
    :meth:`fit` factorises the labelled images, :meth:`adapt` labelled and unlabelled images together. Finally, all images are
    encoded without their labels, W is fitted to the codes of the labelled images, and scores are the cosines of z and s W + b,
    both centred on the mean of z. :meth:`adapt` also propagates the codes of the unlabelled images among their neighbours; as
    propagation is linear, this propagates the scores of all classes. Its hyperparameters are ``steps``, ``neighbours`` and
    ``propagation``.

    Differs from the paper: the objective has the terms that the paper names, and its equations may differ in detail; the map
    goes from class vectors to codes, by ridge regression; codes are compared by centred cosines.

    Parameters
    ----------
    components : int, default=300
        Number of rows of U; at most the number of images.
    alignment : float, default=1.0
        Weight alpha of the alignment term.
    sparsity : float, default=0.0
        Sparsity penalty beta, relative to the root mean square norm of the images.
    semantic_penalty : float, default=3.0
        Ridge penalty lambda, relative to the mean square of a centred attribute times the number of images.
    steps : int, default=5
        Number of passes over Z, W and U.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="none"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default=1.0
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    components_ : ndarray of shape (components, d)
        U. Each row is initialised with the mean of five random images.
    map_ : ndarray of shape (a, components)
        W.
    vector_centre_ : ndarray of shape (a,)
        Mean class vector of the labelled images.
    centre_ : ndarray of shape (components,)
        Mean code of the labelled images.
    shrinkage_ : float
        Beta, in the units of the training images.
    propagation_ : Propagation or None
        Propagated codes of the unlabelled images; None before ``adapt``.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import DSRL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = DSRL(components=10).fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    >>> adapted = model.adapt(data.test_unseen.X)
    >>> adapted.is_adapted
    True
    """

    search_space = {"alignment": (0.3, 1.0, 3.0)}
    adaptation_space = {"propagation": (0.3, 0.5, 0.8)}
    quick = False
    learned_arrays = {
        "components": Expected("k d"),
        "map": Expected("a k"),
        "vector_centre": Expected("a"),
        "centre": Expected("k"),
        "shrinkage": Expected(least=0),
    }

    def __init__(
        self,
        components: int = 300,
        alignment: float = 1.0,
        sparsity: float = 0.0,
        semantic_penalty: float = 3.0,
        steps: int = 5,
        feature_scaling: str = "none",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.components = components
        self.alignment = alignment
        self.sparsity = sparsity
        self.semantic_penalty = semantic_penalty
        self.steps = steps
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Factorise the labelled images.

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
        X, y = self._begin_fit(X, y, classes)
        rng = as_generator(derive_seed(self.seed, "first components"))
        drawn = X[rng.integers(len(X), size=(min(self.components, len(X)), 5))].mean(axis=1)
        self.propagation_: Propagation | None = None
        self.shrinkage_ = self.sparsity * float(np.sqrt(np.einsum("nd,nd->n", X, X).mean(dtype=np.float64)))
        self._factorise(X, y, _unit(drawn), self.steps)
        self._remember_images(X, y)
        return self

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("components", self.components, 1, SIZE)
        check_whole("steps", self.steps, 1)
        check_whole("seed", self.seed, 0, SEED)
        check_number("alignment", self.alignment, 0)
        check_number("sparsity", self.sparsity, 0)
        check_positive("semantic_penalty", self.semantic_penalty)

    def _adapt(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        *,
        steps: int = 5,
        neighbours: int = 10,
        propagation: float = 0.5,
    ) -> None:
        """Factorise labelled and unlabelled images from the learned components, then propagate codes among neighbours.

        Parameters
        ----------
        steps : int, default=5
            Number of passes over Z, W and U.
        neighbours : int, default=10
            Number of nearest neighbours of an image.
        propagation : float, default=0.5
            Weight of the neighbours' codes, from 0 to below 1.
        """
        check_whole("steps", steps, 1)
        check_graph(neighbours, propagation, "propagation")
        self._factorise(np.concatenate([X_seen, X]), y_seen, self.components_, steps)
        self.propagation_ = Propagation.of(self._directions(X), neighbours, propagation)

    def _factorise(self, X: Floats, y: Labels, components: Floats, steps: int) -> None:
        """Learn ``components_`` (k, d) and the map from class vectors to codes. The first ``len(y)`` images are labelled."""
        targets = np.searchsorted(self.seen_classes_, y)
        vectors = self._vectors_of(self.seen_classes_)
        alignment = Alignment(vectors, targets, self.semantic_penalty)
        factors = Factorisation(X, alignment, components, self.alignment, self.shrinkage_)
        for _ in range(steps):
            factors.step()
        self.components_ = factors.components
        alignment.improve(self._representations(X[: len(y)]).T)
        self.map_, self.vector_centre_, self.centre_ = alignment.map, alignment.vector_centre, alignment.centre

    def _representations(self, X: NDArray[Any]) -> NDArray[Any]:
        """Encode features (n, d) as codes z (n, k), without labels, in the precision of the features."""
        components = self.components_.astype(X.dtype)
        gram, products = components @ components.T, components @ X.T - X.dtype.type(self.shrinkage_)
        return descend(gram, products, np.zeros_like(products), SWEEPS).T

    def _directions(self, X: NDArray[Any]) -> Floats:
        return _unit(self._representations(X).astype(np.float32) - self.centre_.astype(np.float32))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        prototypes = _unit((self._vectors_of(labels) - self.vector_centre_) @ self.map_).astype(np.float32)  # (c, k)

        def scores(X: Floats) -> Floats:
            # In double precision: in single precision the rounding would depend on an image's position in the batch.
            directions = self._directions(X.astype(np.float64))
            if self.propagation_ is not None:
                directions = self.propagation_.extended(directions).astype(np.float32)
            return np.asarray(directions @ prototypes.T)

        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), **({} if self.propagation_ is None else self.propagation_.arrays())}

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        return {**super()._expected_arrays(arrays), **propagation_arrays(arrays)}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self.propagation_ = Propagation.of_arrays(arrays)


class Alignment:
    """Ridge regression z = (s - mean s) W + mean z from class vectors to codes.

    Parameters
    ----------
    vectors : ndarray of shape (s, a)
        Vectors of the seen classes.
    targets : ndarray of shape (n,)
        Indices of the images' classes.
    penalty : float
        Lambda, as for :class:`DSRL`.
    """

    def __init__(self, vectors: NDArray[Any], targets: NDArray[np.int64], penalty: float) -> None:
        self.vectors, self.targets = vectors.astype(np.float64), targets
        self.counts = np.bincount(targets)  # (s,)
        self.vector_centre = np.average(self.vectors, axis=0, weights=self.counts)
        size = (self.counts @ (self.vectors - self.vector_centre) ** 2).mean()
        self.penalty = penalty * float(size if size > 0 else 1.0)

    def improve(self, codes: NDArray[Any]) -> None:
        """Fit the regression to codes (k, n) of the labelled images."""
        belongs = self.targets[:, None] == np.arange(len(self.counts))
        means = (codes.astype(np.float64) @ belongs / self.counts).T  # (s, k)
        # Images of a class share its vector, so regression on class means, weighted by counts, has the same solution.
        ridge = Ridge(self.penalty).fit(self.vectors, means, sample_weight=self.counts)
        self.map = np.atleast_2d(ridge.coef_).T  # (a, k)
        self.centre = self.vector_centre @ self.map + ridge.intercept_  # (k,)

    def predicted_codes(self) -> NDArray[np.float64]:
        """Predict the codes of the labelled images, (k, n)."""
        return np.asarray(((self.vectors - self.vector_centre) @ self.map + self.centre)[self.targets].T)


class Factorisation:
    """Block coordinate descent on the objective of :class:`DSRL`. Each step lowers the objective.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features; the labelled images come first.
    alignment : Alignment
        Regression from class vectors to codes.
    components : ndarray of shape (k, d)
        Initial U.
    weight : float
        Alpha.
    shrinkage : float
        Beta.
    """

    def __init__(
        self,
        X: NDArray[Any],
        alignment: Alignment,
        components: NDArray[Any],
        weight: float,
        shrinkage: float,
    ) -> None:
        self.X, self.alignment, self.components = X, alignment, components.copy()
        self.weight, self.shrinkage = X.dtype.type(weight), X.dtype.type(shrinkage)
        self.rectify = bool((X >= 0).all())
        self.codes = np.zeros((len(components), len(X)), dtype=X.dtype)
        gram, products = components @ components.T, components @ X.T - self.shrinkage
        self.codes = descend(gram, products, self.codes, sweeps=3)
        self._align()

    def step(self) -> None:
        """Update Z, then W, then U."""
        labelled = len(self.alignment.targets)
        gram, products = self.components @ self.components.T, self.components @ self.X.T - self.shrinkage
        pulled = gram + self.weight * np.eye(len(gram), dtype=gram.dtype)
        wanted = products[:, :labelled] + self.weight * self.alignment.predicted_codes().astype(products.dtype)
        self.codes[:, :labelled] = descend(pulled, wanted, self.codes[:, :labelled], sweeps=3)
        self.codes[:, labelled:] = descend(gram, products[:, labelled:], self.codes[:, labelled:], sweeps=3)
        self._align()
        squares, sums = self.codes @ self.codes.T, self.codes @ self.X  # (k, k), (k, d)
        for row in np.flatnonzero(np.diag(squares) > 0):
            best = self.components[row] + (sums[row] - squares[row] @ self.components) / squares[row, row]
            best = np.maximum(best, 0) if self.rectify else best
            self.components[row] = best / max(1, np.linalg.norm(best))

    def _align(self) -> None:
        self.alignment.improve(self.codes[:, : len(self.alignment.targets)])


def descend(gram: NDArray[Any], products: NDArray[Any], codes: NDArray[Any], sweeps: int) -> NDArray[Any]:
    """Minimise 1/2 z' G z - h' z over z >= 0 by coordinate descent, for all columns at once.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        G.
    products : ndarray of shape (k, n)
        One vector h per column.
    codes : ndarray of shape (k, n)
        Initial z.
    sweeps : int
        Number of passes over the coordinates.

    Returns
    -------
    ndarray of shape (k, n)
        The updated codes.
    """
    codes, products = np.array(codes, order="C"), np.ascontiguousarray(products)
    for _ in range(sweeps):
        for row in np.flatnonzero(np.diag(gram) > 0):
            codes[row] = np.maximum(codes[row] + (products[row] - gram[row] @ codes) / gram[row, row], 0)
    return codes


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    """L2-normalise rows; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
