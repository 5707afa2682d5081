"""How settings are chosen. Honestly, on validation classes; or as the authors did, on the test data, and then said so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from sightunseen.dataset import Fold, ZeroShotDataset
from sightunseen.errors import DataError
from sightunseen.evaluation import evaluate
from sightunseen.methods.cvc import CVC
from sightunseen.metrics import harmonic_mean
from sightunseen.training import Hook, Training

POINTS = 10  # along training at which a model is measured


class Measurements(Hook):
    """Measure the model on a fold, or on test data, at evenly spaced points along training."""

    def __init__(self, data: ZeroShotDataset | Fold, points: int = POINTS) -> None:
        self.data = data
        self.points = points

    def on_chunk(self, training: Training) -> None:
        """Note tasks, loss, T1, U, S, H, AUSUC, and the penalty on seen classes at which H is best, with that H."""
        every = training.optimisation.n_tasks / self.points
        due = int(training.tasks_done / every) > int((training.tasks_done - training.objective.chunk_size) / every)
        if not due and not training.finished:
            return
        measured = measure(training.model, self.data)
        training.curve.append({"tasks": training.tasks_done, "loss": training.losses[-1], **measured})


def measure(model: CVC, data: ZeroShotDataset | Fold) -> dict[str, Any]:
    """T1, U, S, H, AUSUC, and the penalty on seen classes at which H is best, with that H."""
    result = evaluate(model, data)
    measured: dict[str, Any] = dict(result.summary())
    if result.curve is not None:
        further = result.curve.best_bonus()
        measured["best_penalty"] = model.seen_penalty + further
        measured["H_at_best_penalty"] = round(100 * harmonic_mean(*result.curve.at(further)), 2)
    return measured


@dataclass(frozen=True)
class Choice:
    """What was chosen (None: nothing), and how: ``report`` goes into the record."""

    settings: Mapping[str, Any]
    seen_penalty: float | None = None
    stop_after: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


def fixed() -> Choice:
    """Nothing is chosen: the settings are taken as they are."""
    return Choice({}, report={"by": "nobody: the settings are those given"})


def on_validation_classes(
    model: CVC,
    data: ZeroShotDataset,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int = 1,
    points: int = POINTS,
    hooks: Sequence[Hook] = (),
) -> Choice:
    """Try every setting of the grid on folds whose validation classes play the unseen ones; test images take no part.

    Chosen together: the setting, the number of tasks and the penalty on seen classes, by the H they reach on validation
    classes, averaged over folds.
    """
    folds = _usable_folds(data, n_folds, model.seed)
    tried = []
    combinations = list(ParameterGrid(dict(grid or {})))
    for number, settings in enumerate(combinations, start=1):
        curves = []
        for k, fold in enumerate(folds, start=1):
            stage = f"validation {number} of {len(combinations)}, fold {k} of {len(folds)}"
            trial = clone(model).set_params(**settings)
            watch = [Measurements(fold, points), *hooks]
            trial.fit(fold.train.X, fold.train.y, fold.classes, hooks=watch, stage=stage)
            curves.append(trial.curve_)
        tried.append({"settings": settings, "points": [_mean(over_folds) for over_folds in zip(*curves, strict=True)]})
    return _best_choice(tried, folds)


def adaptation_on_validation_classes(
    model: CVC,
    data: ZeroShotDataset,
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int = 1,
    hooks: Sequence[Hook] = (),
) -> Choice:
    """Rehearse Algorithm 2: on each fold train as ``model`` was trained, then adapt to the validation classes.

    Chosen together: the setting and the penalty on seen classes, by the H they reach on the validation classes and the
    held-out images of the fold's training classes, averaged over folds.
    """
    folds = _usable_folds(data, n_folds, model.seed)
    combinations = list(ParameterGrid(dict(grid or {})))
    results: list[list[dict[str, Any]]] = [[] for _ in combinations]
    for k, fold in enumerate(folds, start=1):
        stage = f"validation, fold {k} of {len(folds)}"
        start = clone(model).fit(
            fold.train.X, fold.train.y, fold.classes, hooks=hooks, stage=stage, stop_after=model.n_tasks_ or None
        )
        for number, combination in enumerate(combinations, start=1):
            stage = f"rehearsal {number} of {len(combinations)}, fold {k} of {len(folds)}"
            adapted = start.adapt(fold.test_unseen.X, fold.unseen, hooks=hooks, stage=stage, **{**settings, **combination})
            results[number - 1].append(measure(adapted, fold))
    tried = [{"settings": c, "points": [_mean(r)]} for c, r in zip(combinations, results, strict=True)]
    return _best_choice(tried, folds)


def best_point(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a tried setting at which H on validation classes is best."""
    return dict(max(entry["points"], key=lambda point: point["H_at_best_penalty"]))


def _best_choice(tried: Sequence[Mapping[str, Any]], folds: Sequence[Fold]) -> Choice:
    best = max(tried, key=lambda entry: best_point(entry)["H_at_best_penalty"])
    settings, point = best["settings"], best_point(best)
    stop_after = point.get("tasks")
    tasks = {} if stop_after is None else {"tasks": stop_after}
    report = {
        "by": "H on validation classes",
        "folds": _sizes(folds),
        "tried": list(tried),
        "chosen": {**settings, **tasks, "seen_penalty": point["best_penalty"]},
        "validation": {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC")},
    }
    return Choice(settings, point["best_penalty"], stop_after, report)


class BestOnTest(Measurements):
    """The authors' way: measure on the test data along training and keep the model of the best H."""

    def __init__(self, data: ZeroShotDataset, folder: Path, points: int = POINTS) -> None:
        super().__init__(data, points)
        self.folder = folder

    def on_chunk(self, training: Training) -> None:
        """Measure, and keep the model in ``folder`` while it is the best so far."""
        before = len(training.curve)
        super().on_chunk(training)
        if len(training.curve) > before and training.curve[-1] is _best_on_test(training.curve):
            if training.model.learned_classifiers_ is None:
                training.model.n_tasks_ = training.tasks_done
            training.model.save(self.folder)

    @staticmethod
    def report(curve: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the record says about this choice."""
        return {"by": "H on the TEST data (the authors' way)", "chosen": dict(_best_on_test(curve)), "tried": list(curve)}


def _best_on_test(curve: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(curve, key=lambda point: point["H"])


def _usable_folds(data: ZeroShotDataset, n_folds: int, seed: int) -> list[Fold]:
    folds = data.validation_folds(n_folds, seed)
    if not all(len(fold.test_seen) for fold in folds):
        raise DataError(
            "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
            "image. Add images, or train with fixed settings (--select none)."
        )
    return folds


def _mean(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of every number over folds."""
    mean = {name: float(np.mean([point[name] for point in points])) for name in points[0]}
    return mean | ({"tasks": points[0]["tasks"]} if "tasks" in mean else {})


def _sizes(folds: Sequence[Fold]) -> list[dict[str, int]]:
    return [{"training_classes": len(f.seen), "validation_classes": len(f.unseen), "images": len(f.train)} for f in folds]
