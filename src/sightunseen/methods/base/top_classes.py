"""The best classes of each image among any number of candidates, without the matrix of all scores."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.blocks import row_blocks
from sightunseen.core.calibration import temperature_of
from sightunseen.core.class_table import Labels

if TYPE_CHECKING:
    from sightunseen.methods.base.scoring import CandidateScoring

CLASSES = 2_048  # candidates that are scored at a time: the scores of a block of 1,024 images, 8 MiB, stay in the cache
HELD_BYTES = 1 << 30  # classifiers that are kept in memory; more than these are computed again for every group of images
IMAGES = 8_192  # images of such a group: scoring them takes far longer than computing the classifiers

Scorer = Callable[[Floats], Floats]
Block = tuple[Any, Any]  # features (n, d) of images, not yet scaled, and anything that belongs to them


@dataclass
class Best:
    """The k best classes of n images, best first.

    Parameters
    ----------
    columns : ndarray of int of shape (n, k)
        Indices of the classes among the candidates. Of equal scores, the first candidate is the best.
    scores : ndarray of shape (n, k)
        Their scores.
    totals : ndarray of shape (n,) or None
        Sum of exp((score - best score) / temperature) over all candidates; None without a temperature.
    """

    columns: NDArray[np.intp]
    scores: Floats
    totals: Floats | None = None

    def confidences(self, temperature: float) -> Floats:
        """Softmax probabilities (n, k) of the best classes among all candidates."""
        assert self.totals is not None
        logits = self.scores / temperature
        return np.asarray(np.exp(logits - logits[:, :1]) / self.totals[:, None])


class ClassRanking:
    """Scores of fixed candidates, in blocks of images and of classes.

    What depends only on the candidates is computed once, unless it would take more than ``HELD_BYTES``.

    Parameters
    ----------
    model : CandidateScoring
        Fitted model.
    labels : ndarray of shape (c,)
        The candidates.

    Attributes
    ----------
    seen : ndarray of bool of shape (c,)
        Whether each candidate is a seen class.
    calibration : Calibration or None
        That of the scores among the candidates.
    """

    def __init__(self, model: "CandidateScoring", labels: Labels) -> None:
        self.model, self.labels = model, labels
        self.seen = model.is_seen(labels)
        self._penalty = model.seen_penalty * self.seen.astype(np.float32)
        size = len(labels) if model.scores_jointly else CLASSES
        self._parts = [slice(start, start + size) for start in range(0, len(labels), size)]
        self._in_parts = len(self._parts) > 1
        held = not self._in_parts or 4 * len(labels) * model._scorer_width <= HELD_BYTES
        self._group = 1 if held else IMAGES
        self._scorers = [self._scorer(part) for part in self._parts] if held else None
        self.calibration = model.calibration_for(labels)

    @property
    def temperature(self) -> float:
        """Divisor of the scores before the softmax."""
        return temperature_of(self.calibration)

    def is_none(self, best: Best) -> NDArray[np.bool_]:
        """Open-set rejection of images (n,); see :meth:`ZeroShotClassifier.is_none`."""
        if self.calibration is None:
            return np.zeros(len(best.scores), dtype=bool)
        return self.calibration.is_none(best.scores[:, :1] + (self.model.seen_penalty if self.seen.all() else 0.0))

    def over(self, blocks: Iterable[Block], k: int, temperature: float | None = None) -> Iterator[tuple[Any, Any, Best]]:
        """Find the best classes of blocks of images.

        Parameters
        ----------
        blocks : iterable of (features, names)
            Features of shape (n, d), not yet scaled, and anything that belongs to them, such as the names of the images.
        k : int
            Number of classes per image; all candidates if there are fewer.
        temperature : float, default=None
            Divisor of the scores, if the confidence of the classes is needed.

        Yields
        ------
        (features, names, Best)
            The same blocks with their best classes.
        """
        waiting: list[tuple[Block, list[Floats]]] = []
        first_row = 0
        for block in blocks:
            pieces = []
            for rows in row_blocks(block[0]):
                pieces.append(self._images(rows, first_row))
                first_row += len(rows)
            waiting.append((block, pieces))
            if sum(len(piece) for _, pieces in waiting for piece in pieces) >= self._group:
                yield from self._ranked(waiting, k, temperature)
                waiting = []
        yield from self._ranked(waiting, k, temperature)

    def _ranked(
        self, waiting: Sequence[tuple[Block, list[Floats]]], k: int, temperature: float | None
    ) -> Iterator[tuple[Any, Any, Best]]:
        pieces = [piece for _, pieces in waiting for piece in pieces]
        found: dict[int, Best] = {}
        for index, part in enumerate(self._parts if pieces else ()):
            scorer = self._scorer(part) if self._scorers is None else self._scorers[index]
            for row, piece in enumerate(pieces):
                scores = scorer(piece) - self._penalty[part]
                found[row] = _extended(found.get(row), scores, part.start, min(k, len(self.labels)), temperature)
        rest = iter(found.values())
        for (features, names), own in waiting:
            yield features, names, _joined([next(rest) for _ in own])

    def _images(self, X: Any, first_row: int) -> Floats:
        features = self.model._features(X, first_row)
        return self.model._prepare_images(features) if self._in_parts else features

    def _scorer(self, part: slice) -> Scorer:
        labels = self.labels[part]
        return self.model._block_scorer(labels) if self._in_parts else self.model._scorer(labels)


def top_columns(scores: Floats, k: int) -> NDArray[np.intp]:
    """Find the columns of the largest values of each row, largest first; of equal values, the first column.

    Parameters
    ----------
    scores : ndarray of shape (n, c)
        Scores.
    k : int
        Number of columns, at most c.

    Returns
    -------
    ndarray of int of shape (n, k)
        Column indices: the first k of a stable sort in descending order.

    Examples
    --------
    >>> top_columns(np.array([[1.0, 3.0, 2.0, 3.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    if k == 1:
        return np.asarray(scores.argmax(axis=1)[:, None])
    if 4 * k >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    columns = np.sort(np.argpartition(scores, -k, axis=1)[:, -k:], axis=1)
    values = np.take_along_axis(scores, columns, axis=1)
    columns = np.take_along_axis(columns, np.argsort(-values, axis=1, kind="stable"), axis=1)
    # A partition takes any of the columns that are equal to the k-th value, not the first ones.
    tied = np.flatnonzero(np.count_nonzero(scores >= values.min(axis=1, keepdims=True), axis=1) != k)
    columns[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    return columns


def _extended(found: Best | None, scores: Floats, start: int, k: int, temperature: float | None) -> Best:
    """Take further candidates, which begin at ``start``, into the best classes of the same images; overwrites ``scores``."""
    if found is None:
        columns = top_columns(scores, min(k, scores.shape[1]))
        best = Best(columns + start, np.take_along_axis(scores, columns, axis=1))
        if temperature is not None:
            best.totals = _total(scores, best.scores[:, 0], temperature)
        return best
    largest = scores.max(axis=1)
    full = found.columns.shape[1] == k
    # Most images have no better class in a further block; an equal one is not better than those before it.
    rows = np.flatnonzero(largest > found.scores[:, -1]) if full else np.arange(len(scores))
    own = scores[rows]
    columns = top_columns(own, min(k, own.shape[1]))
    values = np.hstack([found.scores[rows], np.take_along_axis(own, columns, axis=1)])
    columns = np.hstack([found.columns[rows], columns + start])
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    best = Best(found.columns.copy(), found.scores.copy()) if full else Best(columns[:, :k], values[:, :k])
    best.columns[rows] = np.take_along_axis(columns, order, axis=1)
    best.scores[rows] = np.take_along_axis(values, order, axis=1)
    if temperature is not None and found.totals is not None:
        common = best.scores[:, 0]
        shrunk = np.exp((found.scores[:, 0] - common) / temperature)
        best.totals = found.totals * shrunk + _total(scores, common, temperature)
    return best


def _total(scores: Floats, common: Floats, temperature: float) -> Floats:
    """Sum over the candidates of exp((score - common) / temperature), for scores (n, c) that are overwritten."""
    scores /= temperature
    scores -= (common / temperature)[:, None]
    return np.asarray(np.exp(scores, out=scores).sum(axis=1))


def _joined(pieces: Sequence[Best]) -> Best:
    """Join the best classes of consecutive images."""
    if len(pieces) == 1:
        return pieces[0]
    totals = [piece.totals for piece in pieces if piece.totals is not None]
    return Best(
        np.concatenate([piece.columns for piece in pieces]),
        np.concatenate([piece.scores for piece in pieces]),
        np.concatenate(totals) if totals else None,
    )
