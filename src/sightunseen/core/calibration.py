"""Post-hoc calibration on validation classes: temperature scaling and open-set rejection.

*Temperature scaling* (Guo et al., ICML 2017) divides the scores by one number before the softmax. It changes the confidence
of a model and never its predictions. *Open-set rejection* answers "none of these" for an image whose best score is below a
rejection threshold. Both are fitted to scores to which calibrated stacking has been applied: the seen-class bias of Chao et
al. (ECCV 2016), ``seen_penalty`` of a method, is already subtracted from the scores of the seen classes.

Rejection uses the best score and not the best probability. The probability separates images of left-out classes equally well
if seen classes are among the candidates (AUROC 61.7 against 61.3, mean over CVC, ESZSL, SJE and DEM on validation classes of
CUB and AwA1), but worse among unseen classes alone (57.0 against 60.8), and for a single candidate it is always 1.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from sightunseen.core.class_table import Labels
from sightunseen.core.documents import STRICT
from sightunseen.core.metrics import class_weights
from sightunseen.core.reliability import reliability

NONE = "none of these"
LEAST_KEPT = 0.95  # of the images of known classes; the best balanced accuracy alone would reject about half of them
MOST_IMAGES = 2000  # taken evenly: calibrating 150 classes then takes a tenth of a second
WIDEST = float(np.log(1e3))  # temperatures are searched within a factor of 1,000 of the scores' standard deviation
FINITE = {**STRICT, "allow_inf_nan": False}  # a calibration is part of the schema of model.json

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Threshold:
    """Rejection threshold for open-set recognition, with its quality on validation classes in percent.

    Parameters
    ----------
    none_below : float, default=None
        An image whose best score is below this threshold is "none of these". None: no image is rejected.
    AUROC : float, default=None
        Area under the ROC curve of the best score, images of known against images of left-out classes.
    none_accuracy : float, default=None
        Balanced accuracy of the decision between known and left-out classes.
    known_kept : float, default=None
        Share of the images of known classes that are not rejected.
    """

    __pydantic_config__ = FINITE

    none_below: float | None = None
    AUROC: float | None = None
    none_accuracy: float | None = None
    known_kept: float | None = None

    def is_none(self, scores: Floats) -> NDArray[np.bool_]:
        """Decide which images are rejected.

        Parameters
        ----------
        scores : ndarray of shape (n, c)
            Scores of all candidates.

        Returns
        -------
        ndarray of bool of shape (n,)
            True where the best score is below the threshold.
        """
        if self.none_below is None:
            return np.zeros(len(scores), dtype=bool)
        return np.asarray(scores.max(axis=1) < self.none_below)


@dataclass(frozen=True, kw_only=True)
class Calibration(Threshold):
    """Temperature and rejection threshold, with their quality on validation classes in percent.

    Parameters
    ----------
    temperature : float
        Divisor of the scores before the softmax.
    ECE : float
        Expected calibration error among all classes, with the temperature.
    ECE_before : float
        The same at temperature 1.
    none_below, AUROC, none_accuracy, known_kept
        See :class:`Threshold`.
    """

    temperature: Annotated[float, Gt(0)]
    ECE: float
    ECE_before: float


def temperature_of(calibration: Calibration | None) -> float:
    """Return the divisor of the scores before the softmax; 1 without a calibration."""
    return 1.0 if calibration is None else calibration.temperature


def probabilities(scores: Floats, temperature: float = 1.0) -> Any:
    """Softmax of scores over the candidates.

    Parameters
    ----------
    scores : ndarray of shape (n, c)
        Scores of the candidates.
    temperature : float, default=1.0
        Divisor of the scores.

    Returns
    -------
    ndarray of shape (n, c)
        Probabilities; each row sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> probabilities(np.log([[1.0, 3.0]])).round(2)
    array([[0.25, 0.75]])
    >>> probabilities(np.log([[1.0, 3.0]]), temperature=0.5).round(2)
    array([[0.1, 0.9]])
    """
    return softmax(scores / temperature, axis=1)


def calibrate(scores: Floats, truth: Labels, candidates: Labels, unseen: Labels) -> Calibration:
    """Fit temperature and rejection threshold to the scores of a validation fold.

    Parameters
    ----------
    scores : ndarray of shape (n, c)
        Scores of images of seen and validation classes, with the seen-class bias already subtracted.
    truth : ndarray of shape (n,)
        Labels of the images, all of them among the candidates.
    candidates : ndarray of shape (c,)
        Label of each column, sorted.
    unseen : ndarray of shape (u,)
        The candidates without training images, sorted. Half of them at a time are left out to fit the threshold.

    Returns
    -------
    Calibration
        Temperature, threshold and their quality on these images.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.repeat(np.arange(4), 25)
    >>> scores = np.random.default_rng(0).normal(size=(100, 4)) + 2 * np.eye(4)[truth]
    >>> found = calibrate(10 * scores, truth, candidates=np.arange(4), unseen=np.array([2, 3]))
    >>> found.temperature > 1, found.ECE < found.ECE_before
    (True, True)
    """
    every = -(-len(truth) // MOST_IMAGES)
    scores, truth = scores[::every].astype(np.float64), truth[::every]
    temperature = best_temperature(scores, np.searchsorted(candidates, truth), class_weights(truth))
    right = candidates[scores.argmax(axis=1)] == truth
    before, after = (100 * reliability(probabilities(scores, t).max(axis=1), right).error for t in (1.0, temperature))
    chosen = best_threshold(scores, truth, candidates, unseen)
    return Calibration(temperature=temperature, ECE=after, ECE_before=before, **asdict(chosen))


def best_temperature(scores: Floats, columns: NDArray[np.intp], weights: Floats) -> float:
    """Temperature with the smallest weighted negative log likelihood (Guo et al., ICML 2017).

    The loss is convex in 1 / temperature, so it has one minimum.

    Parameters
    ----------
    scores : ndarray of shape (n, c)
        Scores of the candidates.
    columns : ndarray of int of shape (n,)
        Column of the true class of each image.
    weights : ndarray of shape (n,)
        Weights of the images.

    Returns
    -------
    float
        The temperature; 1.0 if all scores of an image are equal.
    """
    above = scores - np.take_along_axis(scores, columns[:, None], axis=1)  # the true class is at 0
    spread = float(above.std())
    if spread == 0:
        return 1.0
    best = above.max(axis=1)
    below = above - best[:, None]

    def loss(log_temperature: float) -> float:
        temperature = np.exp(log_temperature)
        return float(weights @ (best / temperature + np.log(np.exp(below / temperature).sum(axis=1))))

    middle = np.log(spread)
    found = minimize_scalar(loss, bounds=(middle - WIDEST, middle + WIDEST), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))


def best_threshold(scores: Floats, truth: Labels, candidates: Labels, unseen: Labels) -> Threshold:
    """Rejection threshold with the best balanced accuracy among those that keep 95 % of the images of known classes.

    Images of unknown classes are simulated: every second unseen class is left out of the candidates, then the others, so
    that each of them is known once and unknown once.

    Parameters
    ----------
    scores, truth, candidates, unseen
        See :func:`calibrate`.

    Returns
    -------
    Threshold
        Without ``none_below`` if there are images of fewer than two unseen classes, or if no threshold is better than
        chance.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    halves = [half for half in (unseen[::2], unseen[1::2]) if np.isin(truth, half).any()]
    if len(halves) < 2:
        return Threshold()
    known = np.concatenate([~np.isin(truth, half) for half in halves])
    best = np.concatenate([scores[:, ~np.isin(candidates, half)].max(axis=1) for half in halves])
    weights = np.concatenate([class_weights(truth)] * 2)
    area = 100 * float(roc_auc_score(known, best, sample_weight=weights))
    unknown_kept, known_kept, thresholds = roc_curve(known, best, sample_weight=weights)
    k = int(np.where(known_kept >= LEAST_KEPT, known_kept - unknown_kept, -np.inf).argmax())
    if known_kept[k] <= unknown_kept[k]:
        return Threshold(AUROC=area)
    accuracy = float(50 * (1 + known_kept[k] - unknown_kept[k]))
    return Threshold(float(thresholds[k]), area, accuracy, 100 * float(known_kept[k]))
