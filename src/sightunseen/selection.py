"""How settings are chosen. Honestly, on validation classes; or as the authors did, on the test data, and then said so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from numpy.typing import ArrayLike
from sklearn.base import clone

from sightunseen.calibration import Calibration
from sightunseen.classes import ClassTable
from sightunseen.dataset import Fold, ZeroShotDataset
from sightunseen.errors import DataError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.training import Hook, Training
from sightunseen.trials import POINTS, Choice, Grid, Measurements, Part, Tried, fit_together, try_adaptations, try_settings

ENOUGH_CLASSES, MOST_FOLDS = 50, 5  # validation classes in all folds together, and folds

Method = TypeVar("Method", bound=ZeroShotClassifier)


class Selection:
    """A way to choose settings, number of tasks and penalty on seen classes: try them on some parts, take the best."""

    name: ClassVar[str]
    points: int = POINTS

    def choose(
        self, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, grid: Grid | None = None, hooks: Sequence[Hook] = ()
    ) -> list[Choice]:
        """Choose among the settings of the grid for models of several seeds, each for itself."""
        parts = [self._parts(model, data, place) for place, model in enumerate(models)]
        tried = try_settings(models, parts, grid, self.points, hooks)
        return [self._best(*pair) for pair in zip(tried, parts, strict=True)]

    def choose_adaptation(
        self,
        model: AdaptableClassifier,
        data: ZeroShotDataset,
        settings: Mapping[str, Any],
        grid: Grid | None = None,
        hooks: Sequence[Hook] = (),
        hold_out: float = 0.0,
    ) -> Choice:
        """Choose how to adapt a fitted model; ``settings`` are given, those of the grid are to be chosen.

        ``hold_out`` is the part of the images that is not adapted to but measured on; 0: all are both.
        """
        parts = self._parts(model, data)
        tried = try_adaptations(self._fitted(model, parts, hooks), parts, settings, grid, hooks, hold_out)
        return self._best(tried, parts)

    def _parts(self, model: ZeroShotClassifier, data: ZeroShotDataset, place: int = 0) -> Sequence[Part]:
        """What the model is fitted and measured on; ``place`` is its own among those of several seeds."""
        raise NotImplementedError

    def _fitted(
        self, model: AdaptableClassifier, parts: Sequence[Part], hooks: Sequence[Hook]
    ) -> Sequence[AdaptableClassifier]:
        """Models like this one, each fitted on a part, ready to be adapted."""
        raise NotImplementedError

    def _best(self, tried: Tried, parts: Sequence[Part]) -> Choice:
        """The choice that follows from what was measured."""
        raise NotImplementedError


class Fixed(Selection):
    """Nothing is chosen: the settings are taken as they are."""

    name = "fixed"

    def choose(self, models: Sequence[ZeroShotClassifier], *_: Any, **__: Any) -> list[Choice]:
        """The settings as they are."""
        return [self._as_given() for _model in models]

    def choose_adaptation(self, *_: Any, **__: Any) -> Choice:
        """The settings as they are."""
        return self._as_given()

    def _as_given(self) -> Choice:
        return Choice({}, report={"by": "nobody: the settings are those given"})


@dataclass(frozen=True)
class OnValidationClasses(Selection):
    """Every setting is tried on folds whose validation classes play the unseen ones; test images take no part.

    Chosen together: the setting, the number of tasks and the penalty on seen classes, by the H they reach on validation
    classes and held-out images of the training classes, averaged over folds. Adapting is rehearsed there: on each fold a
    model is trained as the one to be adapted was, and adapted to the validation classes.
    """

    name: ClassVar[str] = "validation"
    n_folds: int | None = 1  # None: enough for many validation classes where the method is cheap, else one
    points: int = POINTS
    seed: int | None = None  # of the first model's folds, counted up for those after it; None: each model's own

    def _parts(self, model: ZeroShotClassifier, data: ZeroShotDataset, place: int = 0) -> Sequence[Part]:
        seed = getattr(model, "seed", 0) if self.seed is None else self.seed + place
        folds = data.validation_folds(1 if self.n_folds is None else self.n_folds, seed)
        if self.n_folds is None and model.search_unasked:
            folds = data.validation_folds(enough_folds(folds[0]), seed)
        if not all(len(fold.test_seen) for fold in folds):
            raise DataError(
                "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
                "image. Add images, or train with fixed settings (--select none)."
            )
        return folds

    def _fitted(
        self, model: AdaptableClassifier, parts: Sequence[Part], hooks: Sequence[Hook]
    ) -> Sequence[AdaptableClassifier]:
        models: list[AdaptableClassifier] = [clone(model) for _ in parts]
        as_long = Choice({}, stop_after=getattr(model, "n_tasks_", None) or None)
        stages = [f"validation, fold {k + 1} of {len(parts)}" for k in range(len(parts))]
        fit_together(models, [as_long] * len(parts), parts, stages, hooks)
        return models

    def _best(self, tried: Tried, parts: Sequence[Part]) -> Choice:
        entry = max(tried, key=lambda entry: best_point(entry)["H_at_best_penalty"])
        settings, point = entry["settings"], best_point(entry)
        tasks = {"tasks": point["tasks"]} if "tasks" in point else {}
        report = {
            "by": "H on validation classes",
            "folds": [_sizes(part) for part in parts],
            "tried": tried,
            "chosen": {**settings, **tasks, "seen_penalty": point["best_penalty"]},
            "validation": {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC")},
            "calibration": point["calibration"],
        }
        return Choice(settings, point["best_penalty"], point.get("tasks"), report, Calibration(**point["calibration"]))


@dataclass(frozen=True)
class OnTestData(Selection):
    """What most public code does: the setting and the number of tasks with the best H on the TEST data. An oracle."""

    name: ClassVar[str] = "oracle"
    points: int = POINTS

    def _parts(self, model: ZeroShotClassifier, data: ZeroShotDataset, place: int = 0) -> Sequence[Part]:
        return [data]

    def _fitted(
        self, model: AdaptableClassifier, parts: Sequence[Part], hooks: Sequence[Hook]
    ) -> Sequence[AdaptableClassifier]:
        return [model]

    def _best(self, tried: Tried, parts: Sequence[Part]) -> Choice:
        entry = max(tried, key=lambda entry: _best_on_test(entry["points"])["H"])
        settings, point = entry["settings"], dict(_best_on_test(entry["points"]))
        report = {"by": "H on the TEST data (an oracle)", "chosen": {**settings, **point}, "tried": tried}
        return Choice(settings, None, point.get("tasks"), report)


def enough_folds(fold: Fold) -> int:
    """How many folds like this one have enough validation classes between them for a choice to be steady; at most five."""
    return min(MOST_FOLDS, -(-ENOUGH_CLASSES // len(fold.unseen)))


def fit_calibrated(model: Method, X: ArrayLike, y: ArrayLike, classes: ClassTable, n_folds: int | None = None) -> Method:
    """Fit any method so that its answers can be trusted; ``calibration_`` says how far.

    The penalty on seen classes, the temperature of the probabilities and the threshold of "none of these" (and the number of
    tasks, where there are tasks) are chosen on validation classes that are split off from the data; then all of it is fitted.

    Parameters
    ----------
    model : its other settings are taken as they are, but for those of a method, such as Foresight, that tries some unasked.
    X, y : (n, d) features and (n,) labels of the seen classes' images, of at least 4 classes.
    classes : the class table of seen and unseen classes.
    n_folds : splits into training and validation classes that the choice is averaged over; None: one, and up to five of few
        classes for a method that is quick to fit.
    """
    data = ZeroShotDataset.from_arrays(X, y, classes)
    choices = OnValidationClasses(n_folds).choose([model], data, model.unasked_search())
    fit_together([model], choices, [data], ["training"])
    return model


def best_point(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a tried setting at which H on validation classes is best."""
    return dict(max(entry["points"], key=lambda point: point["H_at_best_penalty"]))


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


def _sizes(part: Part) -> dict[str, int]:
    return {"training_classes": len(part.seen), "validation_classes": len(part.unseen), "images": len(part.train)}
