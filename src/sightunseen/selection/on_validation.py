"""The honest choice: hyperparameters, stopping point, seen penalty and calibration by H on validation classes."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import clone

from sightunseen.core.calibration import Calibration
from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Choice, Grid, Tried, best_point
from sightunseen.selection.folds import class_folds
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
    """Choose for models of several seeds, each for itself on folds of its own; test images take no part.

    Parameters
    ----------
    grid : the hyperparameters to choose, with their values; empty: only the rest is chosen.
    n_folds : see :func:`~sightunseen.selection.folds.class_folds`.
    seed : of the first model's folds, counted up for the others.
    """
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
    """Choose how to adapt a fitted model by rehearsing it: models like it, one a fold, are adapted to validation classes.

    Parameters
    ----------
    fixed, grid, hold_out : see :func:`~sightunseen.selection.search.search_adaptation`.
    n_folds, seed : see :func:`~sightunseen.selection.folds.class_folds`.
    """
    folds = class_folds(model, data, n_folds, seed)
    rehearsed: list[AdaptableClassifier] = [clone(model) for _ in folds]
    as_long = Choice(stop_after=getattr(model, "n_steps_", None) or None)
    stages = [f"validation, fold {k + 1} of {len(folds)}" for k in range(len(folds))]
    fit_chosen(rehearsed, [as_long] * len(folds), folds, stages, hooks)
    return best_on_validation(search_adaptation(rehearsed, folds, fixed, grid, hooks, hold_out), folds)


def best_on_validation(tried: Tried, folds: Sequence[Fold]) -> Choice:
    """The combination and stopping point with the best H on validation classes, at its best seen penalty."""
    entry = max(tried, key=lambda entry: best_point(entry)["H_at_best_penalty"])
    settings, point = entry["settings"], best_point(entry)
    tasks = {"steps": point["steps"]} if "steps" in point else {}
    report = {
        "by": "H on validation classes",
        "folds": [_sizes(fold) for fold in folds],
        "tried": tried,
        "chosen": {**settings, **tasks, "seen_penalty": point["best_penalty"]},
        "validation": {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC")},
        "calibration": point["calibration"],
    }
    return Choice(settings, point["best_penalty"], point.get("steps"), report, Calibration(**point["calibration"]))


def _sizes(fold: Fold) -> dict[str, int]:
    return {"training_classes": len(fold.seen), "validation_classes": len(fold.unseen), "images": len(fold.train)}
