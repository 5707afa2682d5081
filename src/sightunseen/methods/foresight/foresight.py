"""Foresight: predict class means from class vectors by kernel ridge regression, and classify by Gaussian log densities."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.array_checks import Expected, indices, positive
from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.devices import DEVICES, linear_scorer
from sightunseen.methods.base.feature_scaling import ELEMENTWISE, TWO_VIEWS
from sightunseen.methods.base.leave_out import FewImages, LeaveClassesOut, SummedImages, TrainingImages
from sightunseen.methods.base.moments import normalisations_of
from sightunseen.methods.base.one_pass import OnePassClassifier
from sightunseen.methods.base.scatter import Scatter, memberships, weighted_means
from sightunseen.methods.base.span import Span
from sightunseen.methods.foresight.class_means import ClassMeans
from sightunseen.methods.foresight.expectation_maximisation import Unlabelled, expectation_maximisation
from sightunseen.methods.foresight.leave_out import left_out_scores
from sightunseen.methods.foresight.pseudo_labels import class_shares
from sightunseen.methods.foresight.swaps import ambiguous_pairs, separations
from sightunseen.methods.foresight.whitening import Whitening
from sightunseen.methods.foresight.wide_generator import EXACT_CLASSES, WideGenerator, generator_arrays

GENERATORS = ("wide", "linear")
LENGTHS = ("predicted", "equal")
IMAGES_OF = ("unseen", "all")
LEAST_NOISE = 1e-9  # keeps the kernel matrix invertible if two classes have the same vector


class Foresight(AdaptableClassifier, LeaveClassesOut, OnePassClassifier):
    """Kernel ridge regression from class vectors to class means, followed by linear discriminant analysis.

    The images of a class are modelled as Gaussian around the class mean, with a covariance shared by all classes: the shrunk
    within-class covariance of the seen classes. In the space whitened by this covariance, kernel ridge regression
    (equivalently, the mean of a Gaussian process) maps class vectors to class means. Its kernel is the arc-cosine kernel of
    order one (Cho & Saul, 2009), which makes the regression the limit of the FC-ReLU-FC classifier generator of CVC for
    infinite width; see :mod:`~sightunseen.methods.foresight.wide_generator`. The mean of an unseen class is predicted from its
    class vector. The score of a class is the log density of the image up to a constant per image: ``2 z.p - |p|^2`` for the
    whitened image z and the class mean p. The fit is in closed form and deterministic.

    :meth:`adapt` is expectation-maximisation on unlabelled images of unseen classes. The E-step computes soft pseudo-labels
    from the scores; the M-step computes the weighted class means and fits the regression to them and to the means of the seen
    classes.

    :meth:`add_examples` adds a few labelled images of any class: their mean is one more target of the regression.

    Parameters
    ----------
    shrinkage : float, default=0.6
        Shrinkage of the within-class covariance towards a multiple of the identity, from 0 to 1.
    noise : float, default=0.3
        Ridge penalty of a class with the average number of images; that of other classes is inversely proportional to their
        number of images. The kernel is scaled so that its mean diagonal element is one.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "root+centred"}, default="root+centred"
        Feature scaling; see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`. The two views of
        ``"root+centred"`` are modelled as independent given the class, so their log densities are added.
    semantic_norm : float, "sqrt" or None, default=1.0
        Norm that class vectors are scaled to; ``"sqrt"`` is the square root of their dimension, None leaves them unscaled.
    generator : {"wide", "linear"}, default="wide"
        Kernel of the regression: arc-cosine kernel or dot product.
    mean_length : {"predicted", "equal"}, default="predicted"
        Length of the predicted class means in the whitened space: as predicted, or the same for all classes. With equal
        lengths the classes are ranked by the cosine between image and class mean. The predicted length is unreliable if seen
        classes are few or unlike the unseen ones.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where moments and scores are computed. ``"auto"``: on a GPU if there is one and the data are larger than 1 GiB.

    Attributes
    ----------
    projection_ : ndarray of shape (r, d)
        Map from scaled features to the joint embedding space: the span of the whitened class means.
    generator_ : WideGenerator
        Fitted regression from class vectors to class means in the joint embedding space.
    class_means_ : ClassMeans
        Whitened means of the seen classes and, after ``adapt``, of the classes adapted to; weights are inverse ridge penalties.
    examples_ : ClassMeans
        Whitened means and numbers of the examples of :meth:`add_examples`.
    history_ : list of dict
        Number of changed pseudo-labels per round, after ``adapt``.
    ambiguous_pairs_ : list of (label, label)
        After ``adapt``, pairs of classes whose class vectors hardly tell which of them a group of images belongs to: their
        labels are exchanged with a probability of 5 % or more. The most ambiguous pair comes first.

    Notes
    -----
    :meth:`adapt` has these hyperparameters:

    - ``rounds`` (int, default=10): number of EM iterations.
    - ``temperature`` (float, default=None): divisor of the scores in the softmax of the pseudo-labels. None: the calibrated
      temperature of the model, or 2 if it is not calibrated.
    - ``prior`` (None, "uniform" or array-like of shape (u,), default=None): shares of the unseen classes among the images, in
      the order of the candidates. None: unknown shares, as always with ``images_of="all"``.
    - ``trust`` (float, default=1.0): weight of a pseudo-labelled image in the regression relative to a labelled one; 0 leaves
      the model as it is.
    - ``images_of`` ("unseen" or "all", default="unseen"): the classes that the images belong to. ``"all"``: some may belong to
      seen classes or, if the model is calibrated, to none; those do not count.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World())
    >>> model = Foresight().fit(data.train.X, data.train.y, data.classes)
    >>> adapted = model.adapt(data.test_unseen.X)
    >>> adapted.predict(data.test_unseen.X, "unseen").shape == data.test_unseen.y.shape
    True
    """

    search_space = {
        "feature_scaling": ("root", "centred", "root+centred"),
        "shrinkage": (0.1, 0.3, 0.6, 0.9),
        "noise": (0.1, 0.3, 1.0),
        "generator": GENERATORS,
        "mean_length": LENGTHS,
    }
    adaptation_space = {"temperature": (1.0, 2.0, 4.0, 8.0)}

    feature_scalings = (*ELEMENTWISE, TWO_VIEWS)  # the whitening is part of the method

    version = 2

    in_span = False  # the whitening is that of all features

    whitening_: Whitening | None = None
    n_images_: int | None = None
    class_means_: ClassMeans
    examples_: ClassMeans

    def __init__(
        self,
        shrinkage: float = 0.6,
        noise: float = 0.3,
        feature_scaling: str = "root+centred",
        semantic_norm: float | str | None = 1.0,
        generator: str = "wide",
        mean_length: str = "predicted",
        seen_penalty: float = 0.0,
        device: str = "cpu",
    ) -> None:
        self.shrinkage = shrinkage
        self.noise = noise
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.generator = generator
        self.mean_length = mean_length
        self.seen_penalty = seen_penalty
        self.device = device

    def training_images(
        self, X: Any, y: Labels, parameters: Sequence[Mapping[str, Any]], shared: dict[str, Any]
    ) -> TrainingImages:
        """Read the training images once; see :meth:`LeaveClassesOut.training_images`."""
        if Span.is_smaller(X):
            return FewImages(np.asarray(X, dtype=np.float32), y)
        kinds = [clone(self).set_params(**chosen).feature_scaling for chosen in parameters]
        names = sorted({name for kind in kinds for name in normalisations_of(kind)})
        moments = self._shared_moments(shared, X, y, names)
        return SummedImages({name: moments[name] for name in names})

    def left_out_scores(
        self,
        images: TrainingImages,
        classes: ClassTable,
        X_test: Floats,
        left_out: Sequence[Labels],
        parameters: Sequence[Mapping[str, Any]],
    ) -> Iterator[tuple[int, int, Doubles]]:
        """Score images without some of the classes; see :meth:`LeaveClassesOut.left_out_scores`."""
        models = [clone(self).set_params(**chosen) for chosen in parameters]
        labels = np.sort(classes.labels)
        vectors = {}
        for model in models:
            model.check_settings()
            model._learn_classes(labels, classes)
            vectors[model.semantic_norm] = model._vectors_of(labels)
        rows = np.searchsorted(images.labels, labels)
        kept = [np.flatnonzero(~np.isin(labels, block)) for block in left_out]
        return left_out_scores(images, rows, X_test, vectors, kept, [model.get_params() for model in models])

    @property
    def takes_examples(self) -> bool:
        """Whether :meth:`add_examples` is available; see :attr:`ZeroShotClassifier.takes_examples`."""
        return self.whitening_ is not None

    @property
    def example_counts(self) -> dict[Any, int]:
        """Number of examples by label; see :attr:`ZeroShotClassifier.example_counts`."""
        if self.whitening_ is None:
            return {}
        return dict(zip(self.examples_.labels.tolist(), self.examples_.weights.astype(int).tolist(), strict=True))

    def add_examples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add labelled images of some classes, without retraining; see :meth:`ZeroShotClassifier.add_examples`.

        The mean of a class's examples joins the regression. Its ridge penalty is the variance of the mean of n images relative
        to the variance of the regression, which is estimated from leave-one-out residuals; see :meth:`WideGenerator.scale`.
        """
        check_is_fitted(self)
        if self.whitening_ is None:
            raise ModelError(
                "this model was saved by an earlier version, without the whitening that examples need. Train it again."
            )
        features, labels = self._checked(X, y)
        named, targets = np.unique(labels, return_inverse=True)
        self.table_.rows_of(named)
        means, counts = weighted_means(self.scaling_(features), memberships(targets, len(named)))
        self.examples_ = self.examples_.joined(ClassMeans(named, self.whitening_(means), counts))
        self._store(self.whitening_, self.class_means_)
        return self

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Embed images (n, r) and class means (c, r): their squared distance is minus the score, up to a constant per image.

        See :meth:`ZeroShotClassifier.compared`.
        """
        means = self.generator_(self._vectors_of(self.candidates(labels)))
        return self._features(X) @ self.projection_.T, means.astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """Return the regression to class means and the projection of images, for export."""
        return ClassifierMap((self.generator_,), "distance", projection=self.projection_)

    def check_settings(self) -> None:
        """Validate the hyperparameters; see :meth:`ZeroShotClassifier.check_settings`."""
        super().check_settings()
        check_number("shrinkage", self.shrinkage, 0, most=1)
        check_number("noise", self.noise, LEAST_NOISE)
        check_choice("generator", self.generator, GENERATORS)
        check_choice("mean_length", self.mean_length, LENGTHS)
        check_choice("device", self.device, DEVICES)

    @property
    def needs_seen_images(self) -> bool:
        """Whether ``adapt`` needs images of the seen classes: only if the model is of an earlier version."""
        return self.whitening_ is None or self.n_images_ is None

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
        trust: float = 1.0,
        prior: ArrayLike | str | None = None,
        images_of: str = "unseen",
    ) -> None:
        """Adapt by expectation-maximisation with soft pseudo-labels; the class documents the hyperparameters."""
        check_whole("rounds", rounds, 1)
        check_number("trust", trust, 0)
        check_choice("images_of", images_of, IMAGES_OF)
        if temperature is None:
            temperature = 2.0 if self.calibration_ is None else self.temperature_
        check_number("temperature (more than zero)", temperature, np.nextafter(0, 1))
        if prior is not None and images_of == "all":
            raise SettingsError("prior has the shares of unseen classes only; leave it out with images_of='all'.")
        shares = class_shares(prior, len(unseen))
        if self.whitening_ is None or self.n_images_ is None:  # loaded from a folder of an earlier version
            targets = np.searchsorted(self.seen_classes_, y_seen)
            self._learn(Scatter.of(X_seen, targets, len(self.seen_classes_), self.scaling_.views), Span.of(X_seen[:0]), {})
        assert self.whitening_ is not None
        assert self.n_images_ is not None
        known = self.class_means_.only(self.seen_classes_)
        first = self._regression(self._with_examples(known))
        self.history_: list[dict[str, Any]] = []
        self.ambiguous_pairs_: list[tuple[Any, Any]] = []
        vectors, everything = self._vectors_of(unseen), images_of == "all"
        if everything:
            X = X[~self._rejected(X)]
        if trust == 0 or not len(X):
            self._store(self.whitening_, known)
            return
        rivals = self._vectors_of(self.seen_classes_) if everything else None
        unlabelled = Unlabelled(self.whitening_(X), unseen, vectors, rivals, self.seen_penalty)
        weight = trust * len(self.seen_classes_) / (self.noise * self.n_images_)
        own, self.history_ = expectation_maximisation(
            known, unlabelled, lambda means: self._regression(self._with_examples(means)), weight, rounds, temperature, shares
        )
        few = known.thinned(EXACT_CLASSES)
        residuals, _ = self._regression(few).left_out(1 / few.weights)
        self.ambiguous_pairs_ = ambiguous_pairs(unseen, separations(first(vectors), own.means, residuals))
        self._store(self.whitening_, known.joined(own))

    def _rejected(self, X: Floats) -> NDArray[np.bool_]:
        """Whether scaled images (m, d) are "none of these" to the unadapted model."""
        penalty = self.seen_penalty * np.isin(self.classes_, self.seen_classes_)
        return self.is_none(self._scorer(self.classes_)(X) - penalty, self.classes_)

    def _learn(self, scatter: Scatter, span: Span, shared: dict[str, Any]) -> None:
        """Compute whitening and class means of the seen classes, and fit the regression to them."""
        whitening = Whitening.of(scatter.covariances, self.shrinkage)
        means, weights = whitening(scatter.means), scatter.counts / (self.noise * scatter.counts.mean())
        self.n_images_ = int(scatter.counts.sum())
        self.examples_ = ClassMeans(self.seen_classes_[:0], means[:0], weights[:0])
        self._store(whitening, ClassMeans(self.seen_classes_, means, weights))

    def _regression(self, known: ClassMeans) -> WideGenerator:
        """Regress means (t, d) on class vectors (t, a); the ridge penalties are the inverse weights."""
        centre = self._vectors_of(self.seen_classes_).mean(axis=0)
        vectors, seen = self._vectors_of(known.labels), np.isin(known.labels, self.seen_classes_)
        length = np.sqrt(np.square(known.means[seen]).sum(axis=1).mean()) if self.mean_length == "equal" else 0.0
        linear = self.generator == "linear"
        return WideGenerator.solved(vectors, known.means, 1 / known.weights, centre, linear, float(length))

    def _with_examples(self, known: ClassMeans) -> ClassMeans:
        """Join class means and the means of examples.

        The whitened images of a class have variance 1/2 per dimension, so the mean of n examples has variance 1 / 2n around the
        class mean. Its ridge penalty is this variance relative to that of the regression's prior, which is the scale.
        """
        if not len(self.examples_):
            return known
        few = known.thinned(EXACT_CLASSES)
        scale = self._regression(few).scale(1 / few.weights)
        return known.joined(self.examples_.weighted(float(np.clip(2 * scale, LEAST_NOISE, 1 / LEAST_NOISE))))

    def _store(self, whitening: Whitening, known: ClassMeans) -> None:
        """Store the class means; store projection and regression, reduced to the span of the means with examples."""
        known, self.examples_ = known.rounded(), self.examples_.rounded()  # as they are saved
        try:
            joined = self._with_examples(known)
            projection, basis = whitening.onto(joined.means)
            generator = self._regression(joined).followed_by(basis)
        except (linalg.LinAlgError, ValueError) as error:
            raise DataError(
                f"the class means cannot be regressed on the class vectors ({error}). Check the features, or train again."
            ) from error
        self.whitening_, self.class_means_ = whitening, known
        self.projection_, self.generator_ = projection, generator

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("ambiguous_pairs_", None)
        self.whitening_ = None

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        if self.whitening_ is None:
            return
        known = [*self.class_means_.labels.tolist(), *self.examples_.labels.tolist()]
        gone = np.array([label for label in known if label not in table])
        if gone.size:  # what was learned from the images of a removed class is removed with it
            self.examples_ = self.examples_.without(gone)
            self._store(self.whitening_, self.class_means_.without(gone))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        return linear_scorer(*self.classifier_map()(self._vectors_of(labels), self.seen_indices(labels)), self.device)

    def _prepare_images(self, X: Floats) -> Floats:
        return np.asarray(X @ self.projection_.T)

    def _block_scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        generated = replace(self.classifier_map(), projection=None)
        return linear_scorer(*generated(self._vectors_of(labels), self.seen_indices(labels)), self.device)

    @property
    def _scorer_width(self) -> int:
        return len(self.projection_)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"projection": self.projection_, **self.generator_.arrays()}
        if self.whitening_ is None:
            return arrays
        arrays["whitening.root"] = self.whitening_.packed()
        if self.n_images_ is not None:
            arrays["n_images"] = np.array(self.n_images_)
        for name, known in {"class_means": self.class_means_, "examples": self.examples_}.items():
            arrays[f"{name}.rows"] = self.table_.rows_of(known.labels)
            arrays[f"{name}.means"] = known.means.astype(np.float32)
            arrays[f"{name}.weights"] = known.weights
        return arrays

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        expected = {"projection": Expected("r v"), **generator_arrays()}
        if "whitening.root" not in arrays:  # a folder of an earlier version
            return expected
        size = self.scaling_.views * self.n_features_in_ * (self.n_features_in_ + 1) // 2
        expected["whitening.root"] = Expected(f"{size}")
        expected["n_images"] = Expected(kind="i", least=1, optional=True)
        for name, letter in {"class_means": "m", "examples": "e"}.items():
            expected[f"{name}.rows"] = indices(letter, "c")
            expected[f"{name}.means"] = Expected(f"{letter} v")
            expected[f"{name}.weights"] = positive(letter)
        return expected

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.projection_, self.generator_ = arrays["projection"], WideGenerator.of_arrays(arrays)
        self.whitening_ = None
        if "whitening.root" not in arrays:  # a folder of an earlier version
            return
        self.n_images_ = int(arrays["n_images"]) if "n_images" in arrays else None
        self.whitening_ = Whitening.unpacked(arrays["whitening.root"], self.n_features_in_, self.scaling_.views)
        self.class_means_, self.examples_ = (
            ClassMeans(
                self.table_.labels[arrays[f"{name}.rows"]],
                arrays[f"{name}.means"].astype(np.float64),
                arrays[f"{name}.weights"],
            )
            for name in ("class_means", "examples")
        )
