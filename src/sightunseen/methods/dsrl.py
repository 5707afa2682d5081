"""DSRL: zero-shot classification with discriminative semantic representation learning (Ye & Guo, CVPR 2017)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import Ridge

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.shared.label_propagation import Propagation

SWEEPS = 20  # over the components, to find the representations of images


class DSRL(AdaptableClassifier):
    """Images are sparse non-negative sums of components, x = z U, and z is aligned with the vector of the image's class.

    The objective solved here has the parts that the paper names; its equations may differ in detail. Over Z >= 0, U, W, b:

        1/2 ||X - Z U||^2 + beta sum(Z) + alpha/2 [sum_i ||z_i - s(y_i) W - b||^2 + lambda ||W||^2]

    with rows of U at most one long, and U >= 0 where the features are. The sum over i goes over labelled images: it draws
    those of a class together, to where its vector says. ``fit`` has labelled images only; :meth:`adapt` factorises the
    unlabelled ones with them. In the end every image's z is found without its label, W is fitted to those of the labelled
    images, and scores are the cosines of z and s W + b, both around the mean of z. ``adapt`` also propagates the
    representations of the unlabelled images among themselves: as that is linear, so it does the scores of any class.

    Parameters
    ----------
    components : rows of U; no more than there are images.
    alignment : alpha.
    sparsity : beta, relative to the root mean square length of the images.
    semantic_penalty : lambda, relative to the mean square of an attribute (times the number of images).
    steps : times that Z, W and U are improved in turn.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    seed : of the first components, each the mean of five images.
    """

    search_space = {"alignment": (0.3, 1.0, 3.0)}
    adaptation_space = {"propagation": (0.3, 0.5, 0.8)}

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

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Factorise features (n, d) of images with labels (n,), aligned with the vectors of their classes."""
        X, y = self._begin_fit(X, y, classes)
        rng = as_generator(derive_seed(self.seed, "first components"))
        drawn = X[rng.integers(len(X), size=(min(self.components, len(X)), 5))].mean(axis=1)
        self.propagation_: Propagation | None = None
        self.shrinkage_ = self.sparsity * float(np.sqrt(np.einsum("nd,nd->n", X, X).mean(dtype=np.float64)))
        self._factorise(X, y, _unit(drawn), self.steps)
        self._remember_images(X, y)
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_whole("components", self.components, 1)
        check_whole("steps", self.steps, 1)
        check_whole("seed", self.seed, 0)
        check_number("alignment", self.alignment, 0)
        check_number("sparsity", self.sparsity, 0)
        check_number("semantic_penalty (more than zero)", self.semantic_penalty, np.nextafter(0, 1))

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
        """Factorise all images, from the components learned so far; then propagate, with this weight, among neighbours."""
        check_whole("steps", steps, 1)
        check_whole("neighbours", neighbours, 1)
        check_number("propagation", propagation, 0)
        if propagation >= 1:
            raise SettingsError(f"propagation must be a number from 0 to below 1; got {propagation!r}.")
        self._factorise(np.concatenate([X_seen, X]), y_seen, self.components_, steps)
        self.propagation_ = Propagation.of(self._directions(X), neighbours, propagation)

    def _factorise(self, X: Floats, y: Labels, components: Floats, steps: int) -> None:
        """Learn ``components_`` (k, d) and the map from class vectors to representations; the first images have labels."""
        places = np.searchsorted(self.seen_classes_, y)
        vectors = self._vectors_of(self.seen_classes_)
        alignment = Alignment(vectors, places, self.semantic_penalty)
        factors = Factorisation(X, alignment, components, self.alignment, self.shrinkage_)
        for _ in range(steps):
            factors.step()
        self.components_ = factors.components
        alignment.improve(self._representations(X[: len(y)]).T)
        self.map_, self.vector_centre_, self.centre_ = alignment.map, alignment.vector_centre, alignment.centre

    def _representations(self, X: Floats) -> Floats:
        """Codes z (n, k) of features (n, d), as if they had no labels."""
        # In double precision: in single, the rounding of a product depends on where an image stands among the others.
        components = self.components_.astype(np.float64)
        gram, products = components @ components.T, components @ X.T - self.shrinkage_
        return descend(gram, products, np.zeros_like(products), SWEEPS).T.astype(np.float32)

    def _directions(self, X: Floats) -> Floats:
        return _unit(self._representations(X) - self.centre_.astype(np.float32))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        prototypes = _unit((self._vectors_of(labels) - self.vector_centre_) @ self.map_).astype(np.float32)  # (c, k)

        def scores(X: Floats) -> Floats:
            directions = self._directions(X)
            if self.propagation_ is not None:
                directions = self.propagation_.extended(directions).astype(np.float32)
            return np.asarray(directions @ prototypes.T)

        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        learned = {"components": self.components_, "map": self.map_, "vector_centre": self.vector_centre_}
        propagated = {} if self.propagation_ is None else self.propagation_.arrays()
        return {**learned, "centre": self.centre_, "shrinkage": np.array(self.shrinkage_), **propagated}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.components_, self.map_ = arrays["components"], arrays["map"]
        self.vector_centre_, self.centre_ = arrays["vector_centre"], arrays["centre"]
        self.shrinkage_ = float(arrays["shrinkage"])
        self.propagation_ = Propagation.of_arrays(arrays)


