"""Methods that can be adapted to unlabelled images of unseen classes: the transductive setting."""

import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.classes import Labels
from sightunseen.errors import DataError, SettingsError
from sightunseen.methods._base import Floats, ZeroShotClassifier


class AdaptableClassifier(ZeroShotClassifier):
    """A method fills in :meth:`_adapt` and, at the end of ``fit``, calls :meth:`_remember_images`.

    ``adaptation_space`` are the values of ``adapt``'s settings worth trying on validation classes.
    """

    adaptation_space: ClassVar[Mapping[str, Sequence[Any]]] = {}

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
        self._check_adaptation(settings)
        unseen = self._classes_to_adapt_to(candidates)
        images = self._images_to_remember(X_seen, y_seen)
        adapted = copy.deepcopy(self)
        adapted._adapt(self._features(X_unlabelled), unseen, *images, **settings)
        # Penalty and calibration were chosen for a model that never met unseen images; this one has.
        adapted.seen_penalty, adapted.calibration_ = 0.0, None
        adapted._remember_images(*images)
        return adapted

    @classmethod
    def adaptation_settings(cls) -> list[str]:
        """The names of the settings that :meth:`adapt` takes."""
        known = inspect.signature(cls._adapt).parameters.values()
        return [parameter.name for parameter in known if parameter.kind is parameter.KEYWORD_ONLY]

    @classmethod
    def unasked_adaptation_search(cls, fixed: Iterable[str] = ()) -> dict[str, Sequence[Any]]:
        """As :meth:`unasked_search`, of the settings of ``adapt``."""
        return {name: values for name, values in cls.adaptation_space.items() if cls.search_unasked and name not in fixed}

    def _check_adaptation(self, settings: Mapping[str, Any]) -> None:
        unknown = sorted(set(settings) - set(self.adaptation_settings()))
        if unknown:
            raise SettingsError(f"adapt has no setting '{unknown[0]}'; it has {', '.join(self.adaptation_settings())}.")

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
