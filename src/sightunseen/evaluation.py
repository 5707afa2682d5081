"""The paper's three numbers and more: T1 among unseen classes; U, S, H among all; AUSUC over every bias."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sightunseen.classes import Labels
from sightunseen.dataset import Fold, Split, ZeroShotDataset
from sightunseen.errors import DataError
from sightunseen.methods import ZeroShotClassifier
from sightunseen.metrics import SeenUnseenCurve, accuracy_by_class, harmonic_mean, per_class_accuracy, seen_unseen_curve


@dataclass(frozen=True)
class Evaluation:
    """Results in percent. What the data cannot tell is None: S, H and AUSUC need test images of seen classes, too."""

    T1: float | None  # per-class accuracy on unseen classes, among unseen classes (ZSL)
    U: float | None  # the same among all classes (GZSL)
    S: float | None  # per-class accuracy on seen classes, among all classes
    H: float | None  # harmonic mean of U and S
    AUSUC: float | None  # area under the seen-unseen curve
    by_class: dict[str, dict[Any, float]] = field(default_factory=dict)  # zsl, unseen, seen -> label -> accuracy
    curve: SeenUnseenCurve | None = None

    def summary(self) -> dict[str, float | None]:
        """The five numbers, rounded to a hundredth."""
        numbers = {name: getattr(self, name) for name in ("T1", "U", "S", "H", "AUSUC")}
        return {name: None if value is None else round(value, 2) for name, value in numbers.items()}


def evaluate(model: ZeroShotClassifier, data: ZeroShotDataset | Fold) -> Evaluation:
    """Evaluate a model on the test images of a data set, or of a validation fold."""
    # By what the model was trained on: data to test it on need not hold training images.
    unseen_classes = np.setdiff1d(data.unseen, model.seen_classes_)
    candidates = np.union1d(model.seen_classes_, unseen_classes)
    unseen, seen = (_scored(model, getattr(data, part), candidates) for part in ("test_unseen", "test_seen"))
    t1 = u = s = h = area = curve = None
    by_class: dict[str, dict[Any, float]] = {}
    if unseen is not None:
        scores, y = unseen
        # Asked for by itself: some methods have another classifier where only unseen classes are in question.
        zsl = model.predict(data.test_unseen.X, candidates=unseen_classes)
        gzsl = candidates[scores.argmax(axis=1)]
        t1, u = 100 * per_class_accuracy(y, zsl), 100 * per_class_accuracy(y, gzsl)
        by_class |= {"zsl": accuracy_by_class(y, zsl), "unseen": accuracy_by_class(y, gzsl)}
    if seen is not None:
        scores, y = seen
        predicted = candidates[scores.argmax(axis=1)]
        s = 100 * per_class_accuracy(y, predicted)
        by_class["seen"] = accuracy_by_class(y, predicted)
    if unseen is not None and seen is not None and u is not None and s is not None:
        h = harmonic_mean(u, s)
        both = np.concatenate([unseen[0], seen[0]]), np.concatenate([unseen[1], seen[1]])
        curve = seen_unseen_curve(*both, candidates, model.seen_classes_)
        area = 100 * curve.area
    if unseen is None and seen is None:
        raise DataError("there are no test images to evaluate on. Mark some in a 'split' column as test_seen and test_unseen.")
    return Evaluation(t1, u, s, h, area, by_class, curve)


def zsl_accuracy(model: ZeroShotClassifier, X: Any, y: Labels) -> float:
    """Per-class accuracy among the classes of ``y`` alone.

    As ``GridSearchCV(model, grid, cv=GroupKFold(), scoring=zsl_accuracy).fit(X, y, groups=y, classes=table)`` it chooses
    settings on validation classes.
    """
    # Not by score: a pipeline's would drop the candidates without a word.
    return per_class_accuracy(y, model.predict(X, candidates=np.unique(y)))


def _scored(model: ZeroShotClassifier, split: Split, candidates: Labels) -> tuple[Any, Labels] | None:
    return (model.decision_function(split.X, candidates), split.y) if len(split) else None
