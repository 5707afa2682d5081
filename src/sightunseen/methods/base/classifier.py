"""The contract of every method: a scikit-learn classifier that also knows classes it has no images of."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sightunseen.core.blocks import row_blocks
from sightunseen.core.calibration import Calibration, probabilities
from sightunseen.core.checks import check_choice, check_number
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.linear import ClassifierMap, Linear
from sightunseen.core.metrics import per_class_accuracy
from sightunseen.core.model_files import ModelFiles, read_model, write_model
from sightunseen.core.records import RunRecord
from sightunseen.methods.base.feature_scaling import CENTRED, SCALINGS, FeatureScaling
from sightunseen.methods.base.known_classes import KnownClasses
from sightunseen.methods.base.serialisation import as_files, take_files

Floats = NDArray[np.float32]


class ZeroShotClassifier(ClassifierMixin, KnownClasses):  # type: ignore[misc]
    """Fit on images of seen classes and a class table; predict among any classes of the table.

    A method fills in ``fit`` (starting with :meth:`_begin_fit`) and :meth:`_scorer`, and, to be saved, :meth:`_arrays` and
    :meth:`_take_arrays`. After ``fit``: ``classes_`` are all labels that can be predicted, sorted; ``seen_classes_`` those
    with training images; ``table_`` the class table.

    Every method has the setting ``seen_penalty``; one with ``feature_scaling`` meets its features already scaled, and one
    with ``semantic_norm`` its class vectors. ``search_space`` are the values of its hyperparameters that are tried on
    validation classes by default; ``version`` goes up when a change of the code changes its answers.
    """

    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    version: ClassVar[int] = 1

    seen_penalty: float = 0.0
    record_: RunRecord | None
    calibration_: Calibration | None = None

    @abstractmethod
    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        """The function from checked and scaled features (n, d) to scores (n, c) for these classes, before any penalty.

        What depends on the classes alone is prepared here, once for all images.
        """

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, by name."""

    @abstractmethod
    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become the model that :meth:`_arrays` came from."""

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        check_number("seen_penalty", self.seen_penalty)
        if "feature_scaling" in self._get_param_names():
            check_choice("feature_scaling", self.feature_scaling, SCALINGS)
        if getattr(self, "semantic_norm", "sqrt") != "sqrt":
            check_number("semantic_norm ('sqrt', or a length)", self.semantic_norm, 0, optional=True)

    # -- predicting ----------------------------------------------------------------------------------------------------

    @property
    def temperature_(self) -> float:
        """What scores are divided by to give probabilities; 1 where ``calibration_`` is None."""
        return 1.0 if self.calibration_ is None else self.calibration_.temperature

    def predict(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Labels:
        """The best class of each image: (n, d) -> (n,) labels.

        ``candidates`` are labels, or one of the words ``all`` (default, GZSL), ``unseen`` (ZSL) and ``seen``.
        """
        labels = self.candidates(candidates)
        best = [scores.argmax(axis=1) for scores in self._score_blocks(X, labels)]
        return np.asarray(labels[np.concatenate(best)])

    def decision_function(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Scores (n, c), one column a candidate; (n,) for a model of two classes without ``candidates``, as in scikit-learn."""
        labels = self.candidates(candidates)
        scores = np.concatenate(list(self._score_blocks(X, labels)))
        return scores[:, 1] - scores[:, 0] if candidates is None and len(labels) == 2 else scores

    def scorer(self, candidates: ArrayLike | str | None = None) -> Callable[[ArrayLike], Floats]:
        """The function from images (n, d) to scores (n, c) of candidates that are asked about again and again.

        What depends on them alone is done once, here; a change of the model's classes does not reach it.
        """
        labels = self.candidates(candidates)
        scorer = self._scorer(labels)
        return lambda X: np.concatenate(list(self._score_blocks(X, labels, scorer)))

    def predict_proba(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Probabilities (n, c): softmax of the scores over the candidates (Eq. 2), divided by the calibrated temperature."""
        labels = self.candidates(candidates)
        return np.concatenate([probabilities(scores, self.temperature_) for scores in self._score_blocks(X, labels)])

    def is_none(self, scores: Floats, labels: Labels) -> NDArray[np.bool_]:
        """Whether images fit none of these classes, (n,), by their scores for them, (n, c); never without a calibration."""
        if self.calibration_ is None:
            return np.zeros(len(scores), dtype=bool)
        # A penalty that all candidates have says nothing about how well they fit.
        penalty = self.seen_penalty if np.isin(labels, self.seen_classes_).all() else 0.0
        return self.calibration_.is_none(scores + penalty)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        candidates: ArrayLike | str | None = None,
    ) -> float:
        """Per-class accuracy: every class counts the same."""
        return per_class_accuracy(y, self.predict(X, candidates))

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images (n, k) and classes (c, k) as points of the one space in which the method compares them.

        ``labels`` are those of the classes, or a word as for ``predict``. What compares otherwise refuses.
        """
        raise SettingsError(f"{type(self).__name__} has no joint embedding space of images and classes.")

    def to_linear(self, candidates: ArrayLike | str | None = None) -> Linear:
        """The scores of these classes, ``candidates`` as for ``predict``, as one linear map of the features in plain numpy.

        The penalty on seen classes is part of the bias. What scores otherwise refuses.
        """
        labels, made_of = self.candidates(candidates), self.classifier_map()
        if self.scaling_.kind == "range":
            raise SettingsError(
                "feature_scaling='range' cuts features off at 0 and 1, which no linear map does. Train with another one, or "
                "export the model as ONNX."
            )
        places = self.seen_indices(labels)
        weights, bias = made_of(self._vectors_of(labels), places)
        bias -= (self.seen_penalty * (places >= 0)).astype(np.float32)
        normalise = made_of.similarity == "cosine" or self.scaling_.kind in ("unit", *CENTRED)
        if self.scaling_.kind in CENTRED:
            assert self.scaling_.shift is not None
            bias -= weights @ self.scaling_.shift
            return Linear(labels, weights, bias, normalise, root=self.scaling_.kind == "root")
        return Linear(labels, weights, bias, normalise, self.scaling_.shift, self.scaling_.factor)

    def classifier_map(self) -> ClassifierMap:
        """How linear classifiers of scaled features are made of scaled class vectors. What scores otherwise refuses."""
        raise SettingsError(
            f"the scores of this {type(self).__name__} are not a linear function of the features, so it cannot be exported. "
            "docs/methods.md names the methods that can."
        )

    def _score_blocks(self, X: Any, labels: Labels, scorer: Callable[[Floats], Floats] | None = None) -> Iterator[Floats]:
        penalty = self.seen_penalty * np.isin(labels, self.seen_classes_).astype(np.float32)
        scorer = self._scorer(labels) if scorer is None else scorer
        for block in row_blocks(X):
            yield scorer(self._features(block)) - penalty

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit_sharing(self, shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit like :meth:`fit`, and share statistics with other fits to the same images.

        Parameters
        ----------
        shared : a dictionary that is passed to each of these fits, empty for the first one. A method whose fit begins with
            the same statistics whatever some hyperparameters are keeps them there.
        X, y, classes : as for ``fit``.
        """
        fitted: Self = self.fit(X, y, classes)
        return fitted

    def reference_panels(self) -> "dict[str, ZeroShotClassifier]":
        """Estimators whose joint embedding is drawn beside this one's, by title; this one itself stands among them."""
        return {type(self).__name__: self}

    def _begin_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None,
    ) -> tuple[Floats, Labels]:
        """Check settings and input, learn the class table; returns scaled features (n, d) and labels (n,)."""
        self.check_settings()
        features, labels = self._checked(X, y, reset=True)
        check_classification_targets(labels)
        table = self._table_for(labels, classes)
        self._forget()
        self._learn_classes(table, np.unique(labels))
        self.record_ = self.calibration_ = None
        self.scaling_ = FeatureScaling.learned(getattr(self, "feature_scaling", "none"), features)
        return self.scaling_(features), labels

    def _features(self, X: Any) -> Floats:
        """Features as the method meets them, (n, d): checked, and scaled as in training."""
        return self.scaling_(self._checked(X))

    def _checked(self, X: Any, y: Any = "no_validation", reset: bool = False) -> Any:
        """Features (n, d) in single precision, and labels where given, past scikit-learn's checks."""
        try:
            return validate_data(self, X, y, reset=reset, dtype=np.float32)
        except ValueError as error:
            raise DataError(str(error)) from error

    def _forget(self) -> None:
        """Drop what an earlier fit learned, where a method keeps more than ``fit`` sets anew."""

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, record: RunRecord | None = None) -> None:
        """Write the model folder ``path``; an earlier model of that name is replaced."""
        check_is_fitted(self)
        write_model(Path(path), as_files(self, record or self.record_))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model folder written by :meth:`save`."""
        files = read_model(Path(path))
        if files.method != cls.__name__:
            raise ModelError(f"{path} holds a {files.method} model, not {cls.__name__}. Load it with {files.method}.load.")
        return cls.from_files(files)

    @classmethod
    def from_files(cls, files: ModelFiles) -> Self:
        """The model of a folder already read."""
        model = cls(**files.content["settings"])
        take_files(model, files)
        return model
