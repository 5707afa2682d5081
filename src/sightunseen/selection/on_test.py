"""Selection on test data, for the ``paper`` protocol: hyperparameters and stopping point with the best H on the TEST images.

This is an oracle, as in most public code; it overestimates accuracy. The run record and every table name it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Choice, Grid, combinations
from sightunseen.selection.evaluation import measure
from sightunseen.selection.search import Curve, Measurements
from sightunseen.training import Hook, Run, Training, train, train_together

BY = "H on the TEST data (an oracle, as in the authors' code)"

Method = TypeVar("Method", bound=ZeroShotClassifier)


class BestOnTest(Measurements):
    """Evaluate a model on the test data along training, and save it whenever H is the best so far.

    Parameters
    ----------
    data : ZeroShotDataset
        The data.
    folder : Path
        The model folder to save to.
    """

    def __init__(self, data: ZeroShotDataset, folder: Path) -> None:
        super().__init__(data)
        self.folder = folder

    def on_chunk(self, training: Training) -> None:
        """Evaluate the model if a point has been reached, and save it if it is the best so far.

        Parameters
        ----------
        training : Training
            The training in progress.
        """
        before = len(training.curve)
        super().on_chunk(training)
        if len(training.curve) > before and training.curve[-1] is _best_point(training.curve):
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
    """Fit every combination to all training images, and return the best on the test data.

    Parameters
    ----------
    models : sequence of ZeroShotClassifier
        Unfitted models, one per seed.
    data : ZeroShotDataset
        The data, with test images of seen and unseen classes.
    grid : mapping of str to sequence
        The values to choose among.
    workspace : Path
        Folder for the best models of trainings in progress.
    stages : sequence of str
        Name of each model's training, for progress messages.
    hooks : sequence of Hook, default=()
        Called during gradient training.

    Returns
    -------
    list of (ZeroShotClassifier, Choice)
        For each seed the best fitted model, at its best stopping point, and the choice.
    """
    parameters = combinations(grid)
    candidates = [[clone(model).set_params(**chosen) for chosen in parameters] for model in models]
    images = data.train.X, data.train.y, data.classes
    runs: list[Callable[[], Run]] = []
    saved: list[tuple[GradientTrainedClassifier, Path]] = []
    for row, stage in zip(candidates, stages, strict=True):
        for c, candidate in enumerate(row):
            if isinstance(candidate, GradientTrainedClassifier):
                folder = workspace / f"best-on-test-{candidate.seed}-{c}"
                watching = [BestOnTest(data, folder), *hooks]
                runs.append(partial(candidate.fitting, *images, hooks=watching, stage=stage + _counted(c, len(row))))
                saved.append((candidate, folder))
            else:
                candidate.fit(*images)
    train_together(runs)
    for trained, folder in saved:
        _load_weights(trained, folder)
    return [_best_model(row, parameters, [_curve(candidate, data) for candidate in row]) for row in candidates]


def adapt_best_on_test(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    images: Any,
    fixed: Mapping[str, Any],
    grid: Grid,
    workspace: Path,
    options: Mapping[str, Any],
) -> tuple[AdaptableClassifier, Choice]:
    """Adapt a model with every combination, and return the best on the test data.

    Parameters
    ----------
    model : AdaptableClassifier
        A fitted model.
    data : ZeroShotDataset
        The data, with test images of seen and unseen classes.
    images : array-like of shape (m, d)
        Unlabelled images to adapt to.
    fixed : mapping
        Hyperparameters of ``adapt`` with fixed values.
    grid : mapping of str to sequence
        Hyperparameters of ``adapt`` to choose, with their values.
    workspace : Path
        Folder for the best models of trainings in progress.
    options : mapping
        Arguments of ``adapt`` that are not hyperparameters.

    Returns
    -------
    (AdaptableClassifier, Choice)
        The best adapted model, after its best round if it has rounds, and the choice.
    """
    parameters = combinations(grid)
    found: list[AdaptableClassifier] = []
    curves: list[Curve] = []
    for c, chosen in enumerate(parameters):
        arguments = {**options, **fixed, **chosen}
        if isinstance(model, GradientAdaptableClassifier):
            arguments["stage"] = "adapting" + _counted(c, len(parameters))
            adapted = _adapt_by_gradient(model, data, images, workspace / f"best-on-test-{c}", arguments)
            curves.append(list(adapted.curve_))
            found.append(adapted)
        else:
            found.append(model.adapt(images, data.unseen, **arguments))
            curves.append([measure(found[-1], data)])
    return _best_model(found, parameters, curves)


def _adapt_by_gradient(
    model: GradientAdaptableClassifier, data: ZeroShotDataset, images: Any, folder: Path, arguments: Mapping[str, Any]
) -> GradientAdaptableClassifier:
    """Adapt a model, evaluate it after every round, and return it after its best round."""
    run = model.adaptation_run(images, data.unseen, **{**arguments, "hooks": ()})
    run.hooks = [BestOnTest(data, folder), *arguments.get("hooks", ())]
    train(run)
    adapted: GradientAdaptableClassifier = run.model
    _load_weights(adapted, folder)
    return adapted


def _load_weights(model: GradientTrainedClassifier, folder: Path) -> None:
    """Set a model to its saved weights; its history of the whole training stays."""
    model._take_arrays(type(model).load(folder)._arrays())


def _curve(model: ZeroShotClassifier, data: ZeroShotDataset) -> Curve:
    return list(model.curve_) if isinstance(model, GradientTrainedClassifier) else [measure(model, data)]


def _counted(c: int, total: int) -> str:
    return f", {c + 1} of {total}" if total > 1 else ""


def _best_point(curve: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(curve, key=lambda point: point["H"])


def _best_model(
    models: Sequence[Method], parameters: Sequence[Mapping[str, Any]], curves: Sequence[Curve]
) -> tuple[Method, Choice]:
    """Return the model with the best H, and the choice with its report."""
    best = max(range(len(models)), key=lambda c: _best_point(curves[c])["H"])
    settings, point = parameters[best], dict(_best_point(curves[best]))
    tried = [{"settings": dict(chosen), "points": curve} for chosen, curve in zip(parameters, curves, strict=True)]
    steps = {"steps": point["steps"]} if "steps" in point else {}
    report = {"by": BY, "chosen": {**settings, **steps}, "test": point, "tried": tried}
    return models[best], Choice(settings, None, point.get("steps"), report)
