"""Base class of methods that adapt to unlabelled images of unseen classes (transductive zero-shot learning)."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.rows import Rows
from sightunseen.methods.base.classifier import ZeroShotClassifier


def keyword_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword-only parameters of a function with their default values."""
    known = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in known if parameter.kind is parameter.KEYWORD_ONLY}


class AdaptableClassifier(ZeroShotClassifier):
    """Abstract base class of transductive methods.

    A subclass implements :meth:`_adapt`. If that needs images of the seen classes, ``fit`` ends with :meth:`_remember_images`.

    Attributes
    ----------
    adaptation_ : dict or None
        Hyperparameters of :meth:`adapt`, if the model is adapted.

    Notes
    -----
    The class attribute ``adaptation_space`` maps hyperparameters of :meth:`adapt` to the values that are compared on
    validation classes by default.
    """

    adaptation_space: ClassVar[Mapping[str, Sequence[Any]]] = {}

    adaptation_: dict[str, Any] | None = None

    def _adapt(self, X: Floats, unseen: Labels, X_seen: Floats, y_seen: Labels, **settings: Any) -> None:
        """Adapt this model, in place, to scaled features (m, d) of images of ``unseen`` classes.

        Subclasses declare their hyperparameters as keyword-only parameters with defaults; ``adapt`` accepts exactly these.
        """
        raise NotImplementedError

    def adapt(
        self,
        X_unlabelled: ArrayLike,
        candidates: ArrayLike | str = "unseen",
        *,
        X_seen: ArrayLike | None = None,
        y_seen: ArrayLike | None = None,
        **settings: Any,
    ) -> Self:
        """Return a copy of the model, adapted to unlabelled images of unseen classes.

        Parameters
        ----------
        X_unlabelled : array-like of shape (m, d)
            Features of the unlabelled images.
        candidates : array-like of labels or "unseen", default="unseen"
            Unseen classes that the images belong to.
        X_seen : array-like of shape (n, d), default=None
            Features of images of the seen classes; None: those of ``fit``. Required for a model loaded from disk.
        y_seen : array-like of shape (n,), default=None
            Labels of ``X_seen``.
        **settings
            Hyperparameters of the adaptation; see :meth:`adaptation_defaults`.

        Returns
        -------
        AdaptableClassifier
            The adapted model; this model is not changed. Its seen-class bias is zero and it is not calibrated.

        Raises
        ------
        SettingsError
            If a hyperparameter is unknown or invalid.
        DataError
            If the images are invalid, a candidate is a seen class, or images of the seen classes are missing.
        """
        self.check_adaptation(settings)
        unseen = self._classes_to_adapt_to(candidates)
        images = self._seen_images(X_seen, y_seen)
        adapted = copy.deepcopy(self)
        adapted._adapt(self._features(X_unlabelled), unseen, *images, **settings)
        adapted._note_adaptation(settings)
        adapted._remember_images(*images)
        return adapted

    @classmethod
    def adaptation_defaults(cls) -> dict[str, Any]:
        """Return the hyperparameters of :meth:`adapt` with their default values."""
        return keyword_defaults(cls._adapt)

    @property
    def is_adapted(self) -> bool:
        """Whether the model is adapted to unlabelled images of unseen classes."""
        return self.adaptation_ is not None

    def check_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Validate hyperparameters of :meth:`adapt`, which calls this first.

        Parameters
        ----------
        settings : mapping of str to object
            Hyperparameters by name.

        Raises
        ------
        SettingsError
            If a hyperparameter is unknown or, in some methods, invalid.
        """
        known = self.adaptation_defaults()
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise SettingsError(f"adapt has no hyperparameter '{unknown[0]}'; it has {', '.join(known)}.")

    def _forget(self) -> None:
        super()._forget()
        self.adaptation_ = None
        for name in ("history_", "_training_images"):
            self.__dict__.pop(name, None)

    def _note_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Store the hyperparameters of the adaptation; reset what was tuned for the model before it."""
        self.adaptation_ = {**self.adaptation_defaults(), **settings}
        self.seen_penalty, self.calibration_ = 0.0, None

    def _classes_to_adapt_to(self, candidates: ArrayLike | str) -> Labels:
        unseen = self.candidates(candidates)
        if not set(unseen.tolist()).isdisjoint(self.seen_classes_.tolist()):
            raise DataError("adapt expects unseen classes, but some of the candidates are seen classes. Leave those out.")
        return unseen

    def _remember_images(self, X: Floats, y: Labels) -> None:
        """Keep a reference to the scaled training images for ``adapt``; they are neither saved nor pickled."""
        self._training_images = X, y

    @property
    def needs_seen_images(self) -> bool:
        """Whether :meth:`adapt` needs images of the seen classes, ``X_seen`` and ``y_seen``."""
        return True

    def _seen_images(self, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Floats, Labels]:
        if (X is None) != (y is None):
            raise DataError("give X_seen and y_seen together, or neither.")
        if not self.needs_seen_images and (X is None or isinstance(X, Rows)):
            return np.empty((0, self.n_features_in_), dtype=np.float32), self.seen_classes_[:0]
        if X is None:
            if self.__dict__.get("_training_images") is None:
                raise DataError(
                    "adapt needs the images of the seen classes, and a loaded model does not contain them. "
                    "Call adapt(..., X_seen=data.train.X, y_seen=data.train.y)."
                )
            return self._training_images
        features, labels = self._checked(X, y)
        if not np.array_equal(np.unique(labels), self.seen_classes_):
            raise DataError("X_seen and y_seen must contain images of exactly the classes that the model was trained on.")
        return self.scaling_(features), labels

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles do not contain the training images.
        return {name: value for name, value in super().__getstate__().items() if name != "_training_images"}
