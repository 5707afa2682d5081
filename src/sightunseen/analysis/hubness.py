"""Hubness: whether a few classes are predicted for most images."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from sightunseen.analysis.answers import Answers
from sightunseen.core.class_table import Labels


@dataclass(frozen=True)
class Hubness:
    """Number of images each candidate is predicted for, and the skewness of these numbers.

    A positive skewness means that a few classes (hubs) are predicted for many images at the cost of all others
    (Radovanović, Nanopoulos & Ivanović, "Hubs in space", JMLR 2010).

    Parameters
    ----------
    labels : ndarray of shape (c,)
        Candidate classes.
    counts : ndarray of shape (c,)
        Number of images each candidate is predicted for.
    skewness : float or None
        Sample skewness of ``counts``; None for fewer than three candidates or if all counts are equal.
    """

    labels: Labels
    counts: NDArray[np.int64] = field(repr=False)
    skewness: float | None


def hubness(answers: Answers) -> Hubness:
    """Count how often each candidate is predicted.

    Parameters
    ----------
    answers : Answers
        Predictions; true labels are not needed.

    Returns
    -------
    Hubness
        Counts and their skewness.
    """
    counts = np.bincount(answers.scores.argmax(axis=1), minlength=len(answers.labels)).astype(np.int64)
    uneven = len(counts) > 2 and bool(np.ptp(counts))
    return Hubness(answers.labels, counts, float(skew(counts)) if uneven else None)
