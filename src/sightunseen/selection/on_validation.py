"""Selection on validation classes: hyperparameters, stopping point, seen penalty and calibration with the best H."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from sightunseen.core.dataset import Fold, ZeroShotDataset, apart
from sightunseen.methods import AdaptableClassifier, LeaveClassesOut, ZeroShotClassifier
from sightunseen.selection.choice import CRITERIA, Choice, Grid, Tried, best_point, choice_of
from sightunseen.selection.evaluation import measure
from sightunseen.selection.folds import class_folds, rehearsal_folds
from sightunseen.selection.left_out import choose_left_out
from sightunseen.selection.rehearsal import judge
from sightunseen.selection.search import fit_chosen, search, search_adaptation
from sightunseen.training import Hook


def choose_on_validation(
    models: Sequence[ZeroShotClassifier],
    data: ZeroShotDataset,
    grid: Grid,
    n_folds: int | None = None,
    seed: int = 0,
    hooks: Sequence[Hook] = (),
) -> list[Choice]:
    """Choose hyperparameters for models of several seeds, each on its own class folds; test images are not used.

    Parameters
    ----------
    models : sequence of ZeroShotClassifier
        Unfitted models, one per seed.
    data : ZeroShotDataset
        The data.
    grid : mapping of str to sequence
        The values to choose among. Empty: only seen penalty, stopping point and calibration are chosen.
    n_folds : int, default=None
        Number of folds; see :func:`~sightunseen.selection.folds.class_folds`, and
        :func:`~sightunseen.selection.left_out.choose_left_out` for methods that leave classes out in closed form.
    seed : int, default=0
        Seed of the folds of the first model; the k-th further model has ``seed + k``.
    hooks : sequence of Hook, default=()
        Called during gradient training.

    Returns
    -------
    list of Choice
        The choice for each model.

    Raises
    ------
    DataError
        If the data have too few seen classes or images for a fold.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> (choice,) = choose_on_validation([ESZSL()], make_world(World()), {"feature_penalty": [0.1, 10.0]}, n_folds=1)
    >>> sorted(choice.parameters)
    ['feature_penalty', 'seen_penalty']
    """
    if isinstance(models[0], LeaveClassesOut):
        shared: dict[str, Any] = {}  # the training images are read once, for all seeds and for the fit
        choices = [choose_left_out(model, data, grid, n_folds, seed + k, shared) for k, model in enumerate(models)]
        return [replace(choice, shared=shared) for choice in choices]
    folds = [class_folds(model, data, n_folds, seed + k) for k, model in enumerate(models)]
    return [best_on_validation(*pair) for pair in zip(search(models, folds, grid, hooks), folds, strict=True)]


def choose_adaptation_on_validation(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    fixed: Mapping[str, Any],
    grid: Grid,
    n_folds: int | None = None,
    seed: int = 0,
    hooks: Sequence[Hook] = (),
    hold_out: float = 0.0,
) -> Choice:
    """Choose the hyperparameters of ``adapt`` for a fitted model.

    The adaptation is rehearsed on class folds: in each fold a model with the same hyperparameters and number of steps is
    fitted and adapted to the validation classes, which stand in for unseen classes. The report compares the results with
    those before adapting and has ``warnings``; an adaptation that does not help is not made, if the method can do without it.

    Parameters
    ----------
    model : AdaptableClassifier
        A fitted model; it is not changed.
    data : ZeroShotDataset
        The data it was fitted to.
    fixed, grid, hold_out
        See :func:`~sightunseen.selection.search.search_adaptation`.
    n_folds, seed
        See :func:`~sightunseen.selection.folds.class_folds`.
    hooks : sequence of Hook, default=()
        Called during gradient training.

    Returns
    -------
    Choice
        The chosen hyperparameters of ``adapt``, with a seen penalty and a calibration for the adapted model.

    Raises
    ------
    DataError
        If the data have too few seen classes or images for a fold.
    """
    many = isinstance(model, LeaveClassesOut)
    folds = rehearsal_folds(data, n_folds, seed) if many else class_folds(model, data, n_folds, seed)
    rehearsed: list[AdaptableClassifier] = [clone(model) for _ in folds]
    as_long = Choice(stop_after=getattr(model, "n_steps_", None) or None, calibration=model.calibration_)
    stages = [f"validation, fold {k + 1} of {len(folds)}" for k in range(len(folds))]
    fit_chosen(rehearsed, [as_long] * len(folds), folds, stages, hooks)
    before = [measure(one, apart(fold, hold_out, seed)[1]) for one, fold in zip(rehearsed, folds, strict=True)]
    tried = search_adaptation(rehearsed, folds, fixed, grid, hooks, hold_out, seed)
    choice = best_on_validation(tried, folds, "T1 + H" if many else "H")
    optional = "trust" in model.adaptation_defaults() and "trust" not in fixed
    return judge(choice, before, optional, model.seen_penalty, model.calibration_)


def best_on_validation(tried: Tried, folds: Sequence[Fold], by: str = "H") -> Choice:
    """Choose the combination and stopping point that are best on validation classes, each at its best seen penalty.

    Parameters
    ----------
    tried : list of dict
        What :func:`~sightunseen.selection.search.search` returns for one model.
    folds : sequence of Fold
        The class folds, for the report.
    by : {"H", "T1 + H"}, default="H"
        The criterion.

    Returns
    -------
    Choice
        The choice, with its report.
    """
    entry = max(tried, key=lambda entry: CRITERIA[by](best_point(entry)))
    return choice_of(entry, tried, [_sizes(fold) for fold in folds], by, best_point(entry)["calibration"])


def _sizes(fold: Fold) -> dict[str, int]:
    return {"training_classes": len(fold.seen), "validation_classes": len(fold.unseen), "images": len(fold.train)}
