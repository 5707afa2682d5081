"""Repeated training and adaptation of a model, measured on test data along the way; nothing is selected by it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.metrics import MAIN
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.search import Measurements
from sightunseen.training import Hook, train

POINTS = 20  # measurements along a repeated training


@dataclass(frozen=True)
class Rerun:
    """A repeated training or adaptation.

    Parameters
    ----------
    model : ZeroShotClassifier
        The resulting model.
    curve : sequence of mapping
        Measurements along the way.
    """

    model: ZeroShotClassifier
    curve: Sequence[Any]


@dataclass(frozen=True)
class Reruns:
    """Repeated training and adaptation of a model.

    Parameters
    ----------
    training : Rerun or None
        Repeated training; None if the method has no gradient steps.
    adaptation : Rerun or None
        Repeated or, for an inductive model, first adaptation; None if the method cannot be adapted, or its adaptation cannot
        be repeated, or there are no test images of unseen classes.
    before : ZeroShotClassifier or None
        For an adapted model, the model it was adapted from, fitted again.
    agreement : float or None
        Share of test images for which the model and its rerun predict the same class. None if no equal model is expected:
        the model was adapted to other images, or the round with the best test results was kept.
    """

    training: Rerun | None = None
    adaptation: Rerun | None = None
    before: ZeroShotClassifier | None = None
    agreement: float | None = None


def rerun(model: ZeroShotClassifier, data: ZeroShotDataset, hooks: Sequence[Hook] = ()) -> Reruns:
    """Repeat the training of a model and, if possible, its adaptation.

    An adapted model is adapted with the same hyperparameters, an inductive one with the default ones. A method without
    gradient steps is fitted again; its adaptation is not repeated.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    data : ZeroShotDataset
        The data it was trained on.
    hooks : sequence of Hook, default=()
        Training hooks, such as a progress bar.

    Returns
    -------
    Reruns
        The repeated runs, and how well their predictions agree with those of ``model``.
    """
    training = repeat_training(model, data, hooks=hooks) if isinstance(model, GradientTrainedClassifier) else None
    again = _fitted_again(model, data) if training is None else training.model
    images, can_adapt = np.concatenate([data.test_unseen.X, data.test_seen.X]), len(data.test_unseen) > 0
    if not is_adapted(model):
        able = isinstance(model, AdaptableClassifier) and can_adapt
        adaptation = repeat_adaptation(model, data, hooks=hooks) if able else None
        comparable = len(images) > 0 and not model.example_counts  # examples were added after the training
        return Reruns(training, adaptation, agreement=prediction_agreement(model, again, images) if comparable else None)
    if not isinstance(again, GradientAdaptableClassifier) or not can_adapt:
        return Reruns(training, before=again)
    adaptation = repeat_adaptation(again, data, _adaptation_of(model), hooks, model.seen_penalty)
    agreement = prediction_agreement(model, adaptation.model, images) if _is_last_round(model) else None
    return Reruns(training, adaptation, again, agreement)


def repeat_training(
    model: GradientTrainedClassifier, data: ZeroShotDataset, points: int = POINTS, hooks: Sequence[Hook] = ()
) -> Rerun:
    """Train a copy of a model for the same number of gradient steps and measure it on test data.

    On the same machine the copy has the same weights, bit for bit. For an adapted model this is the training before the
    adaptation, with the seen-class bias of the parent's run record, or 0 without a record.

    Parameters
    ----------
    model : GradientTrainedClassifier
        A fitted model.
    data : ZeroShotDataset
        The data it was trained on.
    points : int, default=20
        Number of measurements.
    hooks : sequence of Hook, default=()
        Further training hooks.

    Returns
    -------
    Rerun
        The copy, and per measurement steps, loss, T1, U, S, H and AUSUC; steps and loss only if there are no test images.

    Raises
    ------
    SettingsError
        If the method is not trained by gradient steps.
    """
    if not isinstance(model, GradientTrainedClassifier):
        raise SettingsError(f"{type(model).__name__} is not trained by gradient steps, so it has no training curve.")
    copy = clone(model).set_params(seen_penalty=_penalty_in_training(model), device=model.any_device)
    tested = len(data.test_seen) or len(data.test_unseen)
    # Measurements spreads its points over the whole schedule, of which training may have done only a part.
    along = -(-points * model.n_steps // model.n_steps_)
    measurements = [Measurements(data, along)] if tested else []
    stage, stop_after = "repeating training", model.n_steps_
    copy.fit(data.train.X, data.train.y, data.classes, hooks=[*measurements, *hooks], stage=stage, stop_after=stop_after)
    curve = copy.curve_ if tested else copy.losses_
    return Rerun(copy, [_only(point, ("steps", "loss", *MAIN)) for point in curve])


def repeat_adaptation(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    settings: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = (),
    seen_penalty: float = 0.0,
) -> Rerun:
    """Adapt an inductive model to the test images of the unseen classes; their labels are used for measurements only.

    Parameters
    ----------
    model : AdaptableClassifier
        A fitted inductive model.
    data : ZeroShotDataset
        Data with test images of unseen classes.
    settings : mapping, default=None
        Hyperparameters of the method's ``adapt``.
    hooks : sequence of Hook, default=()
        Further training hooks.
    seen_penalty : float, default=0.0
        Seen-class bias of the adapted model; it affects the measurements, not the learned weights.

    Returns
    -------
    Rerun
        The adapted model and its history. For a method that is adapted by gradient steps, each entry also has the loss and
        T1, U, S, H and AUSUC at the end of the round.

    Raises
    ------
    DataError
        If there are no test images of unseen classes.
    """
    if not len(data.test_unseen):
        raise DataError(f"{data.name} has no test images of unseen classes, so there is nothing to adapt to.")
    options = {"X_seen": data.train.X, "y_seen": data.train.y, **(settings or {})}
    if not isinstance(model, GradientAdaptableClassifier):
        adapted = model.adapt(data.test_unseen.X, data.unseen, **options)
        return Rerun(adapted, getattr(adapted, "history_", ()))
    stage, truth = "repeating adaptation", data.test_unseen.y
    run = model.adaptation_run(data.test_unseen.X, data.unseen, true_labels=truth, stage=stage, **options)
    run.hooks = [Measurements(data), *hooks]
    run.model.seen_penalty = seen_penalty
    train(run)
    notes = run.model.history_ or [{}] * len(run.model.curve_)
    rounds = zip(notes, run.model.curve_, strict=True)
    return Rerun(run.model, [{**note, **_only(point, MAIN)} for note, point in rounds])


def prediction_agreement(model: ZeroShotClassifier, other: ZeroShotClassifier, X: ArrayLike) -> float:
    """Share of images for which two models predict the same class, among the classes that both know.

    Parameters
    ----------
    model, other : ZeroShotClassifier
        Fitted models.
    X : array-like of shape (n, d)
        Features of the images.

    Returns
    -------
    float
        A share between 0 and 1.
    """
    candidates = np.intersect1d(model.classes_, other.classes_)
    return float(np.mean(model.predict(X, candidates) == other.predict(X, candidates)))


def is_adapted(model: ZeroShotClassifier) -> bool:
    """Whether a model was adapted to unlabelled images of unseen classes."""
    # Models saved by earlier releases have it in their run record only.
    return getattr(model, "is_adapted", False) or (model.record_ is not None and model.record_.kind == "adapt")


def _fitted_again(model: ZeroShotClassifier, data: ZeroShotDataset) -> Any:
    again = clone(model).set_params(seen_penalty=_penalty_in_training(model))
    return again.fit(data.train.X, data.train.y, data.classes)


def _only(point: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: point[name] for name in names if name in point}


def _penalty_in_training(model: ZeroShotClassifier) -> float:
    """Seen-class bias of a model or, if it is adapted, of the model it was adapted from."""
    if not is_adapted(model):
        return model.seen_penalty
    record: Any = None if model.record_ is None else asdict(model.record_)
    while isinstance(record, Mapping) and record.get("kind") == "adapt":
        record = record.get("parent")
    settings = record.get("settings") if isinstance(record, Mapping) else None
    penalty = settings.get("seen_penalty") if isinstance(settings, Mapping) else None
    return float(penalty) if isinstance(penalty, int | float) else 0.0


def _adaptation_of(model: ZeroShotClassifier) -> Mapping[str, Any]:
    """Hyperparameters of a model's adaptation; empty, for the defaults, if neither the model nor its record has them."""
    known = getattr(model, "adaptation_", None)
    if known is not None:
        return dict(known)
    recorded = None if model.record_ is None else model.record_.settings.get("adaptation")
    return dict(recorded) if isinstance(recorded, Mapping) else {}


def _is_last_round(model: ZeroShotClassifier) -> bool:
    """Whether an adapted model is that of the last round, adapted to the test images: only these have known labels."""
    history = getattr(model, "history_", None) or (() if model.record_ is None else model.record_.history)
    known = all(isinstance(note, Mapping) and "pool_accuracy" in note for note in history)
    return known and (model.record_ is None or model.record_.protocol == "honest")
