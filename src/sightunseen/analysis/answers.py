"""What a model answers on some images, asked once for every analysis."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.calibration import probabilities
from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import Reliability, reliability
from sightunseen.methods import ZeroShotClassifier

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Answers:
    """What a model answers on some images: their scores, once, for every analysis."""

    labels: Labels  # (c,) the candidates, in the order of the columns
    scores: Floats = field(repr=False)  # (n, c), penalty on seen classes included
    names: NDArray[Any] = field(repr=False)  # (n,) of the images, text
    truth: Labels | None = field(default=None, repr=False)  # (n,) true labels, where they are known
    temperature: float = 1.0  # of the model: what its scores are divided by to give probabilities

    def __post_init__(self) -> None:
        images, candidates = len(self.names), len(self.labels)
        if self.scores.shape != (images, candidates):
            raise DataError(f"{images} image names and {candidates} candidates, but scores of shape {self.scores.shape}.")
        if self.truth is not None and len(self.truth) != images:
            raise DataError(f"{images} images but {len(self.truth)} true labels; they must be as many.")

    @cached_property
    def best(self) -> Labels:
        """The predicted labels, (n,)."""
        return np.asarray(self.labels[self.scores.argmax(axis=1)])

    @cached_property
    def confidence(self) -> Floats:
        """The probability of the predicted labels, (n,), as ``predict_proba`` gives it."""
        return np.asarray(probabilities(self.scores, self.temperature).max(axis=1))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Whether the predicted labels are the true ones, (n,)."""
        return np.asarray(self.best == self.known_truth)

    @property
    def known_truth(self) -> Labels:
        """The true labels, (n,); an error where they are not known."""
        if self.truth is None:
            raise DataError("whether answers are right takes true labels, and these images have none. Give them as truth.")
        return self.truth

    def reliability(self, n_bins: int = 10) -> Reliability:
        """The images in ``n_bins`` bins of confidence, equally wide between 0 and 1, with the calibration error."""
        check_whole("n_bins", n_bins, 1)
        return reliability(self.confidence, self.right, n_bins)

    def only(self, rows: Sequence[int] | NDArray[Any] | slice) -> "Answers":
        """The answers on some of the images: numbers of rows, or (n,) of True and False."""
        chosen = np.arange(len(self.names))[rows]
        truth = None if self.truth is None else self.truth[chosen]
        return replace(self, scores=self.scores[chosen], names=self.names[chosen], truth=truth)

    def among(self, labels: ArrayLike) -> "Answers":
        """The same scores where only some of the candidates are in question.

        Some methods have another classifier among unseen classes alone: for ZSL, ask the model.
        """
        wanted = np.asarray(labels)
        column = {label: place for place, label in enumerate(self.labels.tolist())}
        missing = [label for label in wanted.tolist() if label not in column]
        if missing or not wanted.size:
            found = f"'{missing[0]}' is none of them" if missing else "no label was given"
            raise DataError(f"the answers are among {len(self.labels)} candidates; {found}. Ask the model about it, too.")
        columns = [column[label] for label in wanted.tolist()]
        return replace(self, labels=wanted, scores=self.scores[:, columns])


def ask(
    model: ZeroShotClassifier,
    X: Any,
    candidates: ArrayLike | str | None = None,
    names: ArrayLike | None = None,
    truth: ArrayLike | None = None,
) -> Answers:
    """Score images (n, d) for every candidate; images without ``names`` are called by the number of their row."""
    labels = model.candidates(candidates)
    scores = np.asarray(model.decision_function(X, labels), dtype=np.float32)
    called = np.arange(len(scores)) if names is None else np.asarray(names)
    return Answers(labels, scores, called.astype(str), None if truth is None else np.asarray(truth), model.temperature_)


def evenly(images: int, most: int) -> NDArray[np.intp]:
    """The rows of at most so many images, taken evenly from all."""
    return np.unique(np.linspace(0, images - 1, min(images, most)).round().astype(np.intp))
