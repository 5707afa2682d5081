"""Base class of transductive methods that adapt by gradient descent in the training loop."""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.methods.base.adaptable import AdaptableClassifier, keyword_defaults
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.training import Hook, Objective, Optimisation, Run, Training, train


class GradientAdaptableClassifier(GradientTrainedClassifier, AdaptableClassifier):
    """Abstract base class of gradient-trained transductive methods.

    A subclass implements :meth:`_adaptation` instead of ``_adapt``. Hooks can then monitor, stop and resume ``adapt``.

    Attributes
    ----------
    history_ : list of dict
        Notes of the objective, for example one entry per round of self-training; after ``adapt``.
    losses_, curve_, engine_
        As after ``fit``; see :class:`GradientTrainedClassifier`.
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
        """Prepare the adaptation of this model, in place, to scaled features (m, d) of images of ``unseen`` classes.

        ``true_indices`` (m,) are the indices of the true classes in ``unseen``, or -1; they are for analysis only and must not
        affect training. Subclasses declare their hyperparameters as keyword-only parameters with defaults.
        """

    @classmethod
    def adaptation_defaults(cls) -> dict[str, Any]:
        """Return the hyperparameters of :meth:`adapt` with their default values."""
        return keyword_defaults(cls._adaptation)

    def adapt(self, X_unlabelled: ArrayLike, candidates: ArrayLike | str = "unseen", **options: Any) -> Self:
        """Return a copy of the model, adapted to unlabelled images of unseen classes.

        Parameters
        ----------
        X_unlabelled : array-like of shape (m, d)
            Features of the unlabelled images.
        candidates : array-like of labels or "unseen", default="unseen"
            Unseen classes that the images belong to.
        **options
            Other parameters of :meth:`adaptation_run`: ``X_seen``, ``y_seen``, ``true_labels``, ``hooks``, ``stage`` and the
            hyperparameters of the adaptation.

        Returns
        -------
        GradientAdaptableClassifier
            The adapted model; this model is not changed.

        Raises
        ------
        SettingsError
            If a hyperparameter is unknown or invalid.
        DataError
            If the images are invalid, a candidate is a seen class, or images of the seen classes are missing.
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
        """Prepare the training run of :meth:`adapt`.

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
        true_labels : array-like of shape (m,), default=None
            True labels for analysis. They are used for ``history_`` and never for training.
        hooks : sequence of Hook, default=()
            Callbacks of the training loop.
        stage : str, default="adapting"
            Name of the run in checkpoints and progress bars.
        **parameters
            Hyperparameters of the adaptation; see :meth:`adaptation_defaults`.

        Returns
        -------
        Run
            Run for :func:`~sightunseen.training.train`; its ``model`` is the adapted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is unknown or invalid.
        DataError
            If the images are invalid, a candidate is a seen class, or images of the seen classes are missing.
        """
        self.check_adaptation(parameters)
        unseen = self._classes_to_adapt_to(candidates)
        images = self._seen_images(X_seen, y_seen)
        unlabelled = self._features(X_unlabelled)
        if true_labels is not None and len(np.asarray(true_labels)) != len(unlabelled):
            raise DataError(
                f"true_labels has {len(np.asarray(true_labels))} labels for {len(unlabelled)} unlabelled images. "
                "Give one label per image, or leave true_labels out."
            )
        truth = None if true_labels is None else _indices_or_none(unseen, np.asarray(true_labels))
        adapted = copy.deepcopy(self)
        adapted._note_adaptation(parameters)
        objective, optimisation = adapted._adaptation(unlabelled, unseen, *images, truth, **parameters)

        def finish(training: Training) -> None:
            adapted.history_ = objective.notes
            adapted._end_training(training)
            adapted._remember_images(*images)

        return Run(objective, optimisation, hooks, stage, model=adapted, finish=finish)

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._remember_images(X, y)


def _indices_or_none(labels: Labels, wanted: Labels) -> NDArray[np.int64]:
    """Return the index of each wanted label in ``labels``, or -1."""
    index = {label: k for k, label in enumerate(labels.tolist())}
    return np.array([index.get(label, -1) for label in wanted.tolist()], dtype=np.int64)
