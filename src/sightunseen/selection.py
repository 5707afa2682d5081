"""How settings are chosen. Honestly, on validation classes; or as the authors did, on the test data, and then said so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from sklearn.base import clone

from sightunseen.dataset import Fold, ZeroShotDataset
from sightunseen.errors import DataError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.training import Hook, Training
from sightunseen.trials import POINTS, Choice, Grid, Measurements, Tried, fit_together, try_adaptations, try_settings


class Selection(Protocol):
    """A way to choose settings, number of tasks and penalty on seen classes. ``grid`` are the settings to choose among."""

    name: ClassVar[str]

    def choose(
        self, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, grid: Grid | None = None, hooks: Sequence[Hook] = ()
    ) -> list[Choice]:
        """Choose for models of several seeds, each for itself."""

    def choose_adaptation(
        self,
        model: AdaptableClassifier,
        data: ZeroShotDataset,
        settings: Mapping[str, Any],
        grid: Grid | None = None,
        hooks: Sequence[Hook] = (),
    ) -> Choice:
        """Choose how to adapt a model; ``settings`` are given, those of ``grid`` are to be chosen."""


@dataclass(frozen=True)
class Fixed:
    """Nothing is chosen: the settings are taken as they are."""

    name: ClassVar[str] = "fixed"

    def choose(
        self, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, grid: Grid | None = None, hooks: Sequence[Hook] = ()
    ) -> list[Choice]:
        """The settings as they are."""
        return [self._choice() for _ in models]

    def choose_adaptation(
        self,
        model: AdaptableClassifier,
        data: ZeroShotDataset,
        settings: Mapping[str, Any],
        grid: Grid | None = None,
        hooks: Sequence[Hook] = (),
    ) -> Choice:
        """The settings as they are."""
        return self._choice()

    def _choice(self) -> Choice:
        return Choice({}, report={"by": "nobody: the settings are those given"})


@dataclass(frozen=True)
class OnValidationClasses:
    """Every setting is tried on folds whose validation classes play the unseen ones; test images take no part.

    Chosen together: the setting, the number of tasks and the penalty on seen classes, by the H they reach on validation
    classes and held-out images of the training classes, averaged over folds.
    """

    name: ClassVar[str] = "validation"
    n_folds: int = 1
    points: int = POINTS
    seed: int | None = None  # of the folds; None: each model's own

    def choose(
        self, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, grid: Grid | None = None, hooks: Sequence[Hook] = ()
    ) -> list[Choice]:
        """Choose for models of several seeds, each for itself; all that is tried is trained together where it can be."""
        folds = [self._folds(model, data) for model in models]
        tried = try_settings(models, folds, grid, self.points, hooks)
        return [self._best(*pair) for pair in zip(tried, folds, strict=True)]

    def choose_adaptation(
        self,
        model: AdaptableClassifier,
        data: ZeroShotDataset,
        settings: Mapping[str, Any],
        grid: Grid | None = None,
        hooks: Sequence[Hook] = (),
    ) -> Choice:
        """Rehearse: on each fold train as ``model`` was trained, then adapt to the validation classes."""
        folds = self._folds(model, data)
        starts = _trained_like(model, folds, hooks)
        return self._best(try_adaptations(starts, folds, settings, grid, hooks), folds)

    def _folds(self, model: ZeroShotClassifier, data: ZeroShotDataset) -> list[Fold]:
        folds = data.validation_folds(self.n_folds, getattr(model, "seed", 0) if self.seed is None else self.seed)
        if not all(len(fold.test_seen) for fold in folds):
            raise DataError(
                "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
                "image. Add images, or train with fixed settings (--select none)."
            )
        return folds

    def _best(self, tried: Tried, folds: Sequence[Fold]) -> Choice:
        entry = max(tried, key=lambda entry: best_point(entry)["H_at_best_penalty"])
        settings, point = entry["settings"], best_point(entry)
        tasks = {"tasks": point["tasks"]} if "tasks" in point else {}
        report = {
            "by": "H on validation classes",
            "folds": _sizes(folds),
            "tried": tried,
            "chosen": {**settings, **tasks, "seen_penalty": point["best_penalty"]},
            "validation": {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC")},
        }
        return Choice(settings, point["best_penalty"], point.get("tasks"), report)


@dataclass(frozen=True)
class OnTestData:
    """What most public code does: the setting and the number of tasks with the best H on the TEST data. An oracle."""

    name: ClassVar[str] = "oracle"
    points: int = POINTS

    def choose(
        self, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, grid: Grid | None = None, hooks: Sequence[Hook] = ()
    ) -> list[Choice]:
        """Choose by the test data."""
        return [self._best(tried) for tried in try_settings(models, [[data]] * len(models), grid, self.points, hooks)]

    def choose_adaptation(
        self,
        model: AdaptableClassifier,
        data: ZeroShotDataset,
        settings: Mapping[str, Any],
        grid: Grid | None = None,
        hooks: Sequence[Hook] = (),
    ) -> Choice:
        """Choose by the test data."""
        return self._best(try_adaptations([model], [data], settings, grid, hooks))

    def _best(self, tried: Tried) -> Choice:
        entry = max(tried, key=lambda entry: _best_on_test(entry["points"])["H"])
        settings, point = entry["settings"], dict(_best_on_test(entry["points"]))
        report = {"by": "H on the TEST data (an oracle)", "chosen": {**settings, **point}, "tried": tried}
        return Choice(settings, None, point.get("tasks"), report)


def best_point(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a tried setting at which H on validation classes is best."""
    return dict(max(entry["points"], key=lambda point: point["H_at_best_penalty"]))


def _trained_like(model: AdaptableClassifier, folds: Sequence[Fold], hooks: Sequence[Hook]) -> list[AdaptableClassifier]:
    """Models with the settings of ``model``, trained on each fold for as many tasks."""
    starts: list[AdaptableClassifier] = [clone(model) for _ in folds]
    as_long = Choice({}, stop_after=getattr(model, "n_tasks_", None) or None)
    stages = [f"validation, fold {k + 1} of {len(folds)}" for k in range(len(folds))]
    fit_together(starts, [as_long] * len(folds), folds, stages, hooks)
    return starts


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
            if getattr(training.model, "learned_classifiers_", None) is None:  # else it is being adapted
                training.model.n_tasks_ = training.tasks_done
            training.model.save(self.folder)

    @staticmethod
    def report(curve: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the record says about this choice."""
        return {"by": "H on the TEST data (the authors' way)", "chosen": dict(_best_on_test(curve)), "tried": list(curve)}


def _best_on_test(curve: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(curve, key=lambda point: point["H"])


def _sizes(folds: Sequence[Fold]) -> list[dict[str, int]]:
    return [{"training_classes": len(f.seen), "validation_classes": len(f.unseen), "images": len(f.train)} for f in folds]
