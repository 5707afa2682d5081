"""Answers to be trusted: probabilities that are right as often as they say, and "none of these" for what fits no class.

Both are chosen on validation classes, from scores that are there anyway. The temperature (Guo et al., ICML 2017) changes how
sure a model is and never what it predicts. An image is "none of these" where even its best score is low. The best confidence
tells images of classes left out as well where seen classes are among the candidates (AUROC 61.7 against 61.3, the mean of CVC,
ESZSL, SJE and DEM on validation classes of CUB and AwA1), but worse among unseen classes alone (57.0 against 60.8), and of a
single candidate it is always 1.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from sightunseen.core.class_table import Labels
from sightunseen.core.metrics import reliability

NONE = "none of these"
LEAST_KEPT = 0.95  # of the images of known classes; the best balanced accuracy of all would turn about half of them away
MOST_IMAGES = 2000  # taken evenly: a calibration among 150 classes takes a tenth of a second
WIDEST = float(np.log(1e3))  # temperatures are looked for within a thousandfold of the spread of the scores, both ways

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Threshold:
    """When an image is none of the candidates, and how well images of classes that were left out were told by it."""

    none_below: float | None = None  # the best score under which it is; None: never
    AUROC: float | None = None  # of the best score, for images of classes left out against the others
    none_accuracy: float | None = None  # the mean of the parts of both that are put right
    known_kept: float | None = None  # the part of the others that is

    def is_none(self, scores: Floats) -> NDArray[np.bool_]:
        """Whether an image is none of the candidates, (n,), by its scores for all of them, (n, c)."""
        if self.none_below is None:
            return np.zeros(len(scores), dtype=bool)
        return np.asarray(scores.max(axis=1) < self.none_below)


@dataclass(frozen=True, kw_only=True)
class Calibration(Threshold):
    """Two numbers chosen on validation classes, and how good they are there, in percent."""

    temperature: float  # what scores are divided by before the softmax
    ECE: float  # expected calibration error among all classes
    ECE_before: float  # the same at temperature 1


def probabilities(scores: Floats, temperature: float = 1.0) -> Any:
    """The softmax of scores (n, c) over the candidates, at this temperature."""
    return softmax(scores / temperature, axis=1)


def calibrate(scores: Floats, truth: Labels, candidates: Labels, unseen: Labels) -> Calibration:
    """Choose temperature and threshold.

    Parameters
    ----------
    scores : (n, c) of images of seen and unseen classes, the penalty on seen classes included.
    truth : (n,) their labels, each of them a candidate.
    candidates : (c,) the label of each column, sorted.
    unseen : the candidates that had no training images, sorted: those of which a half is left out to be "none of these".
    """
    every = -(-len(truth) // MOST_IMAGES)
    scores, truth = scores[::every].astype(np.float64), truth[::every]
    temperature = best_temperature(scores, np.searchsorted(candidates, truth), class_weights(truth))
    right = candidates[scores.argmax(axis=1)] == truth
    before, after = (100 * reliability(probabilities(scores, t).max(axis=1), right).error for t in (1.0, temperature))
    chosen = best_threshold(scores, truth, candidates, unseen)
    return Calibration(temperature=temperature, ECE=after, ECE_before=before, **asdict(chosen))


def best_temperature(scores: Floats, columns: NDArray[np.intp], weights: Floats) -> float:
    """The temperature of the least negative log likelihood of the true ``columns`` (n,), images weighing as ``weights`` (n,).

    The loss is convex in 1 / temperature, so it has one minimum.
    """
    above = scores - np.take_along_axis(scores, columns[:, None], axis=1)  # the true class is at 0
    spread = float(above.std())
    if spread == 0:
        return 1.0

    def loss(log_temperature: float) -> float:
        return float(weights @ logsumexp(above / np.exp(log_temperature), axis=1))

    middle = np.log(spread)
    found = minimize_scalar(loss, bounds=(middle - WIDEST, middle + WIDEST), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))


def best_threshold(scores: Floats, truth: Labels, candidates: Labels, unseen: Labels) -> Threshold:
    """The threshold of the best balanced accuracy among those that keep most images whose class is there.

    Every other unseen class is left out of the candidates, then the others, so that each is once there and once not. Without
    two unseen classes, or where no threshold helps, there is none.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    halves = [half for half in (unseen[::2], unseen[1::2]) if np.isin(truth, half).any()]
    if len(halves) < 2:
        return Threshold()
    known = np.concatenate([~np.isin(truth, half) for half in halves])
    best = np.concatenate([scores[:, ~np.isin(candidates, half)].max(axis=1) for half in halves])
    weights = np.concatenate([class_weights(truth)] * 2)
    area = 100 * float(roc_auc_score(known, best, sample_weight=weights))
    wrong, right, thresholds = roc_curve(known, best, sample_weight=weights)
    place = int(np.where(right >= LEAST_KEPT, right - wrong, -np.inf).argmax())
    if right[place] <= wrong[place]:
        return Threshold(AUROC=area)
    return Threshold(float(thresholds[place]), area, float(50 * (1 + right[place] - wrong[place])), 100 * float(right[place]))


def class_weights(truth: Labels) -> Floats:
    """Weights (n,) that sum to one, under which every class counts the same."""
    labels, place, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (counts[place] * len(labels)))
