"""Training done again from a model's settings and watched on test data: nothing is chosen by it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.search import POINTS as STOPPING_POINTS
from sightunseen.selection.search import Measurements
from sightunseen.training import Hook, train

POINTS = 20  # along training that is watched at which a model is measured
MEASURED = ("T1", "U", "S", "H", "AUSUC")


@dataclass(frozen=True)
class Watched:
    """A model, trained or adapted again, and what was measured along the way."""

    model: ZeroShotClassifier
    curve: Sequence[Any]


@dataclass(frozen=True)
class Reruns:
    """What of a model's making could be repeated: None where there is no training loop, or nothing to adapt to.

    ``before`` is what an adapted model was made from, trained again. ``alike`` is the share of test images that the model
    and its rerun answer alike, where they should: a model adapted to other images, or kept at its best round on the test
    data, is not made again.
    """

    training: Watched | None = None
    adaptation: Watched | None = None
    before: ZeroShotClassifier | None = None
    alike: float | None = None


def rerun(model: ZeroShotClassifier, data: ZeroShotDataset, hooks: Sequence[Hook] = ()) -> Reruns:
    """Train ``model`` again, and adapt it again if it can be: as it was adapted, or else by the default hyperparameters.

    A method without a training loop is fitted again; if it was adapted, that is not repeated.
    """
    training = watched_training(model, data, hooks=hooks) if isinstance(model, GradientTrainedClassifier) else None
    again = _fitted_again(model, data) if training is None else training.model
    images, to_adapt_to = np.concatenate([data.test_unseen.X, data.test_seen.X]), len(data.test_unseen) > 0
    if not is_adapted(model):
        able = isinstance(model, AdaptableClassifier) and to_adapt_to
        adaptation = watched_adaptation(model, data, hooks=hooks) if able else None
        return Reruns(training, adaptation, alike=same_answers(model, again, images) if len(images) else None)
    if not isinstance(again, GradientAdaptableClassifier) or not to_adapt_to:
        return Reruns(training, before=again)
    adaptation = watched_adaptation(again, data, _adaptation_of(model), hooks, model.seen_penalty)
    return Reruns(training, adaptation, again, same_answers(model, adaptation.model, images) if _is_last(model) else None)


def watched_training(
    model: GradientTrainedClassifier, data: ZeroShotDataset, points: int = POINTS, hooks: Sequence[Hook] = ()
) -> Watched:
    """Train a copy for as long as ``model`` was; on the same machine it is the same, to the bit.

    Of an adapted model it is the training before that, with the penalty on seen classes of that time where a record tells
    it, else with none. The curve has tasks, loss, T1, U, S, H and AUSUC, or tasks and loss where there are no test images.
    """
    if not isinstance(model, GradientTrainedClassifier):
        raise SettingsError(f"{type(model).__name__} is not trained by tasks, so there is no training to watch.")
    copy = clone(model).set_params(seen_penalty=_penalty_in_training(model), device=model.any_device)
    tested = len(data.test_seen) or len(data.test_unseen)
    # Measurements counts its points along the whole schedule, which training may have left early.
    along = -(-points * model.n_steps // model.n_steps_)
    watch = [Measurements(data, along)] if tested else []
    stage, stop_after = "training again, watched", model.n_steps_
    copy.fit(data.train.X, data.train.y, data.classes, hooks=[*watch, *hooks], stage=stage, stop_after=stop_after)
    curve = copy.curve_ if tested else copy.losses_
    return Watched(copy, [_only(point, ("steps", "loss", *MEASURED)) for point in curve])


def watched_adaptation(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    settings: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = (),
    seen_penalty: float = 0.0,
) -> Watched:
    """Adapt an inductive model to the test images of the unseen classes, whose labels serve measuring alone.

    ``settings`` are those of the method's ``adapt``; ``seen_penalty`` is that of the adapted model, which changes what is
    measured and nothing that is learned. The curve has, for each round or stopping point of a method that is adapted by
    gradients, what the method notes as the round begins, its loss, and T1, U, S, H and AUSUC at its end; for any other, what
    the method notes.
    """
    if not len(data.test_unseen):
        raise DataError(f"{data.name} has no test images of unseen classes, so there is nothing to adapt to.")
    options = {"X_seen": data.train.X, "y_seen": data.train.y, **(settings or {})}
    if not isinstance(model, GradientAdaptableClassifier):
        adapted = model.adapt(data.test_unseen.X, data.unseen, **options)
        return Watched(adapted, getattr(adapted, "history_", ()))
    stage, truth = "adapting again, watched", data.test_unseen.y
    run = model.adaptation_run(data.test_unseen.X, data.unseen, true_labels=truth, stage=stage, **options)
    size = run.objective.round_size
    points = STOPPING_POINTS if size is None else run.optimisation.n_steps // size
    run.hooks = [Measurements(data, points), *hooks]
    run.model.seen_penalty = seen_penalty
    train(run)
    notes = run.model.history_ or [{}] * len(run.model.curve_)
    rounds = zip(notes, run.model.curve_, strict=True)
    return Watched(run.model, [{**note, **_only(point, MEASURED)} for note, point in rounds])


def same_answers(model: ZeroShotClassifier, other: ZeroShotClassifier, X: ArrayLike) -> float:
    """The share of images (n, d) that both models answer alike, among the classes that both know."""
    candidates = np.intersect1d(model.classes_, other.classes_)
    return float(np.mean(model.predict(X, candidates) == other.predict(X, candidates)))


def _fitted_again(model: ZeroShotClassifier, data: ZeroShotDataset) -> Any:
    again = clone(model).set_params(seen_penalty=_penalty_in_training(model))
    return again.fit(data.train.X, data.train.y, data.classes)


def _only(point: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: point[name] for name in names if name in point}


def is_adapted(model: ZeroShotClassifier) -> bool:
    """Whether a model has met unlabelled images of unseen classes."""
    # Folders of earlier releases tell it by their record alone.
    return getattr(model, "is_adapted", False) or (model.record_ is not None and model.record_.kind == "adapt")


def _penalty_in_training(model: ZeroShotClassifier) -> float:
    """The penalty on seen classes of a model; of an adapted one, that of the model it was adapted from."""
    if not is_adapted(model):
        return model.seen_penalty
    record: Mapping[str, Any] | None = None if model.record_ is None else asdict(model.record_)
    while record is not None and record["kind"] == "adapt":
        record = record["parent"]
    return 0.0 if record is None else float(record["settings"]["seen_penalty"])


def _adaptation_of(model: ZeroShotClassifier) -> Mapping[str, Any]:
    """The settings a model was adapted with; the default ones where neither it nor its record tells."""
    known = getattr(model, "adaptation_", None)
    if known is not None:
        return dict(known)
    return {} if model.record_ is None else dict(model.record_.settings.get("adaptation", {}))


def _is_last(model: ZeroShotClassifier) -> bool:
    """Whether an adapted model is of the last round, and of the data's own images: of others no label was known."""
    history = getattr(model, "history_", None) or (() if model.record_ is None else model.record_.history)
    return all("pool_accuracy" in note for note in history) and (model.record_ is None or model.record_.protocol == "honest")
