"""The metrics of zero-shot learning: one table of names and definitions, and the accuracies behind them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core import plugins
from sightunseen.core.arrays import Doubles
from sightunseen.core.intervals import Counts, paired_labels


@dataclass(frozen=True)
class Metric:
    """A metric of a fitted model on test images, in percent.

    Parameters
    ----------
    name : str
        Name in records, tables and JSON.
    title : str
        Title of a figure, which begins with the name.
    definition : str
        What is measured, in one line.
    """

    name: str
    title: str
    definition: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("T1", "T1: among unseen classes", "per-class top-1 accuracy among unseen classes"),
        Metric("U", "U: unseen classes among all", "per-class accuracy of unseen among all classes"),
        Metric("S", "S: seen classes among all", "per-class accuracy of seen among all classes"),
        Metric("H", "H: among all classes", "harmonic mean of U and S"),
        Metric("AUSUC", "AUSUC: seen-unseen curve", "area under the seen-unseen curve"),
        Metric("U_plain", "U plain: without seen penalty", "U without the seen penalty"),
        Metric("S_plain", "S plain: without seen penalty", "S without the seen penalty"),
        Metric("H_plain", "H plain: without seen penalty", "H without the seen penalty"),
        Metric("ECE", "ECE: calibration", "expected calibration error of the probabilities among all classes"),
    )
}
ACCURACIES = ("T1", "U", "S", "H")
MAIN = (*ACCURACIES, "AUSUC")
PLAIN = ("U_plain", "S_plain", "H_plain")  # as most papers report U, S and H
RECORDED = (*MAIN, *PLAIN)  # in run records and benchmark results


def further(names: Iterable[str]) -> tuple[str, ...]:
    """Names of results that are not in :data:`METRICS`: those of metric plug-ins.

    Parameters
    ----------
    names : iterable of str
        Names of results.

    Returns
    -------
    tuple of str
        The other names, each once, in their order.

    Examples
    --------
    >>> further(["T1", "H", "macro_f1"])
    ('macro_f1',)
    """
    return tuple(dict.fromkeys(name for name in names if name not in METRICS))


def definitions(names: Iterable[str]) -> str:
    """Define metrics in one line.

    Parameters
    ----------
    names : iterable of str
        Names of metrics; of unknown ones the package is named whose plug-in they are, if it is installed.

    Returns
    -------
    str
        The definitions, separated by semicolons.

    Examples
    --------
    >>> definitions(["H"])
    'H: harmonic mean of U and S.'
    """
    names = list(names)
    found = {name: METRICS[name].definition for name in names if name in METRICS}
    for name in further(names):
        point = plugins.plugins(plugins.METRICS).get(name)
        if point is not None:
            found[name] = f"metric of {point.dist.name if point.dist else point.value}"
    return "; ".join(f"{name}: {meaning}" for name, meaning in found.items()) + "."


def accuracy_by_class(y_true: ArrayLike, y_pred: ArrayLike) -> dict[Any, float]:
    """Accuracy of each true class.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,)
        Predicted labels.

    Returns
    -------
    dict of label to float
        Share of the images of each true class that are predicted correctly.

    Raises
    ------
    DataError
        If there are no labels, or if the two differ in shape.

    Examples
    --------
    >>> accuracy_by_class(["a", "a", "b"], ["a", "b", "b"])
    {'a': 0.5, 'b': 1.0}
    """
    y_true, y_pred = paired_labels(y_true, y_pred)
    labels, classes = np.unique(y_true, return_inverse=True)
    counts = Counts.at(classes, y_true == y_pred)
    return dict(zip(labels.tolist(), (counts.right / counts.images).tolist(), strict=True))


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean of the accuracies of all true classes; each class has the same weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,)
        Predicted labels.

    Returns
    -------
    float
        The mean, between 0 and 1.

    Raises
    ------
    DataError
        If there are no labels, or if the two differ in shape.

    Examples
    --------
    >>> per_class_accuracy(["a", "a", "a", "b"], ["a", "a", "a", "a"])
    0.5
    """
    return float(np.mean(list(accuracy_by_class(y_true, y_pred).values())))


def harmonic_mean(unseen: float, seen: float) -> float:
    """Harmonic mean H = 2US / (U + S) of two accuracies.

    Parameters
    ----------
    unseen, seen : float
        Accuracy U on unseen and S on seen classes, as fractions or in percent.

    Returns
    -------
    float
        Their harmonic mean; 0 if both are 0.

    Examples
    --------
    >>> harmonic_mean(60, 30)
    40.0
    """
    total = unseen + seen
    return 2 * unseen * seen / total if total > 0 else 0.0


def class_weights(truth: NDArray[Any]) -> Doubles:
    """Weights of images under which all classes have the same total weight.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        Labels of the images.

    Returns
    -------
    ndarray of shape (n,)
        Weights that sum to one.
    """
    labels, position, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (counts[position] * len(labels)))
