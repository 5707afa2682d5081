"""Capability of methods that are fitted to sums over the images: one pass over blocks, for data larger than memory."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.frames import as_array, as_targets
from sightunseen.core.rows import Rows
from sightunseen.methods.base.classifier import ZeroShotClassifier
from sightunseen.methods.base.devices import device_for
from sightunseen.methods.base.feature_scaling import WHITENED, FeatureScaling
from sightunseen.methods.base.moments import AllMoments, normalisations_of, scaled_scatter
from sightunseen.methods.base.passes import accumulated, accumulator
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.span import Span


class OnePassClassifier(ZeroShotClassifier):
    """Abstract base class of methods that need only counts, sums and second moments of the images.

    Memory does not grow with the number of images. A subclass implements :meth:`_learn`.

    Notes
    -----
    If ``in_span`` is true and there are fewer images than half the number of features, the method is fitted in coordinates of
    the span of the images, which is faster and equivalent. ``squares_by_class`` is whether the method needs the squares of
    each class instead of a covariance.
    """

    in_span: ClassVar[bool] = True
    squares_by_class: ClassVar[bool] = False

    device: str = "cpu"

    def _learn(self, scatter: Scatter, span: Span, shared: dict[str, Any]) -> None:
        """Fit the model to the scatter of scaled features, given in coordinates of ``span``.

        ``shared`` is the cache of :meth:`fit_sharing`. A method that needs other sums implements :meth:`_learn_moments`.
        """
        raise NotImplementedError

    def fit(self, X: Any, y: ArrayLike | None = None, classes: Any = None) -> Self:
        """Fit the model to images of seen classes, in one pass.

        Parameters
        ----------
        X : array-like or Rows of shape (n, d), path, or iterator of (array of shape (k, d), labels of shape (k,))
            Features of the images: in memory, memory-mapped, in files, or block by block. A path is that of a table with a
            column of labels; see :func:`~sightunseen.data.table_files.load_tables`.
        y : array-like of shape (n,), default=None
            Labels of the images, unless they come with ``X``.
        classes : ClassTable, mapping of label to vector or text, DataFrame or array-like, default=None
            Seen and unseen classes, in any form of :func:`~sightunseen.as_class_table`. None: one-hot vectors of the labels,
            so that no unseen class can be recognised; for a path, the class table beside it.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors are invalid.
        """
        return self.fit_sharing({}, X, y, classes)

    def fit_sharing(self, shared: dict[str, Any], X: Any, y: ArrayLike | None = None, classes: Any = None) -> Self:
        """Fit like :meth:`fit`, sharing the moments of the images; see :meth:`ZeroShotClassifier.fit_sharing`."""
        self.check_settings()
        if isinstance(X, str | Path):
            X, y, classes = _opened(Path(X), classes)
        if isinstance(X, Iterator):
            return self.fit_moments(self._moments_of_blocks(X), classes, shared)
        features, labels = self._checked_images(X, y)
        if self.in_span and not isinstance(features, Rows) and Span.is_smaller(features):
            return self._fit_few(shared, features, labels, classes)
        if self._needs_whitened_images and not isinstance(features, Rows):
            return self.fit_moments(self._whitened_moments(shared, features, labels), classes, shared)
        return self.fit_moments(self._shared_moments(shared, features, labels, self._normalisations), classes, shared)

    def fit_moments(self, moments: AllMoments, classes: Any = None, shared: dict[str, Any] | None = None) -> Self:
        """Fit the model to the moments of images of seen classes.

        Parameters
        ----------
        moments : mapping of str to Moments
            Moments by normalisation.
        classes : ClassTable or other description of classes, default=None
            Seen and unseen classes, as for :meth:`fit`.
        shared : dict, default=None
            Cache, as for :meth:`fit_sharing`.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If the class vectors are invalid.
        """
        self.check_settings()
        one = moments[normalisations_of(self._feature_scaling)[0]]
        self.n_features_in_ = one.sums.shape[1]
        self._begin_learning(one.labels, classes)
        self._learn_moments(moments, {} if shared is None else shared)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Add images to those of earlier calls and fit the model to all of them.

        Every call solves for the model again; give :meth:`fit` an iterator of blocks if only the final model is needed.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of further images.
        y : array-like of shape (n,)
            Their labels, of known or new seen classes.
        classes : ClassTable or other description of classes, or array-like of labels, default=None
            Seen and unseen classes, as for :meth:`fit`; a list of labels stands for their one-hot vectors, as in scikit-learn.
            None: those of the first call.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors are invalid.
        """
        self.check_settings()
        before: tuple[AllMoments, Any] | None = self.__dict__.get("_accumulated")
        features, labels = self._checked(X, y, reset=before is None)
        if classes is None and before is not None:
            classes = before[1]
        elif classes is not None:
            classes = _described(classes, labels)
        origins = {} if before is None else {name: one.origin for name, one in before[0].items()}
        names = self._normalisations if before is None else tuple(before[0])
        if not set(self._normalisations) <= set(names):
            raise SettingsError(
                f"partial_fit cannot change feature_scaling from {self.scaling_.kind!r} to {self._feature_scaling!r}: the sums "
                "of the earlier images cannot be scaled again. Set it back, or call fit with all images."
            )
        device = device_for(self.device, features)
        moments = accumulated(features, labels, names, self.squares_by_class, device, origins)
        if before is not None:
            moments = {name: before[0][name] + one for name, one in moments.items()}
        self.fit_moments(moments, classes)
        self._accumulated = moments, classes
        return self

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _feature_scaling(self) -> str:
        return str(getattr(self, "feature_scaling", "none"))

    @property
    def _needs_whitened_images(self) -> bool:
        """Whether squares of each class are needed of whitened images: they do not follow from those of other images."""
        return self.squares_by_class and self._feature_scaling in WHITENED

    @property
    def _normalisations(self) -> tuple[str, ...]:
        """Normalisations of the images whose moments are computed in one pass."""
        if self._needs_whitened_images:
            raise SettingsError(
                f"{type(self).__name__} with feature_scaling={self._feature_scaling!r} needs all images in memory: it cannot "
                "be fitted to files, blocks or by partial_fit. Give fit an array, or use feature_scaling='root'."
            )
        return normalisations_of(self._feature_scaling)

    def _whitened_moments(self, shared: dict[str, Any], X: Floats, y: Labels) -> AllMoments:
        """Moments of whitened images by the normalisation that whitening starts with."""
        kind, known = self._feature_scaling, shared.setdefault("whitened", {})
        if kind not in known:
            scaling = FeatureScaling.learned(kind, X, y)
            (moments,) = accumulated(scaling(X), y, ("none",), self.squares_by_class).values()
            known[kind] = {normalisations_of(kind)[0]: replace(moments, applied=scaling)}
        found: AllMoments = known[kind]
        return found

    def _shared_moments(self, shared: dict[str, Any], X: Any, y: Labels, normalisations: Iterable[str]) -> AllMoments:
        """Moments by normalisation; those that are not in the cache are computed, in one pass."""
        known: dict[str, Any] = shared.setdefault("moments", {})
        missing = [name for name in dict.fromkeys(normalisations) if name not in known]
        if missing:
            known |= accumulated(X, y, missing, self.squares_by_class, device_for(self.device, X))
        return known

    def _learn_moments(self, moments: AllMoments, shared: dict[str, Any]) -> None:
        """Fit feature scaling and model to the moments."""
        known = shared.setdefault("scatter", {})
        if self._feature_scaling not in known:
            known[self._feature_scaling] = scaled_scatter(moments, self._feature_scaling)
        self.scaling_, scatter = known[self._feature_scaling]
        self._learn(scatter, Span.everything(self.n_features_in_), shared)

    def _begin_learning(self, labels: Labels, classes: Any) -> None:
        self._learn_classes(labels, classes)  # first: if it fails, partial_fit can go on with the images so far
        self.__dict__.pop("_accumulated", None)
        self.record_ = self.calibration_ = None

    def _fit_few(self, shared: dict[str, Any], X: Floats, y: Labels, classes: Any) -> Self:
        """Fit in coordinates of the span of fewer images than half the number of features."""
        self._begin_learning(y, classes)
        known = shared.setdefault("span", {})
        if self._feature_scaling not in known:
            scaling = FeatureScaling.learned(self._feature_scaling, X, y)
            basis = Span.of(scaling(X).astype(np.float64))
            targets = np.searchsorted(self.seen_classes_, y)
            known[self._feature_scaling] = scaling, Scatter.of(basis.X, targets, len(self.seen_classes_)), basis
        self.scaling_, scatter, span = known[self._feature_scaling]
        self._learn(scatter, span, shared)
        return self

    def _checked_images(self, X: Any, y: Any) -> tuple[Any, Labels]:
        """Validate images; rows on disk are checked when they are read."""
        if not isinstance(X, Rows):
            features, labels = self._checked(X, y, reset=True)
        else:
            features, labels = X, as_targets(y)
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a DataFrame
            if np.shape(labels) != (len(X),) or not len(X):
                raise DataError(f"{len(X)} images but labels of shape {np.shape(labels)}; give one label per image.")
        check_classification_targets(labels)
        return features, labels

    def _moments_of_blocks(self, blocks: Iterable[tuple[ArrayLike, ArrayLike]]) -> AllMoments:
        found = iter(blocks)
        first = next(found, None)
        if first is None:
            raise DataError("the iterator has no blocks; expected at least one pair of features (k, d) and labels (k,).")
        device = device_for(self.device, as_array(first[0], "features X"))
        with accumulator(self._normalisations, self.squares_by_class, device) as sums:
            first_row = 0
            for X, y in chain([first], found):
                features, labels = self._checked(X, y, first_row == 0, first_row)
                sums.add(features, labels)
                first_row += len(features)
            moments: AllMoments = sums.total()
        return moments

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scaling_")


def _described(classes: Any, labels: Labels) -> ClassTable:
    """Class table of a description of classes, or one-hot vectors of a list of labels."""
    from sightunseen.data.class_inputs import as_class_table

    if isinstance(classes, list | np.ndarray) and np.ndim(classes) == 1:
        return ClassTable.one_hot(classes)
    return as_class_table(classes, labels)


def _opened(path: Path, classes: Any) -> tuple[Any, Labels, Any]:
    """Training images, their labels and the class table of a data set."""
    from sightunseen.data import open_data

    data = open_data(path, classes=classes if isinstance(classes, str | Path) else None)
    table = data.classes if classes is None or isinstance(classes, str | Path) else classes
    return data.train.X, data.train.y, table
