"""Evaluate models: T1 among unseen classes (ZSL); U, S and H among all classes (GZSL); AUSUC; calibration error.

T1 and U are per-class top-1 accuracies on images of unseen classes, S is that on images of seen classes, H is the harmonic
mean of U and S, and AUSUC is the area under the seen-unseen curve. Metrics of other packages are computed as well; see
:mod:`~sightunseen.core.metric_plugins`.
"""

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sightunseen.core.calibration import Calibration, calibrate
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.intervals import Counts, bootstrap, bounds, interval
from sightunseen.core.metric_plugins import plugin_results
from sightunseen.core.metrics import MAIN, accuracy_by_class, harmonic_mean, per_class_accuracy
from sightunseen.core.reliability import reliability
from sightunseen.core.seen_unseen import SeenUnseenCurve
from sightunseen.methods import ZeroShotClassifier
from sightunseen.selection.labelled import as_method, labelled_images
from sightunseen.selection.scored import Scored


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
        What is kept of the scores behind these numbers; images of unseen classes come first.
    unseen_classes : ndarray of shape (u,)
        Unseen classes among the candidates.
    among_unseen : ndarray of shape (m,)
        Predictions among the unseen classes, for the images of unseen classes.
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
    unseen_classes: Labels = field(repr=False)
    among_unseen: Labels = field(repr=False)
    by_class: dict[str, dict[Any, float]] = field(default_factory=dict)
    curve: SeenUnseenCurve | None = None

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """Correct predictions by class behind T1, U and S, and behind U_plain and S_plain, as far as there are images."""
        n, truth = len(self.among_unseen), self.scored.truth
        predicted = {"": self.scored.predicted}
        if self.curve is not None and self.scored.best is not None:
            predicted["_plain"] = self.scored.best.predicted(-self.seen_penalty)
        found = {}
        for name, part in (("U", slice(n)), ("S", slice(n, None))):
            if not len(truth[part]):
                continue
            classes = np.unique(truth[part], return_inverse=True)[1]
            if name == "U":
                found["T1"] = Counts.at(classes, truth[part] == self.among_unseen)
            for ending, labels in predicted.items():
                found[f"{name}{ending}"] = Counts.at(classes, truth[part] == labels[part])
        return found

    @cached_property
    def intervals(self) -> dict[str, list[float]]:
        """95% intervals of T1, U, S and H, also of the plain ones: low and high in percent, by name.

        See :func:`~sightunseen.core.intervals.bootstrap` for what they cover. AUSUC and ECE have none.
        """
        draws = {name: bootstrap(counts, seed=k) for k, (name, counts) in enumerate(self.counts.items())}
        found = {name: interval(self.counts[name], drawn) for name, drawn in draws.items()}
        for ending in ("", "_plain"):
            sides = f"U{ending}", f"S{ending}"
            if not all(name in draws for name in sides):
                continue
            if any(self.counts[name].decided for name in sides):  # a side without spread would hide that of H
                found[f"H{ending}"] = [round(harmonic_mean(*ends), 2) for ends in zip(*map(found.get, sides), strict=True)]
            else:
                unseen, seen = (draws[name] for name in sides)
                total = unseen + seen
                found[f"H{ending}"] = bounds(np.divide(2 * unseen * seen, total, out=np.zeros_like(total), where=total > 0))
        return found

    @cached_property
    def further(self) -> dict[str, float | None]:
        """Results of metric plug-ins by name; see :mod:`~sightunseen.core.metric_plugins`."""
        seen = np.setdiff1d(self.scored.candidates, self.unseen_classes)
        return plugin_results(self.scored.truth, self.scored.predicted, seen)

    def summary(self) -> dict[str, float | None]:
        """T1, U, S, H and AUSUC, rounded to two decimals.

        Returns
        -------
        dict of str to float or None
            The numbers by name.
        """
        numbers = {name: getattr(self, name) for name in MAIN}
        return {name: None if value is None else round(value, 2) for name, value in numbers.items()}

    def results(self) -> dict[str, float | None]:
        """Numbers of :meth:`summary`, U, S and H without the seen penalty, as most papers report them, and metric plug-ins.

        Returns
        -------
        dict of str to float or None
            T1, U, S, H and AUSUC; with a seen-unseen curve also U_plain, S_plain and H_plain; metric plug-ins by their names.
            Rounded to two decimals.
        """
        if self.curve is None:
            return {**self.summary(), **self.further}
        unseen, seen = self.curve.at(-self.seen_penalty)
        plain = {"U_plain": unseen, "S_plain": seen, "H_plain": harmonic_mean(unseen, seen)}
        return {**self.summary(), **{name: round(100 * value, 2) for name, value in plain.items()}, **self.further}


def evaluate(model: ZeroShotClassifier, data: ZeroShotDataset | Fold | Any, y: Any = None) -> Evaluation:
    """Evaluate a model on the test images of a data set or of a class fold, or on images and their labels.

    Parameters
    ----------
    model : ZeroShotClassifier, Pipeline or ZeroShotSearchCV
        A fitted model.
    data : ZeroShotDataset, Fold or array-like of shape (n, d)
        The data, whose training images are not needed; or features of images.
    y : array-like of shape (n,), default=None
        Labels of the images if ``data`` are features: classes of the model, seen or unseen. All classes of the model are
        candidates.

    Returns
    -------
    Evaluation
        Results in percent.

    Raises
    ------
    DataError
        If there are no test images, if labels are missing or unknown to the model, or if there are not as many as images.
    SettingsError
        If the model is not a zero-shot model.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> data = make_world(World())
    >>> model = ESZSL().fit(data.train.X, data.train.y, data.classes)
    >>> list(evaluate(model, data).summary())
    ['T1', 'U', 'S', 'H', 'AUSUC']
    >>> evaluate(model, data.test_unseen.X, data.test_unseen.y).T1 == evaluate(model, data).T1
    True
    """
    model = as_method(model)
    images = labelled_images(model, data, y)
    # Seen classes are those of the model, because the data need not contain training images.
    unseen_classes = np.setdiff1d(images.unseen, model.seen_classes_)
    candidates = np.union1d(model.seen_classes_, unseen_classes)
    parts = {name: part for name, part in (("unseen", images.test_unseen), ("seen", images.test_seen)) if len(part)}
    if not parts:
        raise DataError("there are no test images to evaluate on. Mark some as test_seen or test_unseen in a 'split' column.")
    by_class: dict[str, dict[Any, float]] = {}
    scored = Scored.of(model, list(parts.values()), candidates)
    zsl = unseen_classes[:0]
    if "unseen" in parts:
        # Some methods use another classifier among unseen classes alone.
        if scored.best is not None and not getattr(model, "scores_jointly", True):
            zsl = scored.best.unseen[: len(images.test_unseen)]
        else:
            zsl = model.predict(images.test_unseen.X, unseen_classes)
        by_class["zsl"] = accuracy_by_class(images.test_unseen.y, zsl)
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
    return Evaluation(t1, u, s, h, area, error, model.seen_penalty, scored, unseen_classes, zsl, by_class, curve)


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
