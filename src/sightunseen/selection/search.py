"""Grid search on class folds: fit or adapt with every combination of hyperparameters, and evaluate it on every fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from sightunseen.core.dataset import Fold, ZeroShotDataset, apart
from sightunseen.core.errors import ModelError
from sightunseen.core.seen_unseen import best_common_bonus
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, GradientTrainedClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Choice, Grid, Tried, check_points, combinations
from sightunseen.selection.evaluation import measure
from sightunseen.training import Hook, Run, Training, train_together

POINTS = 10  # stopping points, evenly spaced along training, at which a gradient-trained model is evaluated
LONG = 10_000  # number of steps from which training is long: more stopping points, and it may end early
POINTS_OF_LONG, PATIENCE = 20, 5

OF_FOLDS = {"T1": "T1", "H": "H_at_best_penalty"}

Curve = list[dict[str, Any]]  # measurements, one entry per stopping point; a closed-form method has one


class Measurements(Hook):
    """Evaluate a model at evenly spaced points along training, or at the end of every round if the objective has rounds.

    Parameters
    ----------
    data : Fold or ZeroShotDataset
        What to evaluate on.
    points : int, default=10
        Number of points of a training without rounds.
    """

    def __init__(self, data: Fold | ZeroShotDataset, points: int = POINTS) -> None:
        self.data = data
        self.points = points

    def on_resume(self, training: Training) -> None:
        """Check that a restored curve has the measurements of all points that were reached.

        Parameters
        ----------
        training : Training
            The training whose checkpoint was restored.

        Raises
        ------
        ModelError
            If measurements are missing or have other fields.
        """
        check_points(training.curve, isinstance(self.data, Fold))
        every = self._interval(training)
        ends = [0, *(steps for steps, _ in training.losses)]
        due = {end for before, end in pairwise(ends) if int(end / every) > int(before / every)}
        measured = [point["steps"] for point in training.curve]
        if not due <= set(measured) <= set(ends) or measured != sorted(set(measured)):
            raise ModelError("some of its measurements are missing")

    def on_chunk(self, training: Training) -> None:
        """Append steps, loss and the numbers of :func:`measure` to the training's curve, if a point has been reached.

        Parameters
        ----------
        training : Training
            The training in progress.
        """
        every = self._interval(training)
        due = int(training.steps_done / every) > int(training.steps_before / every)
        if not due and not training.finished:
            return
        measured = {name: value for name, value in measure(training.model, self.data).items() if name != "curve"}
        training.curve.append({"steps": training.steps_done, "loss": training.losses[-1][1], **measured})

    def _interval(self, training: Training) -> float:
        """Number of steps between two points."""
        return training.objective.round_size or training.optimisation.n_steps / self.points


class EarlyStopping(Measurements):
    """Evaluate a model on a class fold at its stopping points; long training ends when it stops improving.

    Training of 10,000 steps or more has 20 stopping points instead of 10, and ends when the last five did not improve H.

    Parameters
    ----------
    data : Fold
        The class fold.
    n_steps : int
        Number of steps of the whole training.
    """

    def __init__(self, data: Fold, n_steps: int) -> None:
        super().__init__(data, POINTS_OF_LONG if n_steps >= LONG else POINTS)
        self.patience = PATIENCE if n_steps >= LONG else None

    def on_resume(self, training: Training) -> None:
        """Check the restored curve, and end a training that had ended early.

        Parameters
        ----------
        training : Training
            The training whose checkpoint was restored.

        Raises
        ------
        ModelError
            If measurements are missing or have other fields.
        """
        super().on_resume(training)
        self._stop_if_stale(training)

    def on_chunk(self, training: Training) -> None:
        """Append a measurement to the training's curve, if a point has been reached, and end training that stops improving.

        Parameters
        ----------
        training : Training
            The training in progress.
        """
        super().on_chunk(training)
        self._stop_if_stale(training)

    def _stop_if_stale(self, training: Training) -> None:
        values = [point["H_at_best_penalty"] for point in training.curve]
        if self.patience is not None and values and len(values) - 1 - int(np.argmax(values)) >= self.patience:
            training.stop()


def search(
    models: Sequence[ZeroShotClassifier], folds: Sequence[Sequence[Fold]], grid: Grid, hooks: Sequence[Hook] = ()
) -> list[Tried]:
    """Fit and evaluate every combination of a grid on class folds.

    Parameters
    ----------
    models : sequence of ZeroShotClassifier
        Unfitted models, one per seed.
    folds : sequence of sequence of Fold
        The class folds of each model.
    grid : mapping of str to sequence
        The values to choose among.
    hooks : sequence of Hook, default=()
        Called during gradient training.

    Returns
    -------
    list of list of dict
        For each model and combination the ``settings`` and the ``points``: measurements at each stopping point that the
        training of every fold reached, averaged over the folds. ``steps`` is the sum of the gradient steps of all folds;
        closed-form methods do not have it.
    """
    parameters = combinations(grid)
    if isinstance(models[0], GradientTrainedClassifier):
        curves = _gradient_trained_curves(models, folds, parameters, hooks)
    else:
        curves = [_closed_form_curves(model, own, parameters) for model, own in zip(models, folds, strict=True)]
    return [_tried(parameters, of_model) for of_model in curves]


def _closed_form_curves(model: Any, folds: Sequence[Fold], parameters: Sequence[Mapping[str, Any]]) -> list[list[Curve]]:
    """Fit and evaluate every combination on every fold; a curve of a single point each."""
    curves = _empty_curves(parameters, folds)
    for k, fold in enumerate(folds):
        shared: dict[str, Any] = {}
        for c, chosen in enumerate(parameters):
            candidate = clone(model).set_params(**chosen)
            candidate.fit_sharing(shared, fold.train.X, fold.train.y, fold.classes)
            curves[c][k].append(measure(candidate, fold))
    return curves


def _gradient_trained_curves(
    models: Sequence[Any], folds: Sequence[Sequence[Fold]], parameters: Sequence[Mapping[str, Any]], hooks: Sequence[Hook]
) -> list[list[list[Curve]]]:
    """Train every model with every combination on every fold, as many together as an engine takes; a curve each."""
    curves = [_empty_curves(parameters, own) for own in folds]
    runs: list[Callable[[], Run]] = []
    for m, model in enumerate(models):
        for k, fold in enumerate(folds[m]):
            for c, chosen in enumerate(parameters):
                stage = f"validation {c + 1} of {len(parameters)}, fold {k + 1} of {len(folds[m])}" + of_seed(models, m)
                runs.append(partial(_validation_run, model, chosen, fold, hooks, stage, curves[m][c][k]))
    train_together(runs)
    return curves


def _validation_run(
    model: GradientTrainedClassifier, chosen: Mapping[str, Any], fold: Fold, hooks: Sequence[Hook], stage: str, curve: Curve
) -> Run:
    """Prepare the training of one combination on one fold; its measurements are added to ``curve``."""
    candidate: GradientTrainedClassifier = clone(model).set_params(**chosen)
    watching = [EarlyStopping(fold, candidate.n_steps), *hooks]
    run = candidate.fitting(fold.train.X, fold.train.y, fold.classes, hooks=watching, stage=stage)
    return replace(run, finish=lambda training: curve.extend(training.curve))  # the fitted model is not needed


def search_adaptation(
    models: Sequence[AdaptableClassifier],
    folds: Sequence[Fold],
    fixed: Mapping[str, Any],
    grid: Grid,
    hooks: Sequence[Hook] = (),
    hold_out: float = 0.0,
    seed: int = 0,
) -> Tried:
    """Adapt the model of each fold to its validation classes with every combination, and evaluate it.

    Parameters
    ----------
    models : sequence of AdaptableClassifier
        One model per fold, fitted to the training images of the fold.
    folds : sequence of Fold
        The class folds.
    fixed : mapping
        Hyperparameters of ``adapt`` with fixed values.
    grid : mapping of str to sequence
        Hyperparameters of ``adapt`` to choose, with their values.
    hooks : sequence of Hook, default=()
        Called during gradient training.
    hold_out : float, default=0.0
        Share of the images of validation classes that is evaluated on instead of adapted to. 0: all images are used for
        both.
    seed : int, default=0
        Seed of the draw of these images.

    Returns
    -------
    list of dict
        For each combination the ``settings`` and one entry in ``points``: measurements, averaged over the folds.
    """
    parameters = combinations(grid)
    curves = _empty_curves(parameters, folds)
    runs: list[Callable[[], Run]] = []
    for k, (model, fold) in enumerate(zip(models, folds, strict=True)):
        adapted_to, measured_on = apart(fold, hold_out, seed)
        for c, chosen in enumerate(parameters):
            options = {"candidates": fold.unseen, "X_seen": fold.train.X, "y_seen": fold.train.y, **fixed, **chosen}
            if isinstance(model, GradientAdaptableClassifier):
                stage = f"rehearsal {c + 1} of {len(parameters)}, fold {k + 1} of {len(folds)}"
                options |= {"hooks": hooks, "stage": stage}
                runs.append(partial(_adaptation_run, model, adapted_to, measured_on, options, curves[c][k]))
            else:
                images = adapted_to.test_unseen.X
                if options.get("images_of") == "all":  # the rehearsed images belong to all classes, too
                    images = np.concatenate([images, adapted_to.test_seen.X])
                curves[c][k].append(measure(model.adapt(images, **options), measured_on))
    train_together(runs)
    return _tried(parameters, curves)


def _adaptation_run(
    model: GradientAdaptableClassifier, adapted_to: Fold, measured_on: Fold, options: Mapping[str, Any], curve: Curve
) -> Run:
    """Prepare the adaptation of one combination on one fold; its measurement is added to ``curve``."""
    run = model.adaptation_run(adapted_to.test_unseen.X, **options)

    def finish(training: Training) -> None:
        run.finish(training)
        curve.append(measure(run.model, measured_on))

    return replace(run, finish=finish)


def fit_chosen(
    models: Sequence[ZeroShotClassifier],
    choices: Sequence[Choice],
    data: Sequence[Fold | ZeroShotDataset],
    stages: Sequence[str],
    hooks: Sequence[Hook] = (),
) -> None:
    """Fit models with their chosen hyperparameters, in place; gradient-trained ones are trained together.

    Parameters
    ----------
    models : sequence of ZeroShotClassifier
        Unfitted models.
    choices : sequence of Choice
        The choice for each model.
    data : sequence of Fold or ZeroShotDataset
        The data of each model.
    stages : sequence of str
        Name of each training, for progress messages.
    hooks : sequence of Hook, default=()
        Called during gradient training.
    """
    runs: list[Callable[[], Run]] = []
    for model, choice, part, stage in zip(models, choices, data, stages, strict=True):
        model.set_params(**choice.parameters)
        images = part.train.X, part.train.y, part.classes
        if isinstance(model, GradientTrainedClassifier):
            runs.append(partial(model.fitting, *images, hooks=hooks, stage=stage, stop_after=choice.stop_after))
        else:
            model.fit_sharing(choice.shared, *images) if choice.shared else model.fit(*images)
    train_together(runs)
    for model, choice in zip(models, choices, strict=True):
        model.calibration_ = choice.calibration


def of_seed(models: Sequence[Any], m: int) -> str:
    """Suffix of a stage's name that distinguishes several seeds.

    Parameters
    ----------
    models : sequence of ZeroShotClassifier
        Models of all seeds.
    m : int
        Index of the model.

    Returns
    -------
    str
        The suffix; empty for a single model.
    """
    return f", seed {getattr(models[m], 'seed', m)}" if len(models) > 1 else ""


def _empty_curves(parameters: Sequence[Mapping[str, Any]], folds: Sequence[Fold]) -> list[list[Curve]]:
    """Make an empty curve per combination and fold."""
    return [[[] for _ in folds] for _ in parameters]


def _tried(parameters: Sequence[Mapping[str, Any]], curves: Sequence[Sequence[Curve]]) -> Tried:
    return [
        {"settings": dict(chosen), "points": _means(of_folds), **_steps(of_folds)}
        for chosen, of_folds in zip(parameters, curves, strict=True)
    ]


def _steps(curves: Sequence[Curve]) -> dict[str, int]:
    """Gradient steps of all folds; empty for measurements without steps."""
    return {"steps": sum(curve[-1]["steps"] for curve in curves)} if "steps" in curves[0][-1] else {}


def _means(curves: Sequence[Curve]) -> Curve:
    """Average the measurements of the folds, point by point, as far as the training of every fold went."""
    return [over_folds(points) for points in zip(*curves, strict=False)]


def over_folds(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average the measurements of class folds.

    Parameters
    ----------
    points : sequence of mapping
        Result of :func:`~sightunseen.selection.evaluation.measure` for each fold.

    Returns
    -------
    dict
        Means; ``best_penalty`` is the seen penalty with the best mean of H if the seen-unseen curves of the folds are known.
        ``T1_of_folds``, ``H_of_folds`` and ``temperature_of_folds`` are lists.
    """
    curves = [point["curve"] for point in points if "curve" in point]
    mean = mean_of([{name: value for name, value in point.items() if name != "curve"} for point in points])
    steps = {"steps": points[0]["steps"]} if "steps" in mean else {}  # stays an integer
    penalty = {"best_penalty": best_common_bonus(curves)} if len(curves) == len(points) else {}
    of_folds = {f"{short}_of_folds": [point[name] for point in points] for short, name in OF_FOLDS.items()}
    if "calibration" in points[0]:
        of_folds["temperature_of_folds"] = [point["calibration"]["temperature"] for point in points]
    return {**mean, **steps, **penalty, **of_folds}


def mean_of(values: Sequence[Any]) -> Any:
    """Mean of numbers, or of each number in mappings.

    Parameters
    ----------
    values : sequence
        Numbers or None, or mappings with the same names.

    Returns
    -------
    float, None or dict
        The mean; None if one of the numbers is None.
    """
    if isinstance(values[0], Mapping):
        return {name: mean_of([value[name] for value in values]) for name in values[0]}
    return None if any(value is None for value in values) else float(np.mean(values))
