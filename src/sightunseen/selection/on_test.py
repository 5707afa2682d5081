"""The choice of most public code, an oracle: hyperparameters and stopping point by H on the TEST data. Only for ``paper``."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Choice, Grid, combinations
from sightunseen.selection.evaluation import measure
from sightunseen.selection.search import POINTS, Measurements
from sightunseen.training import Hook, Run, Training, train, train_together

BY = "H on the TEST data (an oracle, as in the authors' code)"

Method = TypeVar("Method", bound=ZeroShotClassifier)
Trained = TypeVar("Trained", bound=GradientTrainedClassifier)


class BestOnTest(Measurements):
    """Measure on the test data along training, and keep the model of the best H in ``folder``."""

    def __init__(self, data: ZeroShotDataset, folder: Path, points: int = POINTS) -> None:
        super().__init__(data, points)
        self.folder = folder

    def on_chunk(self, training: Training) -> None:
        """Measure, and save the model while it is the best so far."""
        before = len(training.curve)
        super().on_chunk(training)
        if len(training.curve) > before and training.curve[-1] is _best(training.curve):
            if not getattr(training.model, "is_adapted", False):
                training.model.n_steps_ = training.steps_done
            training.model.save(self.folder)


def fit_best_on_test(
    models: Sequence[Method],
    data: ZeroShotDataset,
    grid: Grid,
    workspace: Path,
    stages: Sequence[str],
    hooks: Sequence[Hook] = (),
) -> list[tuple[Method, Choice]]:
    """Fit models of several seeds with every combination to all training images; return the best of each on the test data.

    ``workspace`` is a folder for the best models of trainings under way.
    """
    parameters = combinations(grid)
    candidates = [[clone(model).set_params(**chosen) for chosen in parameters] for model in models]
    if isinstance(models[0], GradientTrainedClassifier):
        _train_best_on_test(candidates, data, workspace, stages, hooks)
        curves = [[list(candidate.curve_) for candidate in row] for row in candidates]
    else:
        curves = [[[measure(_fitted(candidate, data), data)] for candidate in row] for row in candidates]
    found = []
    for row, of_model in zip(candidates, curves, strict=True):
        number = _best_number(of_model)
        found.append((row[number], _choice(parameters, of_model, number)))
    return found


def adapt_best_on_test(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    images: Any,
    fixed: Mapping[str, Any],
    grid: Grid,
    workspace: Path,
    options: Mapping[str, Any],
) -> tuple[AdaptableClassifier, Choice]:
    """Adapt with every combination, and return the model, of its best round where there are rounds, with the best H on test.

    ``options`` are those of ``adapt`` that are no hyperparameters.
    """
    parameters = combinations(grid)
    adapted: list[AdaptableClassifier] = []
    curves: list[list[dict[str, Any]]] = []
    for number, chosen in enumerate(parameters):
        if isinstance(model, GradientAdaptableClassifier):
            several = f", {number + 1} of {len(parameters)}" if len(parameters) > 1 else ""
            run_options = {**options, **fixed, **chosen, "stage": f"adapting{several}"}
            found = _adapted_best_on_test(model, data, images, workspace / f"best-on-test-{number}", run_options)
            curves.append(list(found.curve_))
        else:
            found = model.adapt(images, data.unseen, **options, **fixed, **chosen)
            curves.append([measure(found, data)])
        adapted.append(found)
    number = _best_number(curves)
    return adapted[number], _choice(parameters, curves, number)


def _train_best_on_test(
    candidates: Sequence[Sequence[GradientTrainedClassifier]],
    data: ZeroShotDataset,
    workspace: Path,
    stages: Sequence[str],
    hooks: Sequence[Hook],
) -> None:
    """Train all candidates together, and set each to its best point."""
    numbers = [(m, c) for m, row in enumerate(candidates) for c in range(len(row))]
    folders = {(m, c): workspace / f"best-on-test-{candidates[m][c].seed}-{c}" for m, c in numbers}

    def trial(m: int, c: int) -> Run:
        several = f", {c + 1} of {len(candidates[m])}" if len(candidates[m]) > 1 else ""
        watch = [BestOnTest(data, folders[m, c]), *hooks]
        train = data.train
        return candidates[m][c].fitting(train.X, train.y, data.classes, hooks=watch, stage=stages[m] + several)

    train_together([partial(trial, *which) for which in numbers])
    for (m, c), folder in folders.items():
        _take_weights(candidates[m][c], folder)


def _adapted_best_on_test(
    model: GradientAdaptableClassifier, data: ZeroShotDataset, images: Any, folder: Path, options: Mapping[str, Any]
) -> GradientAdaptableClassifier:
    hooks = options.get("hooks", ())
    run = model.adaptation_run(images, data.unseen, **{**options, "hooks": ()})
    size = run.objective.round_size
    points = POINTS if size is None else run.optimisation.n_steps // size
    run.hooks = [BestOnTest(data, folder, points), *hooks]
    train(run)
    adapted: GradientAdaptableClassifier = run.model
    return _take_weights(adapted, folder)


def _take_weights(model: Trained, folder: Path) -> Trained:
    """Set the model to what was saved, with the history of its whole training."""
    model._take_arrays(type(model).load(folder)._arrays())
    return model


def _fitted(model: ZeroShotClassifier, data: ZeroShotDataset) -> Any:
    return model.fit(data.train.X, data.train.y, data.classes)


def _best_number(curves: Sequence[Sequence[Mapping[str, Any]]]) -> int:
    return max(range(len(curves)), key=lambda number: _best(curves[number])["H"])


def _best(curve: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(curve, key=lambda point: point["H"])


def _choice(parameters: Sequence[Mapping[str, Any]], curves: Sequence[list[dict[str, Any]]], number: int) -> Choice:
    settings, point = parameters[number], dict(_best(curves[number]))
    tried = [{"settings": dict(chosen), "points": curve} for chosen, curve in zip(parameters, curves, strict=True)]
    tasks = {"steps": point["steps"]} if "steps" in point else {}
    report = {"by": BY, "chosen": {**settings, **tasks}, "test": point, "tried": tried}
    return Choice(settings, None, point.get("steps"), report)
