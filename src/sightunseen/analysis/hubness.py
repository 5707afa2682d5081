"""Hubness: whether a few classes are chosen for everything."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from sightunseen.analysis.answers import Answers
from sightunseen.core.class_table import Labels


@dataclass(frozen=True)
class Hubness:
    """How often each candidate is chosen, and how unevenly.

    A skewness above zero means that a few classes, the hubs, are chosen for everything, at the cost of all others
    (Radovanović, Nanopoulos & Ivanović, "Hubs in space", JMLR 2010). It has no meaning for fewer than three candidates or
    where all are chosen equally often: None.
    """

    labels: Labels  # (c,)
    chosen: NDArray[np.int64] = field(repr=False)  # (c,) numbers of images
    skewness: float | None


def hubness(answers: Answers) -> Hubness:
    """Count how often each candidate is the best answer."""
    chosen = np.bincount(answers.scores.argmax(axis=1), minlength=len(answers.labels)).astype(np.int64)
    uneven = len(chosen) > 2 and bool(np.ptp(chosen))
    return Hubness(answers.labels, chosen, float(skew(chosen)) if uneven else None)
