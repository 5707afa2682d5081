"""Foresight: where the images of a class will lie, foretold from its description, in closed form."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import DataError
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.foresight.whitening import Doubles, Scatter, Whitening, weighted_means
from sightunseen.methods.foresight.wide_generator import WideGenerator

GENERATORS = ("wide", "linear")
LEAST_NOISE = 1e-9  # with less, classes with one and the same vector could not be told apart
BALANCE = 1e-3  # how far labels may miss a given prior, as a part of the mean share


class Foresight(AdaptableClassifier):
    """Images of a class are Gaussian around a mean that an infinitely wide generator foretells from its class vector.

    All classes share one covariance, that of the images around the means of the seen classes. In the space in which it is
    the same in all directions the seen classes' means are what the generator is solved for, by ridge regression, and the
    score of a class is the log density of the image, up to what is the same for all classes:
    ``2 z.p - |p|^2 = |z|^2 - |z - p|^2`` for the image's point z and the class's p. Nothing is drawn at random.

    :meth:`adapt` takes unlabelled images of unseen classes in: they are softly labelled by the scores, their weighted means
    join those of the seen classes, and the generator is solved again; some rounds of this (EM).

    Parameters
    ----------
    shrinkage : the part of the covariance that is replaced by its mean variance in all directions, 0 to 1.
    noise : how far the generator may miss the mean of a class with the mean number of images, relative to the spread of class
        vectors; less for a class with more images.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    generator : ``wide``, or ``linear``: without hidden units.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"feature_scaling": ("root", "centred"), "shrinkage": (0.1, 0.3, 0.6, 0.9), "noise": (0.1, 0.3)}
    adaptation_space = {"temperature": (1.0, 2.0, 4.0, 8.0)}

    def __init__(
        self,
        shrinkage: float = 0.5,
        noise: float = 0.1,
        feature_scaling: str = "root",
        semantic_norm: float | str | None = 1.0,
        generator: str = "wide",
        seen_penalty: float = 0.0,
    ) -> None:
        self.shrinkage = shrinkage
        self.noise = noise
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.generator = generator
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Solve for images (n, d) with labels (n,) and the class table of seen and unseen classes."""
        X, y = self._begin_fit(X, y, classes)
        whitening, means, counts = self._means_of_seen(X, y)
        vectors = self._vectors_of(self.seen_classes_)
        self._settle(whitening, self._solved(vectors, means, counts, counts.mean()), means)
        self._remember_images(X, y)
        return self

    def fit_sharing(self, shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit; the scatter of the images is computed once for each feature scaling."""
        self._shared_scatter: dict[str, Scatter] = shared
        try:
            return self.fit(X, y, classes)
        finally:
            del self._shared_scatter

    def points_of(self, labels: ArrayLike) -> Doubles:
        """Where images of these classes are foretold to lie, in the space of :meth:`compared`: (c, r)."""
        return self.generator_(self._vectors_of(self.candidates(labels)))

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images (n, r) and classes (c, r) where their squared distance is minus the score, but for a constant of the image."""
        return self._features(X) @ self.projection_.T, self.points_of(self.candidates(labels)).astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """The wide generator, and distances where it foretells points."""
        return ClassifierMap((self.generator_,), "distance", projection=self.projection_)

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_number("shrinkage", self.shrinkage, 0, most=1)
        check_number("noise", self.noise, LEAST_NOISE)
        check_choice("generator", self.generator, GENERATORS)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _adapt(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        *,
        rounds: int = 10,
        temperature: float | None = None,
        prior: ArrayLike | str | None = None,
        noise: float | None = None,
    ) -> None:
        """So many rounds, in which labels are the softmax of scores over the temperature.

        A temperature of None is the one that the model is calibrated to, or 2 where it is not. ``prior`` is the share of each
        unseen class among the images, in the order of the candidates: None (not known), ``uniform``, or numbers, which the
        labels are then made to agree with. ``noise`` is the generator's from now on; None: as before.
        """
        check_whole("rounds", rounds, 1)
        check_number("noise", noise, LEAST_NOISE, optional=True)
        if temperature is None:
            temperature = 2.0 if self.calibration_ is None else self.temperature_
        check_number("temperature (more than zero)", temperature, np.nextafter(0, 1))
        shares = _shares(prior, len(unseen))
        whitening, means, counts = self._means_of_seen(X_seen, y_seen)
        images = whitening(X)  # (m, d)
        vectors = self._vectors_of(np.concatenate([self.seen_classes_, unseen]))
        usual, generator = counts.mean(), self._solved(vectors[: len(means)], means, counts, counts.mean())
        self.history_: list[dict[str, Any]] = []
        found = np.full(len(images), -1)
        for number in range(1, rounds + 1):
            points = generator(vectors[len(means) :])
            labels = soft_labels((2 * images @ points.T - np.square(points).sum(axis=1)) / temperature, shares)
            own_means, own_counts = weighted_means(images, labels)
            joined = np.concatenate([means, own_means])
            generator = self._solved(vectors, joined, np.concatenate([counts, own_counts]), usual, noise)
            best = labels.argmax(axis=1)
            self.history_.append({"round": number, "changed_labels": int((best != found).sum())})
            found = best
        self._settle(whitening, generator, joined)

    def _means_of_seen(self, X: Floats, y: Labels) -> tuple[Whitening, Doubles, Doubles]:
        """The whitening of seen classes' images, their whitened means (s, d), and the number of images of each (s,)."""
        known: dict[str, Scatter] = getattr(self, "_shared_scatter", {})
        if self.feature_scaling not in known:
            places = np.searchsorted(self.seen_classes_, y)
            known[self.feature_scaling] = Scatter.of(X, places, len(self.seen_classes_))
        scatter = known[self.feature_scaling]
        whitening = Whitening.of(scatter.covariance, self.shrinkage)
        return whitening, whitening(scatter.means), scatter.counts

    def _solved(
        self, vectors: NDArray[Any], means: Doubles, counts: Doubles, usual: float, noise: float | None = None
    ) -> WideGenerator:
        """The generator of class vectors (t, a) and means (t, d), the less sure of a mean the fewer images it is of."""
        centre = self._vectors_of(self.seen_classes_).mean(axis=0)
        noise = self.noise if noise is None else noise
        return WideGenerator.solved(vectors, means, noise * usual / counts, centre, self.generator == "linear")

    def _settle(self, whitening: Whitening, generator: WideGenerator, means: Doubles) -> None:
        """Keep what scores are made of: as many directions as there are means, and the generator of points there."""
        self.projection_, basis = whitening.onto(means)
        self.generator_ = generator.followed_by(basis)  # what it foretells lies in the span of the means

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        weights, bias = self.classifier_map()(self._vectors_of(labels), self.seen_indices(labels))
        return lambda X: np.asarray(X @ weights.T + bias)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"projection": self.projection_, **self.generator_.arrays()}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.projection_, self.generator_ = arrays["projection"], WideGenerator.of_arrays(arrays)


