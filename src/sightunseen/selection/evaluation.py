"""The paper's three numbers and more: T1 among unseen classes; U, S, H among all; AUSUC over every bias; ECE."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.calibration import Calibration, calibrate, probabilities
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Fold, Split, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import (
    SeenUnseenCurve,
    accuracy_by_class,
    harmonic_mean,
    per_class_accuracy,
    reliability,
    seen_unseen_curve,
)
from sightunseen.methods import ZeroShotClassifier


@dataclass(frozen=True)
class Scored:
    """Test images of unseen and seen classes, and their scores among all classes."""

    scores: NDArray[np.float32]  # (n, c)
    truth: Labels  # (n,)
    candidates: Labels  # (c,), sorted


@dataclass(frozen=True)
class Evaluation:
    """Results in percent. What the data cannot tell is None: S, H and AUSUC need test images of seen classes, too."""

    T1: float | None  # per-class accuracy on unseen classes, among unseen classes (ZSL)
    U: float | None  # the same among all classes (GZSL)
    S: float | None  # per-class accuracy on seen classes, among all classes
    H: float | None  # harmonic mean of U and S
    AUSUC: float | None  # area under the seen-unseen curve
    ECE: float  # expected calibration error of the probabilities among all classes
    seen_penalty: float  # of the model
    scored: Scored = field(repr=False)
    by_class: dict[str, dict[Any, float]] = field(default_factory=dict)  # zsl, unseen, seen -> label -> accuracy
    curve: SeenUnseenCurve | None = None

    def summary(self) -> dict[str, float | None]:
        """The five numbers, rounded to a hundredth."""
        numbers = {name: getattr(self, name) for name in ("T1", "U", "S", "H", "AUSUC")}
        return {name: None if value is None else round(value, 2) for name, value in numbers.items()}

    def results(self) -> dict[str, float | None]:
        """The five numbers, and U, S and H without the seen penalty, as most papers report them; rounded to a hundredth."""
        if self.curve is None:
            return self.summary()
        unseen, seen = self.curve.at(-self.seen_penalty)
        plain = {"U_plain": unseen, "S_plain": seen, "H_plain": harmonic_mean(unseen, seen)}
        return {**self.summary(), **{name: round(100 * value, 2) for name, value in plain.items()}}


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
    parts = [part for part in (unseen, seen) if part is not None]
    if not parts:
        raise DataError("there are no test images to evaluate on. Mark some in a 'split' column as test_seen and test_unseen.")
    scored = Scored(np.concatenate([scores for scores, _ in parts]), np.concatenate([y for _, y in parts]), candidates)
    if u is not None and s is not None:
        h = harmonic_mean(u, s)
        curve = seen_unseen_curve(scored.scores, scored.truth, candidates, model.seen_classes_)
        area = 100 * curve.area
    error = _calibration_error(scored, model.temperature_)
    return Evaluation(t1, u, s, h, area, error, model.seen_penalty, scored, by_class, curve)


def measure(model: ZeroShotClassifier, data: ZeroShotDataset | Fold) -> dict[str, Any]:
    """T1, U, S, H, AUSUC, and the penalty on seen classes at which H is best, with that H; on a fold also a calibration."""
    result = evaluate(model, data)
    measured: dict[str, Any] = dict(result.summary())
    if result.curve is not None:
        further = result.curve.best_bonus()
        measured["best_penalty"] = model.seen_penalty + further
        measured["H_at_best_penalty"] = round(100 * harmonic_mean(*result.curve.at(further)), 2)
        if isinstance(data, Fold):
            measured["calibration"] = asdict(_calibration(result.scored, model, further))
    return measured


def _calibration(scored: Scored, model: ZeroShotClassifier, further: float) -> Calibration:
    """What fits the scores once the penalty on seen classes is larger by ``further``."""
    seen = np.isin(scored.candidates, model.seen_classes_)
    scores = scored.scores - further * seen.astype(np.float32)
    return calibrate(scores, scored.truth, scored.candidates, scored.candidates[~seen])


def zsl_accuracy(model: ZeroShotClassifier, X: Any, y: Labels) -> float:
    """Per-class accuracy among the classes of ``y`` alone.

    As ``GridSearchCV(model, grid, cv=GroupKFold(), scoring=zsl_accuracy).fit(X, y, groups=y, classes=table)`` it chooses
    settings on validation classes.
    """
    # Not by score: a pipeline's would drop the candidates without a word.
    return per_class_accuracy(y, model.predict(X, candidates=np.unique(y)))


def _calibration_error(scored: Scored, temperature: float) -> float:
    """In percent, every image counting the same."""
    right = scored.candidates[scored.scores.argmax(axis=1)] == scored.truth
    return 100 * reliability(probabilities(scored.scores, temperature).max(axis=1), right).error


def _scored(model: ZeroShotClassifier, split: Split, candidates: Labels) -> tuple[Any, Labels] | None:
    return (model.decision_function(split.X, candidates), split.y) if len(split) else None
