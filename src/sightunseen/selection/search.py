"""Trying hyperparameters: fit or adapt with every combination on every class fold, and measure it there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from sightunseen.core.dataset import Fold, ZeroShotDataset, apart
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Choice, Grid, Tried, combinations
from sightunseen.selection.evaluation import measure
from sightunseen.training import Hook, Run, Training, train_together

POINTS = 10  # stopping points, evenly spaced along training, at which a gradient-trained model is measured

Curve = list[dict[str, Any]]  # what was measured, a point each


class Measurements(Hook):
    """Measure the model on a fold, or on test data, at evenly spaced points along training."""

    def __init__(self, data: Fold | ZeroShotDataset, points: int = POINTS) -> None:
        self.data = data
        self.points = points

    def on_chunk(self, training: Training) -> None:
        """Note the steps done, loss, T1, U, S, H, AUSUC, and the seen penalty at which H is best, with that H."""
        every = training.optimisation.n_steps / self.points
        due = int(training.steps_done / every) > int(training.steps_before / every)
        if not due and not training.finished:
            return
        measured = measure(training.model, self.data)
        training.curve.append({"steps": training.steps_done, "loss": training.losses[-1][1], **measured})


def search(
    models: Sequence[ZeroShotClassifier], folds: Sequence[Sequence[Fold]], grid: Grid, hooks: Sequence[Hook] = ()
) -> list[Tried]:
    """Measure models of several seeds with every combination of the grid on each of their own folds; means over the folds."""
    if isinstance(models[0], GradientTrainedClassifier):
        curves = _gradient_trained_curves(models, folds, combinations(grid), hooks)
    else:
        curves = [_closed_form_curves(model, own, combinations(grid)) for model, own in zip(models, folds, strict=True)]
    return [_tried(combinations(grid), of_model) for of_model in curves]


def _closed_form_curves(model: Any, folds: Sequence[Fold], grid: Sequence[Mapping[str, Any]]) -> list[list[Curve]]:
    """A curve of a single point for every combination and fold."""
    curves: list[list[Curve]] = [[] for _ in grid]
    for fold in folds:
        shared: dict[str, Any] = {}
        for parameters, curve in zip(grid, curves, strict=True):
            candidate = clone(model).set_params(**parameters)
            candidate.fit_sharing(shared, fold.train.X, fold.train.y, fold.classes)
            curve.append([measure(candidate, fold)])
    return curves


def _gradient_trained_curves(
    models: Sequence[GradientTrainedClassifier],
    folds: Sequence[Sequence[Fold]],
    grid: Sequence[Mapping[str, Any]],
    hooks: Sequence[Hook],
) -> list[list[list[Curve]]]:
    """A curve for every model, combination and fold. All of them are trained together, which engines make use of."""
    curves: list[list[list[Curve]]] = [[[[] for _ in own] for _ in grid] for own in folds]

    def trial(m: int, k: int, c: int) -> Run:
        fold = folds[m][k]
        stage = f"validation {c + 1} of {len(grid)}, fold {k + 1} of {len(folds[m])}" + of_seed(models, m)
        candidate: GradientTrainedClassifier = clone(models[m]).set_params(**grid[c])
        watch = [Measurements(fold), *hooks]
        run = candidate.fitting(fold.train.X, fold.train.y, fold.classes, hooks=watch, stage=stage)
        return replace(run, finish=lambda training: curves[m][c][k].extend(training.curve))  # all that is needed of it

    trials = [(m, k, c) for m, own in enumerate(folds) for k in range(len(own)) for c in range(len(grid))]
    train_together([partial(trial, *which) for which in trials])
    return curves


def search_adaptation(
    models: Sequence[AdaptableClassifier],
    folds: Sequence[Fold],
    fixed: Mapping[str, Any],
    grid: Grid,
    hooks: Sequence[Hook] = (),
    hold_out: float = 0.0,
) -> Tried:
    """Adapt the model of each fold to its validation images with every combination, and measure it; means over the folds.

    Parameters
    ----------
    models, folds : one model a fold, fitted to its training images.
    fixed, grid : the hyperparameters of ``adapt`` that are given, and those to choose.
    hold_out : the share of the validation classes' images that is measured on instead of adapted to; 0: all are both.
    """
    curves: list[list[Curve]] = [[[] for _ in folds] for _ in combinations(grid)]
    pairs = [apart(fold, hold_out) for fold in folds]  # adapted to, measured on
    trials = [(k, c) for k in range(len(folds)) for c in range(len(curves))]

    def options(k: int, c: int) -> dict[str, Any]:
        train = folds[k].train
        return {"X_seen": train.X, "y_seen": train.y, **fixed, **combinations(grid)[c]}

    def rehearsal(k: int, c: int) -> Run:
        model, (adapted_to, measured_on) = models[k], pairs[k]
        assert isinstance(model, GradientAdaptableClassifier)
        stage = f"rehearsal {c + 1} of {len(curves)}, fold {k + 1} of {len(folds)}"
        run = model.adaptation_run(adapted_to.test_unseen.X, folds[k].unseen, hooks=hooks, stage=stage, **options(k, c))

        def finish(training: Training) -> None:
            run.finish(training)
            curves[c][k].append(measure(run.model, measured_on))

        return replace(run, finish=finish)

    if isinstance(models[0], GradientAdaptableClassifier):
        train_together([partial(rehearsal, *which) for which in trials])
    else:
        for k, c in trials:
            adapted_to, measured_on = pairs[k]
            adapted = models[k].adapt(adapted_to.test_unseen.X, folds[k].unseen, **options(k, c))
            curves[c][k].append(measure(adapted, measured_on))
    return _tried(combinations(grid), curves)


def fit_chosen(
    models: Sequence[ZeroShotClassifier],
    choices: Sequence[Choice],
    data: Sequence[Fold | ZeroShotDataset],
    stages: Sequence[str],
    hooks: Sequence[Hook] = (),
) -> None:
    """Fit every model as was chosen for it, each on its data; gradient-trained ones are trained together."""
    for model, choice in zip(models, choices, strict=True):
        model.set_params(**choice.parameters)

    def prepared(m: int) -> Run:
        model, train = models[m], data[m].train
        assert isinstance(model, GradientTrainedClassifier)
        stop_after = choices[m].stop_after
        return model.fitting(train.X, train.y, data[m].classes, hooks=hooks, stage=stages[m], stop_after=stop_after)

    if isinstance(models[0], GradientTrainedClassifier):
        train_together([partial(prepared, m) for m in range(len(models))])
    else:
        for model, part in zip(models, data, strict=True):
            model.fit(part.train.X, part.train.y, part.classes)
    for model, choice in zip(models, choices, strict=True):
        model.calibration_ = choice.calibration


def of_seed(models: Sequence[Any], m: int) -> str:
    """The part of a stage's name that tells several seeds apart; empty for one."""
    return f", seed {getattr(models[m], 'seed', m)}" if len(models) > 1 else ""


def _tried(grid: Sequence[Mapping[str, Any]], curves: Sequence[Sequence[Curve]]) -> Tried:
    return [{"settings": dict(settings), "points": _means(curve)} for settings, curve in zip(grid, curves, strict=True)]


def _means(curves: Sequence[Curve]) -> Curve:
    """The mean of every number over folds, point by point."""
    found = []
    for points in zip(*curves, strict=True):
        mean = _mean(points)
        whole = {"steps": points[0]["steps"]} if "steps" in mean else {}
        found.append({**mean, **whole, "H_of_folds": [point["H_at_best_penalty"] for point in points]})
    return found


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of each number in a mapping; None where one of them is."""
    if isinstance(values[0], Mapping):
        return {name: _mean([value[name] for value in values]) for name in values[0]}
    return None if any(value is None for value in values) else float(np.mean(values))
