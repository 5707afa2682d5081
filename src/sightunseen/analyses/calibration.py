"""Whether a model is right as often as it is sure: the reliability diagram and its error."""

from dataclasses import dataclass

import numpy as np

from sightunseen.analyses.answers import Answers
from sightunseen.checks import check_whole
from sightunseen.errors import DataError


@dataclass(frozen=True)
class Bin:
    """The images whose confidence is above ``lower`` and at most ``upper``."""

    lower: float
    upper: float
    images: int
    confidence: float  # their mean
    accuracy: float  # the share of them that is right


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy, for the bins that hold images."""

    bins: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """The expected calibration error (Guo et al., ICML 2017, Eq. 3): the mean gap of the bins, weighted by images."""
        gaps = sum(part.images * abs(part.accuracy - part.confidence) for part in self.bins)
        return gaps / sum(part.images for part in self.bins)


def reliability(answers: Answers, n_bins: int = 10) -> Reliability:
    """Sort images into ``n_bins`` bins of confidence, equally wide between 0 and 1."""
    check_whole("n_bins", n_bins, 1)
    if not len(answers.names):
        raise DataError("there are no images to measure confidence on. Ask the model about at least one.")
    edges = np.arange(n_bins + 1) / n_bins
    confidence = answers.confidence.astype(np.float64)
    place = np.digitize(confidence, edges[1:-1], right=True)  # (n,)
    bins = []
    for number in np.unique(place).tolist():
        inside = place == number
        numbers = float(confidence[inside].mean()), float(answers.right[inside].mean())
        bins.append(Bin(float(edges[number]), float(edges[number + 1]), int(inside.sum()), *numbers))
    return Reliability(tuple(bins))
