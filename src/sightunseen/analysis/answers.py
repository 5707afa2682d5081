"""Scores and predictions of a model on a set of images, computed once and shared by all analyses."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.calibration import probabilities, temperature_of
from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.core.reliability import Reliability, reliability
from sightunseen.methods import ZeroShotClassifier


@dataclass(frozen=True)
class Answers:
    """Scores of a model for a set of images and candidate classes.

    Parameters
    ----------
    labels : ndarray of shape (c,)
        Candidate classes, in the order of the columns of ``scores``.
    scores : ndarray of shape (n, c)
        Decision values, with the seen-class bias of calibrated stacking included.
    names : ndarray of shape (n,)
        Names of the images.
    truth : ndarray of shape (n,), default=None
        True labels; None if they are not known.
    temperature : float, default=1.0
        Temperature of the model: probabilities are the softmax of ``scores / temperature``.

    Raises
    ------
    DataError
        If the shapes do not agree.

    Examples
    --------
    >>> scores = np.array([[2.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> answers = Answers(np.array(["owl", "emu"]), scores, np.array(["a.jpg", "b.jpg"]), np.array(["owl", "owl"]))
    >>> answers.predicted.tolist(), answers.correct.tolist()
    (['owl', 'emu'], [True, False])
    """

    labels: Labels
    scores: Floats = field(repr=False)
    names: NDArray[Any] = field(repr=False)
    truth: Labels | None = field(default=None, repr=False)
    temperature: float = 1.0

    def __post_init__(self) -> None:
        images, candidates = len(self.names), len(self.labels)
        if self.scores.shape != (images, candidates):
            raise DataError(f"{images} image names and {candidates} candidates, but scores of shape {self.scores.shape}.")
        if self.truth is not None and len(self.truth) != images:
            raise DataError(f"{images} images but {len(self.truth)} true labels; give one label per image.")

    @cached_property
    def predicted(self) -> Labels:
        """Predicted labels, shape (n,); the first candidate wins a tie."""
        return np.asarray(self.labels[self.scores.argmax(axis=1)])

    @cached_property
    def confidence(self) -> Floats:
        """Probabilities of the predicted labels, shape (n,), as ``predict_proba`` computes them."""
        return np.asarray(probabilities(self.scores, self.temperature).max(axis=1))

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each predicted label is the true one, shape (n,)."""
        return np.asarray(self.predicted == self.known_truth)

    @property
    def known_truth(self) -> Labels:
        """True labels, shape (n,); raises ``DataError`` if they are not known."""
        if self.truth is None:
            raise DataError("this analysis needs the true labels of the images, and none were given. Pass them as truth.")
        return self.truth

    def reliability(self, n_bins: int = 10) -> Reliability:
        """Accuracy and mean confidence per bin of confidence.

        Parameters
        ----------
        n_bins : int, default=10
            Number of bins of equal width between 0 and 1.

        Returns
        -------
        Reliability
            The non-empty bins and the expected calibration error.

        Raises
        ------
        SettingsError
            If ``n_bins`` is not a positive integer.
        DataError
            If there are no images, or their labels are not known.
        """
        check_whole("n_bins", n_bins, 1)
        return reliability(self.confidence, self.correct, n_bins)

    def among(self, labels: ArrayLike) -> "Answers":
        """Restrict the candidates.

        The scores are not recomputed. Some methods use another classifier if all candidates are unseen; for their ZSL
        results call :func:`ask` with these candidates.

        Parameters
        ----------
        labels : array-like of shape (k,)
            Candidates to keep, in the order of the new columns.

        Returns
        -------
        Answers
            The same images and the columns of ``labels``.

        Raises
        ------
        DataError
            If ``labels`` is empty or contains a class that is not a candidate.
        """
        wanted = np.asarray(labels)
        column = {label: index for index, label in enumerate(self.labels.tolist())}
        missing = [label for label in wanted.tolist() if label not in column]
        if missing or not wanted.size:
            found = f"'{missing[0]}' is not one of them" if missing else "no label was given"
            raise DataError(f"scores are known for {len(self.labels)} candidates; {found}. Score it with ask() first.")
        columns = [column[label] for label in wanted.tolist()]
        return replace(self, labels=wanted, scores=self.scores[:, columns])


def ask(
    model: ZeroShotClassifier,
    X: Any,
    candidates: ArrayLike | str | None = None,
    names: ArrayLike | None = None,
    truth: ArrayLike | None = None,
) -> Answers:
    """Score images for every candidate class.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    X : array-like of shape (n, d)
        Features of the images.
    candidates : array-like, str or None, default=None
        Candidate classes, as for ``model.predict``.
    names : array-like of shape (n,), default=None
        Names of the images; row numbers by default.
    truth : array-like of shape (n,), default=None
        True labels, if known.

    Returns
    -------
    Answers
        Scores and predictions.

    Examples
    --------
    >>> from sightunseen.methods import ESZSL
    >>> X, y = np.eye(4), ["owl", "emu", "owl", "emu"]
    >>> model = ESZSL().fit(X, y, {"owl": [1, 0, 1], "emu": [0, 1, 1], "kea": [1, 1, 0]})
    >>> ask(model, X, "all").scores.shape
    (4, 3)
    """
    labels = model.candidates(candidates)
    scores = np.asarray(model.decision_function(X, labels), dtype=np.float32)
    image_names = np.arange(len(scores)) if names is None else np.asarray(names)
    temperature = temperature_of(model.calibration_for(labels))
    return Answers(labels, scores, image_names.astype(str), None if truth is None else np.asarray(truth), temperature)


def evenly_spaced(count: int, limit: int) -> NDArray[np.intp]:
    """Indices of at most ``limit`` of ``count`` items, evenly spaced and including both ends.

    >>> evenly_spaced(9, 3).tolist()
    [0, 4, 8]
    """
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.intp))
