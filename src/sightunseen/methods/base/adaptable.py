"""Methods that can be adapted to unlabelled images of unseen classes: the transductive setting."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier


def keyword_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function, with their default values."""
    known = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in known if parameter.kind is parameter.KEYWORD_ONLY}


class AdaptableClassifier(ZeroShotClassifier):
    """A method fills in :meth:`_adapt` and, at the end of ``fit``, calls :meth:`_remember_images`.

    ``adaptation_space`` are the values of ``adapt``'s settings worth trying on validation classes.
    """

    adaptation_space: ClassVar[Mapping[str, Sequence[Any]]] = {}

    adaptation_: dict[str, Any] | None = None  # the hyperparameters of ``adapt``, once the model is adapted

    def _adapt(self, X: Floats, unseen: Labels, X_seen: Floats, y_seen: Labels, **settings: Any) -> None:
        """Adapt this model, a copy, to scaled features (m, d) of images of ``unseen`` classes.

        A method writes its settings out as keyword arguments with defaults; nothing else is accepted by ``adapt``.
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
        """A new model, adapted to unlabelled images of the candidate classes; this one is left as it is.

        Parameters
        ----------
        X_unlabelled, candidates : (m, d) images, without labels, and the classes they are of.
        X_seen, y_seen : the seen classes' images; those of ``fit`` unless given. A model loaded from disk needs them.
        **settings : of the method's transductive learning.
        """
        self.check_adaptation(settings)
        unseen = self._classes_to_adapt_to(candidates)
        images = self._images_to_remember(X_seen, y_seen)
        adapted = copy.deepcopy(self)
        adapted._adapt(self._features(X_unlabelled), unseen, *images, **settings)
        adapted._note_adaptation(settings)
        adapted._remember_images(*images)
        return adapted

    @classmethod
    def adaptation_defaults(cls) -> dict[str, Any]:
        """The hyperparameters that :meth:`adapt` takes, with their default values."""
        return keyword_defaults(cls._adapt)

    @property
    def is_adapted(self) -> bool:
        """Whether the model has met unlabelled images of unseen classes."""
        return self.adaptation_ is not None

    def check_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Validate hyperparameters of :meth:`adapt`, which does so first."""
        known = self.adaptation_defaults()
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise SettingsError(f"adapt has no setting '{unknown[0]}'; it has {', '.join(known)}.")

    def _note_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Note how this copy is adapted."""
        self.adaptation_ = {**self.adaptation_defaults(), **settings}
        # Seen penalty and calibration were chosen for a model that never met unseen images; this one has.
        self.seen_penalty, self.calibration_ = 0.0, None

    def _classes_to_adapt_to(self, candidates: ArrayLike | str) -> Labels:
        unseen = self.candidates(candidates)
        if not set(unseen.tolist()).isdisjoint(self.seen_classes_.tolist()):
            raise DataError("adapt learns about unseen classes; some of the candidates are seen classes. Leave those out.")
        return unseen

    def _remember_images(self, X: Floats, y: Labels) -> None:
        """Keep the scaled training images for ``adapt``; they are not copied, and neither saved nor pickled."""
        self._training_images = X, y

    def _images_to_remember(self, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Floats, Labels]:
        if (X is None) != (y is None):
            raise DataError("give X_seen and y_seen together, or neither.")
        if X is None:
            if self.__dict__.get("_training_images") is None:
                raise DataError(
                    "adapting keeps the seen classes in memory by their images, and a loaded model does not carry them. "
                    "Call adapt(..., X_seen=data.train.X, y_seen=data.train.y)."
                )
            return self._training_images
        features, labels = self._checked(X, y)
        if not np.array_equal(np.unique(labels), self.seen_classes_):
            raise DataError("X_seen and y_seen must hold images of exactly the classes that the model was trained on.")
        return self.scaling_(features), labels

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles carry what was learned, not the images it was learned from.
        return {name: value for name, value in super().__getstate__().items() if name != "_training_images"}
