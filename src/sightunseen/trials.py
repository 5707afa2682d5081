"""Trying settings: fit or adapt with each, measure on a fold of validation classes or on test data, together where it pays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from sightunseen.calibration import Calibration
from sightunseen.dataset import Fold, ZeroShotDataset, apart
from sightunseen.evaluation import measure
from sightunseen.methods import AdaptableClassifier, TrainedClassifier, ZeroShotClassifier
from sightunseen.methods.cvc import CVC
from sightunseen.training import Hook, Run, Training, train_together

POINTS = 10  # along training at which a model is measured

Grid = Mapping[str, Sequence[Any]]  # settings to choose among
Part = Fold | ZeroShotDataset  # what is fitted and measured on
Tried = list[dict[str, Any]]  # a setting each, with the points at which it was measured


class Measurements(Hook):
    """Measure the model on a fold, or on test data, at evenly spaced points along training."""

    def __init__(self, data: Part, points: int = POINTS) -> None:
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


@dataclass(frozen=True)
class Choice:
    """What was chosen (None: nothing), and how: ``report`` goes into the record."""

    settings: Mapping[str, Any]
    seen_penalty: float | None = None
    stop_after: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None


def try_settings(
    models: Sequence[ZeroShotClassifier],
    parts: Sequence[Sequence[Part]],
    grid: Grid | None,
    points: int = POINTS,
    hooks: Sequence[Hook] = (),
) -> list[Tried]:
    """Fit every model with every setting of the grid on each of its parts, and measure it there; means over the parts.

    What the training loop trains is trained together and measured at points along the way.
    """
    combinations = list(ParameterGrid(dict(grid or {})))
    curves: dict[tuple[int, int, int], list[dict[str, Any]]] = {}

    def trial(place: int, number: int, k: int) -> Run:
        stage = f"validation {number + 1} of {len(combinations)}, fold {k + 1} of {len(parts[place])}" + of_seed(models, place)
        part = parts[place][k]
        model: TrainedClassifier = clone(models[place]).set_params(**combinations[number])
        watch = [Measurements(part, points), *hooks]
        run = model.fitting(part.train.X, part.train.y, part.classes, hooks=watch, stage=stage)
        # The curve is all that is needed of it.
        return replace(run, finish=lambda training: curves.update({(place, number, k): training.curve}))

    def trials() -> Iterator[Callable[[], Run]]:
        for place, model in enumerate(models):
            for k, part in enumerate(parts[place]):
                if isinstance(model, TrainedClassifier):
                    yield from (partial(trial, place, number, k) for number in range(len(combinations)))
                    continue
                for number, fitted in enumerate(model.fit_each(combinations, part.train.X, part.train.y, part.classes)):
                    curves[place, number, k] = [measure(fitted, part)]

    train_together(trials())
    return [
        [
            {"settings": settings, "points": _means([curves[place, number, k] for k in range(len(parts[place]))])}
            for number, settings in enumerate(combinations)
        ]
        for place in range(len(models))
    ]


def try_adaptations(
    starts: Sequence[AdaptableClassifier],
    parts: Sequence[Part],
    settings: Mapping[str, Any],
    grid: Grid | None,
    hooks: Sequence[Hook] = (),
    hold_out: float = 0.0,
) -> Tried:
    """Adapt each model to the unseen images of its part with every setting of the grid, and measure it there.

    Where some of these images are held out, it is measured on them alone.
    """
    combinations = list(ParameterGrid(dict(grid or {})))
    adapted_to, measured_on = zip(*(apart(part, hold_out) for part in parts), strict=True)
    measured: dict[tuple[int, int], dict[str, Any]] = {}

    def rehearsal(k: int, number: int) -> Run:
        model, part = starts[k], parts[k]
        assert isinstance(model, CVC)
        stage = f"rehearsal {number + 1} of {len(combinations)}, fold {k + 1} of {len(parts)}"
        seen = {"X_seen": part.train.X, "y_seen": part.train.y}
        chosen = {**settings, **combinations[number]}
        run = model.adapting(adapted_to[k].test_unseen.X, part.unseen, hooks=hooks, stage=stage, **seen, **chosen)

        def finish(training: Training) -> None:
            run.finish(training)
            measured[number, k] = measure(run.model, measured_on[k])

        return replace(run, finish=finish)

    def rehearsals() -> Iterator[Callable[[], Run]]:
        for k, (model, part) in enumerate(zip(starts, parts, strict=True)):
            for number, combination in enumerate(combinations):
                if isinstance(model, CVC):
                    yield partial(rehearsal, k, number)
                else:
                    adapted = model.adapt(
                        adapted_to[k].test_unseen.X,
                        part.unseen,
                        X_seen=part.train.X,
                        y_seen=part.train.y,
                        **{**settings, **combination},
                    )
                    measured[number, k] = measure(adapted, measured_on[k])

    train_together(rehearsals())
    return [
        {"settings": combination, "points": _means([[measured[number, k]] for k in range(len(parts))])}
        for number, combination in enumerate(combinations)
    ]


def fit_together(
    models: Sequence[ZeroShotClassifier],
    choices: Sequence[Choice],
    parts: Sequence[Part],
    stages: Sequence[str],
    hooks: Sequence[Hook] = (),
) -> None:
    """Fit every model as was chosen for it, on its part; what the training loop trains is trained together."""

    def prepared(place: int) -> Run:
        model, part = models[place], parts[place]
        assert isinstance(model, TrainedClassifier)
        stage, stop_after = stages[place], choices[place].stop_after
        return model.fitting(part.train.X, part.train.y, part.classes, hooks=hooks, stage=stage, stop_after=stop_after)

    def runs() -> Iterator[Callable[[], Run]]:
        for place, (model, choice) in enumerate(zip(models, choices, strict=True)):
            penalty = {} if choice.seen_penalty is None else {"seen_penalty": choice.seen_penalty}
            model.set_params(**choice.settings, **penalty)
            if isinstance(model, TrainedClassifier):
                yield partial(prepared, place)
            else:
                model.fit(parts[place].train.X, parts[place].train.y, parts[place].classes)

    train_together(runs())
    for model, choice in zip(models, choices, strict=True):
        model.calibration_ = choice.calibration


def of_seed(models: Sequence[ZeroShotClassifier], place: int) -> str:
    """What tells the stages of several seeds apart; nothing where there is one."""
    return f", seed {getattr(models[place], 'seed', place)}" if len(models) > 1 else ""


def _means(curves: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The mean of every number over parts, point by point."""
    found = []
    for points in zip(*curves, strict=True):
        mean = _mean(points)
        found.append(mean | ({"tasks": points[0]["tasks"]} if "tasks" in mean else {}))
    return found


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of each number in a mapping; None where one of them is."""
    if isinstance(values[0], Mapping):
        return {name: _mean([value[name] for value in values]) for name in values[0]}
    return None if any(value is None for value in values) else float(np.mean(values))
