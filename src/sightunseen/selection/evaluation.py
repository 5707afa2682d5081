"""Evaluate models: T1 among unseen classes (ZSL); U, S and H among all classes (GZSL); AUSUC; calibration error.

T1 and U are per-class top-1 accuracies on images of unseen classes, S is that on images of seen classes, H is the harmonic
mean of U and S, and AUSUC is the area under the seen-unseen curve.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.blocks import row_blocks
from sightunseen.core.calibration import MOST_IMAGES, Calibration, calibrate, probabilities
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Fold, Split, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import (
    BestScores,
    SeenUnseenCurve,
    accuracy_by_class,
    harmonic_mean,
    per_class_accuracy,
    reliability,
)
from sightunseen.core.rows import Rows, selected_blocks
from sightunseen.methods import ZeroShotClassifier


@dataclass(frozen=True)
class Scored:
    """What is kept of the scores of test images of unseen and seen classes among all classes.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        Labels of the images.
    predicted : ndarray of shape (n,)
        Predicted labels.
    confidence : ndarray of shape (n,)
        Probability of the predicted class.
    candidates : ndarray of shape (c,)
        All classes, sorted.
    best : BestScores or None
        Best seen and best unseen class; None if all candidates are seen or all are unseen.
    sample : ndarray of shape (m, c)
        Scores of every k-th image, for the calibration.
    every : int
        k.
    """

    truth: Labels
    predicted: Labels
    confidence: NDArray[np.float64]
    candidates: Labels
    best: BestScores | None
    sample: NDArray[np.float32]
    every: int

    @classmethod
    def of(cls, model: ZeroShotClassifier, parts: Sequence[Split], candidates: Labels) -> "Scored":
        """Score the images of all parts, block by block."""
        seen = np.isin(candidates, model.seen_classes_)
        truth = np.concatenate([part.y for part in parts])
        every = -(-len(truth) // MOST_IMAGES)
        predicted, confidence = np.empty(len(truth), dtype=candidates.dtype), np.empty(len(truth))
        sample = np.empty((-(-len(truth) // every), len(candidates)), dtype=np.float32)
        best = BestScores.empty(len(truth), candidates.dtype) if seen.any() and not seen.all() else None
        score = model.scorer(candidates)
        for rows, block in _blocks(parts):
            scores = score(block)
            predicted[rows] = candidates[scores.argmax(axis=1)]
            confidence[rows] = probabilities(scores, model.temperature_).max(axis=1)
            sample[rows[rows % every == 0] // every] = scores[rows % every == 0]
            if best is not None:
                best.fill(rows, scores, candidates, seen)
        return cls(truth, predicted, confidence, candidates, best, sample, every)


def _blocks(parts: Sequence[Split]) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Images of all parts in blocks, with their indices; files are read in one pass."""
    if any(isinstance(part.X, Rows) for part in parts):
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows, kind="stable")
        done = 0
        for wanted, block in selected_blocks(parts[0].features, rows[order]):
            yield order[done : done + len(wanted)], block
            done += len(wanted)
        return
    done = 0
    for block in (block for part in parts for block in row_blocks(part.X)):
        yield np.arange(done, done + len(block)), block
        done += len(block)


@dataclass(frozen=True)
class Evaluation:
    """Results of an evaluation, in percent.

    T1 and U are None without test images of unseen classes, S without those of seen classes, H and AUSUC without either.

    Parameters
    ----------
    T1 : float or None
        Per-class accuracy on unseen classes, among unseen classes (ZSL).
    U : float or None
        Per-class accuracy on unseen classes, among all classes (GZSL).
    S : float or None
        Per-class accuracy on seen classes, among all classes (GZSL).
    H : float or None
        Harmonic mean of U and S.
    AUSUC : float or None
        Area under the seen-unseen curve.
    ECE : float
        Expected calibration error of the probabilities among all classes.
    seen_penalty : float
        Seen-class bias of the model (calibrated stacking).
    scored : Scored
        What is kept of the scores behind these numbers.
    by_class : dict of str to dict of label to float
        Accuracy of each class, as a fraction: ``zsl`` behind T1, ``unseen`` behind U, ``seen`` behind S.
    curve : SeenUnseenCurve or None
        The seen-unseen curve.
    """

    T1: float | None
    U: float | None
    S: float | None
    H: float | None
    AUSUC: float | None
    ECE: float
    seen_penalty: float
    scored: Scored = field(repr=False)
    by_class: dict[str, dict[Any, float]] = field(default_factory=dict)
    curve: SeenUnseenCurve | None = None

    def summary(self) -> dict[str, float | None]:
        """T1, U, S, H and AUSUC, rounded to two decimals.

        Returns
        -------
        dict of str to float or None
            The numbers by name.
        """
        numbers = {name: getattr(self, name) for name in ("T1", "U", "S", "H", "AUSUC")}
        return {name: None if value is None else round(value, 2) for name, value in numbers.items()}

    def results(self) -> dict[str, float | None]:
        """Numbers of :meth:`summary`, and U, S and H without the seen penalty, as most papers report them.

        Returns
        -------
        dict of str to float or None
            T1, U, S, H and AUSUC; with a seen-unseen curve also U_plain, S_plain and H_plain. Rounded to two decimals.
        """
        if self.curve is None:
            return self.summary()
        unseen, seen = self.curve.at(-self.seen_penalty)
        plain = {"U_plain": unseen, "S_plain": seen, "H_plain": harmonic_mean(unseen, seen)}
        return {**self.summary(), **{name: round(100 * value, 2) for name, value in plain.items()}}


