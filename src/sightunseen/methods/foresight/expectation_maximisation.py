"""Expectation-maximisation: class means of unlabelled images of unseen classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.scatter import weighted_means
from sightunseen.methods.foresight.class_means import ClassMeans
from sightunseen.methods.foresight.pseudo_labels import soft_labels
from sightunseen.methods.foresight.wide_generator import WideGenerator

LEAST_WEIGHT = 1e-9  # keeps ridge penalties, which are inverse weights, finite


@dataclass(frozen=True)
class Unlabelled:
    """Unlabelled images and the classes that they may belong to.

    Parameters
    ----------
    images : ndarray of shape (m, d)
        Whitened images.
    classes : ndarray of shape (u,)
        Labels of the unseen classes.
    vectors : ndarray of shape (u, a)
        Class vectors of the unseen classes.
    rivals : ndarray of shape (s, a), default=None
        Class vectors of the seen classes, if images may belong to them, too.
    seen_penalty : float, default=0.0
        Subtracted from the scores of the seen classes.
    """

    images: Doubles
    classes: Labels
    vectors: Doubles
    rivals: Doubles | None = None
    seen_penalty: float = 0.0

    def pseudo_labels(self, regression: WideGenerator, temperature: float, shares: Doubles | None) -> Doubles:
        """Soft pseudo-labels (m, u) of the unseen classes; rows sum to one, or to less with rivals."""
        scores = self._scores(regression(self.vectors))
        if self.rivals is None:
            return soft_labels(scores / temperature, shares)
        rivals = self._scores(regression(self.rivals)) - self.seen_penalty
        return soft_labels(np.hstack([scores, rivals]) / temperature)[:, : len(self.classes)]

    def _scores(self, points: Doubles) -> Doubles:
        return np.asarray(2 * self.images @ points.T - np.square(points).sum(axis=1))


def expectation_maximisation(
    known: ClassMeans,
    unlabelled: Unlabelled,
    regression_of: Callable[[ClassMeans], WideGenerator],
    weight: float,
    rounds: int,
    temperature: float,
    shares: Doubles | None = None,
) -> tuple[ClassMeans, list[dict[str, Any]]]:
    """Alternate between pseudo-labels of the images and a regression to the class means that they give.

    Parameters
    ----------
    known : ClassMeans
        Means of the classes with labelled images.
    unlabelled : Unlabelled
        The unlabelled images.
    regression_of : callable
        Fits the regression to class means.
    weight : float
        Weight of one pseudo-labelled image in a class mean.
    rounds : int
        Number of iterations.
    temperature : float
        Divisor of the scores in the softmax of the pseudo-labels.
    shares : ndarray of shape (u,), default=None
        Class shares of the pseudo-labels. None: unknown.

    Returns
    -------
    own : ClassMeans
        Means of the pseudo-labelled images.
    history : list of dict
        Number of images whose most likely class changed, per round.
    """
    joined, previous, history = known, np.full(len(unlabelled.images), -1), []
    for number in range(1, rounds + 1):
        labels = unlabelled.pseudo_labels(regression_of(joined), temperature, shares)
        means, counts = weighted_means(unlabelled.images, labels)
        own = ClassMeans(unlabelled.classes, means, np.maximum(weight * counts, LEAST_WEIGHT))
        joined = known.joined(own)
        best = labels.argmax(axis=1)
        history.append({"round": number, "changed_labels": int((best != previous).sum())})
        previous = best
    return own, history
