"""Methods that the training loop adapts to unlabelled images: the transductive setting, by gradients."""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.methods.base.adaptable import AdaptableClassifier, keyword_defaults
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.training import Hook, Objective, Optimisation, Run, Training, train


class GradientAdaptableClassifier(GradientTrainedClassifier, AdaptableClassifier):
    """A method fills in :meth:`_adaptation` instead of ``_adapt``; hooks can then watch, stop and resume ``adapt``.

    After ``adapt``: ``history_``, the notes of the objective, and ``losses_``, ``curve_`` and ``engine_`` as after ``fit``.
    """

    @abstractmethod
    def _adaptation(
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        true_indices: NDArray[np.int64] | None,
        **parameters: Any,
    ) -> tuple[Objective, Optimisation]:
        """What adapts this model, a copy, to scaled features (m, d) of images of ``unseen`` classes.

        ``true_indices`` (m,) are the images' classes among ``unseen``, -1 for any other, for analysis only: nothing may be
        learned from them. A method writes its hyperparameters out as keyword arguments with defaults.
        """

    @classmethod
    def adaptation_defaults(cls) -> dict[str, Any]:
        """The hyperparameters that :meth:`adapt` takes, with their default values."""
        return keyword_defaults(cls._adaptation)

    def adapt(self, X_unlabelled: ArrayLike, candidates: ArrayLike | str = "unseen", **options: Any) -> Self:
        """Adapt a copy of the model to unlabelled images of the candidate classes; this one is left as it is.

        Parameters
        ----------
        X_unlabelled, candidates : (m, d) images, without labels, and the classes they are of.
        **options : those of :meth:`adaptation_run`: ``X_seen``, ``y_seen``, ``true_labels``, ``hooks``, ``stage``, and the
            hyperparameters of the method's transductive learning.
        """
        run = self.adaptation_run(X_unlabelled, candidates, **options)
        train(run)
        adapted: Self = run.model
        return adapted

    def adaptation_run(
        self,
        X_unlabelled: ArrayLike,
        candidates: ArrayLike | str = "unseen",
        *,
        X_seen: ArrayLike | None = None,
        y_seen: ArrayLike | None = None,
        true_labels: ArrayLike | None = None,
        hooks: Sequence[Hook] = (),
        stage: str = "adapting",
        **parameters: Any,
    ) -> Run:
        """Prepare what :meth:`adapt` trains; the adapted model is the run's ``model``.

        Parameters
        ----------
        X_unlabelled, candidates : (m, d) images, without labels, and the classes they are of.
        X_seen, y_seen : the seen classes' images; those of ``fit`` unless given. A model loaded from disk needs them.
        true_labels : (m,) for analysis only: they reach ``history_`` and never training.
        hooks, stage : told how adapting goes, under this name.
        **parameters : the hyperparameters of the method's transductive learning.
        """
        self.check_adaptation(parameters)
        unseen = self._classes_to_adapt_to(candidates)
        images = self._images_to_remember(X_seen, y_seen)
        unlabelled = self._features(X_unlabelled)
        if true_labels is not None and len(np.asarray(true_labels)) != len(unlabelled):
            raise DataError(f"true_labels must be as many as the {len(unlabelled)} unlabelled images, or left out.")
        truth = None if true_labels is None else _indices_or_none(unseen, np.asarray(true_labels))
        adapted = copy.deepcopy(self)
        adapted._note_adaptation(parameters)
        objective, optimisation = adapted._adaptation(unlabelled, unseen, *images, truth, **parameters)

        def finish(training: Training) -> None:
            adapted.history_ = objective.notes
            adapted._end_training(training)
            adapted._remember_images(*images)

        return Run(objective, optimisation, hooks, stage, model=adapted, finish=finish)


def _indices_or_none(labels: Labels, wanted: Labels) -> NDArray[np.int64]:
    """The index of each wanted label among ``labels``; -1 for one that is not there."""
    index = {label: k for k, label in enumerate(labels.tolist())}
    return np.array([index.get(label, -1) for label in wanted.tolist()], dtype=np.int64)