def evaluate(model: ZeroShotClassifier, data: ZeroShotDataset | Fold) -> Evaluation:
    """Evaluate a model on the test images of a data set or of a class fold.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    data : ZeroShotDataset or Fold
        The data; training images are not needed.

    Returns
    -------
    Evaluation
        Results in percent.

    Raises
    ------
    DataError
        If there are no test images.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> data = make_world(World())
    >>> model = ESZSL().fit(data.train.X, data.train.y, data.classes)
    >>> list(evaluate(model, data).summary())
    ['T1', 'U', 'S', 'H', 'AUSUC']
    """
    # Seen classes are those of the model, because the data need not contain training images.
    unseen_classes = np.setdiff1d(data.unseen, model.seen_classes_)
    candidates = np.union1d(model.seen_classes_, unseen_classes)
    parts = {name: part for name, part in (("unseen", data.test_unseen), ("seen", data.test_seen)) if len(part)}
    if not parts:
        raise DataError("there are no test images to evaluate on. Mark some as test_seen or test_unseen in a 'split' column.")
    by_class: dict[str, dict[Any, float]] = {}
    scored = Scored.of(model, list(parts.values()), candidates)
    if "unseen" in parts:
        # Some methods use another classifier among unseen classes alone.
        if scored.best is not None and not getattr(model, "scores_jointly", True):
            zsl = scored.best.unseen[: len(data.test_unseen)]
        else:
            zsl = model.predict(data.test_unseen.X, unseen_classes)
        by_class["zsl"] = accuracy_by_class(data.test_unseen.y, zsl)
    ends = np.cumsum([len(part) for part in parts.values()])[:-1]
    for (name, part), predicted in zip(parts.items(), np.split(scored.predicted, ends), strict=True):
        by_class[name] = accuracy_by_class(part.y, predicted)
    t1, u, s = (
        100 * float(np.mean(list(by_class[name].values()))) if name in by_class else None for name in ("zsl", "unseen", "seen")
    )
    h = area = curve = None
    if u is not None and s is not None:
        h = harmonic_mean(u, s)
        assert scored.best is not None
        curve = scored.best.curve(scored.truth, model.seen_classes_)
        area = 100 * curve.area
    error = 100 * reliability(scored.confidence, scored.predicted == scored.truth).error
    return Evaluation(t1, u, s, h, area, error, model.seen_penalty, scored, by_class, curve)


def measure(model: ZeroShotClassifier, data: ZeroShotDataset | Fold) -> dict[str, Any]:
    """Evaluate a model for selection: also at the seen penalty with the best H.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    data : ZeroShotDataset or Fold
        What to evaluate on.

    Returns
    -------
    dict
        T1, U, S, H and AUSUC in percent; ``best_penalty``, the seen penalty with the best H (calibrated stacking), and
        ``H_at_best_penalty``; for a fold also ``calibration``, fitted at this penalty, and ``curve``, the seen-unseen curve
        as a function of the seen penalty.

    Raises
    ------
    DataError
        If there are no test images.
    """
    result = evaluate(model, data)
    measured: dict[str, Any] = dict(result.summary())
    if result.curve is not None:
        bonus = result.curve.best_bonus()
        measured["best_penalty"] = model.seen_penalty + bonus
        measured["H_at_best_penalty"] = round(100 * harmonic_mean(*result.curve.at(bonus)), 2)
        if isinstance(data, Fold):
            measured["calibration"] = asdict(_calibration(result.scored, model, bonus))
            measured["curve"] = replace(result.curve, bonus=result.curve.bonus + model.seen_penalty)
    return measured


def _calibration(scored: Scored, model: ZeroShotClassifier, further: float) -> Calibration:
    """Calibrate a model whose seen penalty is increased by ``further``."""
    seen = np.isin(scored.candidates, model.seen_classes_)
    scores = scored.sample - further * seen.astype(np.float32)
    return calibrate(scores, scored.truth[:: scored.every], scored.candidates, scored.candidates[~seen])


def zsl_accuracy(model: ZeroShotClassifier, X: Any, y: Labels) -> float:
    """Per-class accuracy among the classes of ``y`` alone: a scorer for scikit-learn.

    ``GridSearchCV(model, grid, cv=GroupKFold(), scoring=zsl_accuracy).fit(X, y, groups=y, classes=table)`` chooses
    hyperparameters on validation classes.

    Parameters
    ----------
    model : ZeroShotClassifier or Pipeline
        A fitted model.
    X : array-like of shape (n, d)
        Features of the images.
    y : ndarray of shape (n,)
        Their labels.

    Returns
    -------
    float
        The accuracy, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sightunseen.methods import ESZSL
    >>> model = ESZSL(feature_scaling="none").fit(np.eye(3), list("abc"), dict(zip("abc", np.eye(3))))
    >>> zsl_accuracy(model, np.eye(3)[:2], np.array(["a", "b"]))
    1.0
    """
    # ``score`` of a pipeline would ignore the candidates.
    return per_class_accuracy(y, model.predict(X, candidates=np.unique(y)))