def soft_labels(scores: Doubles, shares: Doubles | None = None) -> Doubles:
    """Softmax of scores (m, u); with ``shares`` (u,), of scores so shifted for each class that the labels have these shares."""
    if shares is None:
        return np.asarray(softmax(scores, axis=1))

    def surplus(shift: Doubles) -> tuple[float, Doubles]:
        """A convex function of the shift, and its gradient: how much more of the labels each class has than its share."""
        totals = logsumexp(scores + shift, axis=1)
        labels = np.exp(scores + shift - totals[:, None])
        return totals.mean() - shares @ shift, labels.mean(axis=0) - shares

    precision = BALANCE / len(shares)
    best = minimize(surplus, np.zeros(len(shares)), jac=True, method="L-BFGS-B", options={"gtol": precision, "ftol": 0})
    return np.asarray(softmax(scores + best.x, axis=1))


def _shares(prior: ArrayLike | str | None, n_classes: int) -> Doubles | None:
    if prior is None:
        return None
    shares = np.ones(n_classes) if isinstance(prior, str) and prior == "uniform" else np.asarray(prior)
    right = shares.shape == (n_classes,) and shares.dtype.kind in "fiu" and (shares >= 0).all()
    if not (right and 0 < shares.sum() < np.inf):
        raise DataError(f"prior must be 'uniform', or {n_classes} shares, one for each class adapted to; got {prior!r}.")
    return np.asarray(shares / shares.sum(), dtype=np.float64)