class Alignment:
    """z = (s - mean s) W + mean z, for the vectors (s, a) of classes at ``places`` (n,), by ridge regression."""

    def __init__(self, vectors: NDArray[Any], places: NDArray[np.int64], penalty: float) -> None:
        self.vectors, self.places = vectors.astype(np.float64), places
        self.counts = np.bincount(places)  # (s,)
        self.vector_centre = np.average(self.vectors, axis=0, weights=self.counts)
        size = (self.counts @ (self.vectors - self.vector_centre) ** 2).mean()
        self.penalty = penalty * float(size if size > 0 else 1.0)

    def improve(self, codes: NDArray[Any]) -> None:
        """The best map for codes (k, n)."""
        belongs = self.places[:, None] == np.arange(len(self.counts))
        means = (codes.astype(np.float64) @ belongs / self.counts).T  # (s, k)
        # The images of a class share its vector: their mean, so many times, has the same solution.
        ridge = Ridge(self.penalty).fit(self.vectors, means, sample_weight=self.counts)
        self.map = np.atleast_2d(ridge.coef_).T  # (a, k)
        self.centre = self.vector_centre @ self.map + ridge.intercept_  # (k,)

    def targets(self) -> NDArray[np.float64]:
        """Where the images' codes should be, (k, n)."""
        return np.asarray(((self.vectors - self.vector_centre) @ self.map + self.centre)[self.places].T)


class Factorisation:
    """The objective of :class:`DSRL` by block coordinate descent: every step lowers it. Codes are Z', (k, n)."""

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
        """Improve Z, then W, then U."""
        labelled = len(self.alignment.places)
        gram, products = self.components @ self.components.T, self.components @ self.X.T - self.shrinkage
        pulled = gram + self.weight * np.eye(len(gram), dtype=gram.dtype)
        wanted = products[:, :labelled] + self.weight * self.alignment.targets().astype(products.dtype)
        self.codes[:, :labelled] = descend(pulled, wanted, self.codes[:, :labelled], sweeps=3)
        self.codes[:, labelled:] = descend(gram, products[:, labelled:], self.codes[:, labelled:], sweeps=3)
        self._align()
        squares, sums = self.codes @ self.codes.T, self.codes @ self.X  # (k, k), (k, d)
        for row in np.flatnonzero(np.diag(squares) > 0):
            best = self.components[row] + (sums[row] - squares[row] @ self.components) / squares[row, row]
            best = np.maximum(best, 0) if self.rectify else best
            self.components[row] = best / max(1, np.linalg.norm(best))

    def _align(self) -> None:
        self.alignment.improve(self.codes[:, : len(self.alignment.places)])


def descend(gram: NDArray[Any], products: NDArray[Any], codes: NDArray[Any], sweeps: int) -> NDArray[Any]:
    """Lower 1/2 z' G z - h' z over z >= 0 for all columns at once, one component after the other: (k, k), (k, n), (k, n)."""
    codes, products = np.array(codes, order="C"), np.ascontiguousarray(products)
    for _ in range(sweeps):
        for row in np.flatnonzero(np.diag(gram) > 0):
            codes[row] = np.maximum(codes[row] + (products[row] - gram[row] @ codes) / gram[row, row], 0)
    return codes


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of length one; one of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
