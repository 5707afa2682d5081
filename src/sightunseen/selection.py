"""How settings are chosen. Honestly, on validation classes; or as the authors did, on the test data, and then said so."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
from sightunseen.training import Hook, Run, Training, train_together

POINTS = 10  # along training at which a model is measured


class Measurements(Hook):
    """Measure the model on a fold, or on test data, at evenly spaced points along training."""

    def __init__(self, data: ZeroShotDataset | Fold, points: int = POINTS) -> None:
        self.data = data
        self.points = points

    def on_chunk(self, training: Training) -> None:
        """Note tasks, loss, T1, U, S, H, AUSUC, and the penalty on seen classes at which H is best, with that H."""
        every = training.optimisation.n_tasks / self.points
        due = int(training.tasks_done / every) > int(training.tasks_before / every)
        if not due and not training.finished:
            return
        measured = measure(training.model, self.data)
        training.curve.append({"tasks": training.tasks_done, "loss": training.losses[-1][1], **measured})


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
    return each_on_validation_classes([model], data, grid, n_folds, points, hooks)[0]


def each_on_validation_classes(
    models: Sequence[CVC],
    data: ZeroShotDataset,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int = 1,
    points: int = POINTS,
    hooks: Sequence[Hook] = (),
) -> list[Choice]:
    """The same for models of several seeds, each for itself; all that is tried is trained together."""
    combinations = list(ParameterGrid(dict(grid or {})))
    curves: dict[tuple[int, int, int], list[dict[str, Any]]] = {}

    def trial(place: int, number: int, k: int, fold: Fold) -> Run:
        stage = f"validation {number + 1} of {len(combinations)}, fold {k + 1} of {n_folds}" + of_seed(models, place)
        model: CVC = clone(models[place]).set_params(**combinations[number])
        watch = [Measurements(fold, points), *hooks]
        run = model.fitting(fold.train.X, fold.train.y, fold.classes, hooks=watch, stage=stage)
        # The curve is all that is needed of it.
        return replace(run, finish=lambda training: curves.update({(place, number, k): training.curve}))

    def trials() -> Iterator[Callable[[], Run]]:
        for place, model in enumerate(models):
            for k, fold in enumerate(_usable_folds(data, n_folds, model.seed)):
                for number in range(len(combinations)):
                    yield partial(trial, place, number, k, fold)

    train_together(trials())
    choices = []
    for place, model in enumerate(models):
        tried = []
        for number, settings in enumerate(combinations):
            over_folds = zip(*(curves[place, number, k] for k in range(n_folds)), strict=True)
            tried.append({"settings": settings, "points": [_mean(points) for points in over_folds]})
        choices.append(_best_choice(tried, _usable_folds(data, n_folds, model.seed)))
    return choices


def of_seed(models: Sequence[CVC], place: int) -> str:
    """What tells the stages of several seeds apart; nothing where there is one."""
    return f", seed {models[place].seed}" if len(models) > 1 else ""


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
    starts: list[CVC] = [clone(model) for _ in folds]
    measured: dict[tuple[int, int], dict[str, Any]] = {}

    def start(k: int, fold: Fold) -> Run:
        stage, stop_after = f"validation, fold {k + 1} of {len(folds)}", model.n_tasks_ or None
        return starts[k].fitting(fold.train.X, fold.train.y, fold.classes, hooks=hooks, stage=stage, stop_after=stop_after)

    def rehearsal(k: int, fold: Fold, number: int) -> Run:
        stage = f"rehearsal {number + 1} of {len(combinations)}, fold {k + 1} of {len(folds)}"
        chosen = {**settings, **combinations[number]}
        run = starts[k].adapting(fold.test_unseen.X, fold.unseen, hooks=hooks, stage=stage, **chosen)

        def finish(training: Training) -> None:
            run.finish(training)
            measured[number, k] = measure(run.model, fold)

        return replace(run, finish=finish)

    train_together(partial(start, k, fold) for k, fold in enumerate(folds))
    places = [(k, fold, number) for k, fold in enumerate(folds) for number in range(len(combinations))]
    train_together(partial(rehearsal, *place) for place in places)
    tried = [
        {"settings": combination, "points": [_mean([measured[number, k] for k in range(len(folds))])]}
        for number, combination in enumerate(combinations)
    ]
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
