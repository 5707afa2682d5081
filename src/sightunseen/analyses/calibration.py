"""Whether a model is right as often as it is sure: the reliability diagram and its error."""

from sightunseen import metrics
from sightunseen.analyses.answers import Answers
from sightunseen.checks import check_whole
from sightunseen.metrics import Bin, Reliability

__all__ = ["Bin", "Reliability", "reliability"]


def reliability(answers: Answers, n_bins: int = 10) -> Reliability:
    """Sort images into ``n_bins`` bins of confidence, equally wide between 0 and 1."""
    check_whole("n_bins", n_bins, 1)
    return metrics.reliability(answers.confidence, answers.right, n_bins)
