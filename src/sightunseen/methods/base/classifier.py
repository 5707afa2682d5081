"""Base class of all methods: a scikit-learn classifier whose candidates may include classes without training images."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_number
from sightunseen.core.class_table import Labels
from sightunseen.core.documents import DocumentError, quoted
from sightunseen.core.errors import DataError, MissingDependencyError, ModelError, SettingsError, SightUnseenError
from sightunseen.core.frames import as_features, as_targets
from sightunseen.core.linear import ClassifierMap, Linear
from sightunseen.core.model_files import ModelFiles, read_model, write_model
from sightunseen.core.records import RunRecord
from sightunseen.methods.base.feature_scaling import CENTRED, ONE_VIEW, FeatureScaling
from sightunseen.methods.base.frame_output import FrameOutput
from sightunseen.methods.base.presets import Preset
from sightunseen.methods.base.serialisation import as_files, method_name, take_files

# What numerical libraries raise for values that pass the checks of a model folder but that they cannot compute with.
UNUSABLE = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class ZeroShotClassifier(FrameOutput):
    """Abstract base class of zero-shot classifiers.

    An estimator is fitted to images of seen classes and to a class table, and predicts among any classes of the table.

    A subclass implements ``fit``, which starts with :meth:`_begin_fit`, and :meth:`_scorer`; for saving and loading it
    implements :meth:`_arrays` and :meth:`_take_arrays`. All estimators have the hyperparameter ``seen_penalty``, the seen-class
    bias γ of calibrated stacking (Chao et al., 2016), which is subtracted from the scores of seen classes. If the constructor
    has a parameter ``feature_scaling`` or ``semantic_norm``, the base class scales features or class vectors accordingly.

    Attributes
    ----------
    table_ : ClassTable
        Class vectors of all classes that can be predicted.
    classes_ : ndarray of shape (c,)
        Labels of all classes that can be predicted, sorted.
    seen_classes_ : ndarray of shape (s,)
        Labels of the classes with training images, sorted.
    unseen_classes_ : ndarray of shape (c - s,)
        Labels of the classes without training images, sorted.
    n_features_in_ : int
        Number of features (d).
    scaling_ : FeatureScaling
        Fitted feature scaling.
    calibration_ : Calibration or None
        Softmax temperature and rejection threshold, if the model is calibrated.
    record_ : RunRecord or None
        Record of the run that produced the model.

    Notes
    -----
    The class attribute ``search_space`` maps hyperparameters to the values that are compared on validation classes by default.
    ``presets`` are named hyperparameters; every gradient-trained method has the budget ``full`` there, and the budget ``quick``
    are its defaults. ``semantics`` is the kind of class vectors that a method needs; None: any.
    ``feature_scalings`` are the values that ``feature_scaling`` may have. ``unit_variance`` is whether whitened
    features are scaled to unit variance, as by ``"standard"``, instead of images to a root mean squared length of one.
    ``quick`` is whether a fit takes seconds, so that hyperparameters are compared on several class folds. ``version``
    is increased whenever a change of the code changes predictions. ``earlier_settings`` are the values of hyperparameters
    that model folders of earlier releases lack, where these differ from the defaults.
    """

    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    presets: ClassVar[Mapping[str, Preset]] = {}
    feature_scalings: ClassVar[tuple[str, ...]] = ONE_VIEW
    unit_variance: ClassVar[bool] = False
    quick: ClassVar[bool] = True
    version: ClassVar[int] = 1
    earlier_settings: ClassVar[Mapping[str, Any]] = {}
    semantics: ClassVar[str | None] = None

    record_: RunRecord | None

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned arrays by name, for saving."""

    @abstractmethod
    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the learned state from the result of :meth:`_arrays`."""

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        """Declare the arrays that :meth:`_take_arrays` needs; they are checked before it is called.

        ``arrays`` are those of the model folder, not yet checked.
        """
        return {}

    def check_settings(self) -> None:
        """Validate the hyperparameters; ``fit`` calls this first.

        Raises
        ------
        SettingsError
            If a hyperparameter has a wrong type or value.
        """
        check_number("seen_penalty", self.seen_penalty)
        if "feature_scaling" in self._get_param_names():
            check_choice("feature_scaling", self.feature_scaling, self.feature_scalings)
        if getattr(self, "semantic_norm", "sqrt") != "sqrt":
            check_number("semantic_norm ('sqrt', or a length)", self.semantic_norm, 0, optional=True)

    @classmethod
    def check_origin(cls, backbone: Mapping[str, Any] | None, semantics: str) -> None:
        """Check that a method can compare features and class vectors of these origins; most methods learn to, from any.

        Parameters
        ----------
        backbone : mapping or None
            Description of the backbone of the features; None: unknown.
        semantics : str
            Name of the class vectors.

        Raises
        ------
        DataError
            If the method needs others.
        """

    def check_restored_settings(self) -> None:
        """Validate the hyperparameters of a model that is loaded, perhaps on another machine than it was trained on."""
        self.check_settings()

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Embed images and classes in the joint embedding space in which the method compares them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        labels : array-like of labels, "all", "seen", "unseen" or None
            Classes to embed, as the candidates of :meth:`predict`.

        Returns
        -------
        images : ndarray of shape (n, k)
            Embedded images.
        classes : ndarray of shape (c, k)
            Embedded classes.

        Raises
        ------
        SettingsError
            If the method has no joint embedding space.
        """
        raise SettingsError(f"{type(self).__name__} has no joint embedding space of images and classes.")

    def to_linear(self, candidates: ArrayLike | str | None = None) -> Linear:
        """Convert the model to a linear classifier in plain numpy for fixed candidates.

        The seen-class bias of calibrated stacking is included in the intercepts.

        Parameters
        ----------
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.

        Returns
        -------
        Linear
            Weights and intercepts of the candidates.

        Raises
        ------
        SettingsError
            If this model has no :meth:`classifier_map`, or the scores are not a linear function of the features.
        """
        labels, to_classifiers = self.candidates(candidates), self.classifier_map()
        if self.scaling_.kind == "range":
            raise SettingsError(
                "feature_scaling='range' cuts features off at 0 and 1, which is not linear. Train with another scaling, "
                "or export the model as ONNX."
            )
        if to_classifiers.similarity == "cosine" and self.scaling_.kind in CENTRED:
            raise SettingsError(
                f"the cosine with centred features (feature_scaling={self.scaling_.kind!r}) is not linear. Train with another "
                "scaling, or export the model as ONNX."
            )
        indices = self.seen_indices(labels)
        weights, bias = to_classifiers(self._vectors_of(labels), indices)
        bias -= (self.seen_penalty * (indices >= 0)).astype(np.float32)
        normalise = to_classifiers.similarity == "cosine" or self.scaling_.kind in ("unit", *CENTRED)
        if self.scaling_.kind in CENTRED:
            assert self.scaling_.shift is not None
            if self.scaling_.whitening is not None:
                weights = self.scaling_.whitening(weights)  # a symmetric map
            bias -= weights @ self.scaling_.shift
            weights, *plain = np.split(weights, self.scaling_.views, axis=1)
            root = self.scaling_.kind != "centred"
            return Linear(labels, weights, bias, normalise, root=root, plain=plain[0] if plain else None)
        return Linear(labels, weights, bias, normalise, self.scaling_.shift, self.scaling_.factor)

    def classifier_map(self) -> ClassifierMap:
        """Return the map from scaled class vectors to linear classifiers of scaled features.

        Returns
        -------
        ClassifierMap
            The map, for export.

        Raises
        ------
        SettingsError
            If this model has no such map.
        """
        raise SettingsError(
            f"this {type(self).__name__} cannot be exported: it has no map from class vectors to linear classifiers. "
            "docs/methods.md lists the methods that have one."
        )

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit_sharing(self, shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit like :meth:`fit`, sharing statistics between models with different hyperparameters.

        Parameters
        ----------
        shared : dict
            Cache, passed to all fits to the same images; empty at first. A method stores statistics there that do not depend
            on all of its hyperparameters.
        X : array-like of shape (n, d)
            Features of the images.
        y : array-like of shape (n,)
            Labels of the images.
        classes : ClassTable or other description of classes, default=None
            Seen and unseen classes, as for ``fit``.

        Returns
        -------
        self
            The fitted model.
        """
        fitted: Self = self.fit(X, y, classes)
        return fitted

    @property
    def takes_examples(self) -> bool:
        """Whether :meth:`add_examples` is available."""
        return False

    @property
    def example_counts(self) -> dict[Any, int]:
        """Number of examples added by :meth:`add_examples`, by label; classes without examples are left out."""
        return {}

    def add_examples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add a few labelled images of classes of the class table, without retraining.

        An unseen class remains an unseen class. Repeated calls accumulate examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the examples; one image per class is enough.
        y : array-like of shape (n,)
            Their labels: unseen or seen classes.

        Returns
        -------
        self
            The model itself.

        Raises
        ------
        SettingsError
            If the method cannot use examples. Foresight can.
        ModelError
            If the model was loaded from a folder of an earlier version, which lacks the statistics that examples need.
        DataError
            If the features are invalid or a label is not in the class table.
        """
        raise SettingsError(
            f"{type(self).__name__} cannot use examples of a class without retraining; Foresight can. Train a model with "
            "--method Foresight."
        )

    def reference_panels(self) -> "dict[str, ZeroShotClassifier]":
        """Return estimators, by title, whose joint embeddings are plotted next to that of this model, which is included."""
        return {type(self).__name__: self}

    def _begin_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Any, shared: dict[str, Any] | None = None
    ) -> tuple[Floats, Labels]:
        """Validate hyperparameters and input and store the class table; return scaled features (n, d) and labels (n,).

        With the cache ``shared`` of :meth:`fit_sharing`, each feature scaling is fitted once.
        """
        self.check_settings()
        features, labels = self._checked(X, y, reset=True)
        check_classification_targets(labels)
        self._learn_classes(labels, classes)
        self.record_ = self.calibration_ = None
        kind, known = getattr(self, "feature_scaling", "none"), {} if shared is None else shared.setdefault("scaling", {})
        if kind not in known:
            known[kind] = FeatureScaling.learned(kind, features, labels, self.unit_variance)
        self.scaling_ = known[kind]
        return self.scaling_(features), labels

    def _features(self, X: Any, first_row: int = 0) -> Floats:
        """Validate features (n, d) and scale them as in training; errors number the rows from ``first_row``."""
        return self.scaling_(self._checked(X, first_row=first_row))

    def _checked(self, X: Any, y: Any = "no_validation", reset: bool = False, first_row: int = 0) -> Any:
        """Validate features (n, d) and, if given, labels by scikit-learn; convert features to single precision."""
        targets = y if isinstance(y, str) else as_targets(y)  # "no_validation": no labels are expected
        try:
            return validate_data(self, as_features(X), targets, reset=reset, dtype=np.float32)
        except ValueError as error:
            raise DataError(_first_bad_value(X, first_row) or str(error)) from error

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, record: RunRecord | None = None) -> None:
        """Save the model as a folder.

        Parameters
        ----------
        path : str or Path
            Model folder; an existing model there is replaced.
        record : RunRecord, default=None
            Record of the run; None: ``record_``.
        """
        check_is_fitted(self)
        write_model(Path(path), as_files(self, record or self.record_))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a model folder written by :meth:`save`.

        Parameters
        ----------
        path : str or Path
            Model folder.

        Returns
        -------
        ZeroShotClassifier
            The fitted model.

        Raises
        ------
        ModelError
            If the folder is missing, damaged, or contains a model of another method.
        """
        files = read_model(Path(path))
        if files.method != method_name(cls):
            raise ModelError(f"{path} contains a {files.method} model, not {cls.__name__}. Load it with {files.method}.load.")
        return cls.from_files(files, path)

    @classmethod
    def from_files(cls, files: ModelFiles, path: str | Path = "the model folder") -> Self:
        """Create a fitted model from the content of a model folder.

        Parameters
        ----------
        files : ModelFiles
            The content.
        path : str or Path, default="the model folder"
            The folder, for the error message.

        Returns
        -------
        ZeroShotClassifier
            The fitted model.

        Raises
        ------
        ModelError
            If the content cannot be used.
        """
        model = cls()
        try:
            take_files(model, files)
        except MissingDependencyError:
            raise
        except (*UNUSABLE, SightUnseenError, DocumentError) as error:
            raise ModelError(
                f"{path} cannot be used as a {cls.__name__} model: {quoted(error, 240).rstrip('.')}. Copy the model folder "
                "again, or train again."
            ) from error
        return model


def _first_bad_value(X: Any, first_row: int) -> str:
    """Name the first value of a table of features that is not finite; empty if there is none or it is no table."""
    try:
        bad = np.argwhere(~np.isfinite(np.asarray(X)))
    except (TypeError, ValueError):  # not numbers
        return ""
    if not len(bad) or bad.shape[1] != 2:
        return ""
    row, column = bad[0].tolist()
    return (
        f"the features have a value that is NaN or infinite in row {first_row + row}, column {column} (counted from 0). Impute "
        "such values, or drop the images."
    )
