"""The way from one class vector to another, an attribute at a time, and what every step does to the score of images."""

import copy
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.errors import DataError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.methods import ZeroShotClassifier

BLOCK = 2048  # points asked about at a time: thousands of text dimensions would fill the memory

Doubles = NDArray[np.float64]
Part = tuple[Callable[[ArrayLike], NDArray[np.float32]], NDArray[np.bool_]]


class Walk:
    """The straight way from the vector ``start`` (a,) to the vector ``end`` (a,), of which a model scores every point.

    Each step moves one attribute and counts for it, so all steps sum to the difference of the scores at both ends. The more
    an attribute differs the more steps it takes, none longer than half the mean difference. Their order is random, but always
    the same, up to the middle, and the reverse from there: when an attribute moves again, any other is as far behind the
    middle as it was before it. So each of two attributes gets half of a product of both, and where the score is made of such
    products and of terms of single attributes, every attribute gets its Shapley value. For other scores it gets nearly that
    of Aumann and Shapley (the integral of the gradient), which an endlessly fine walk would give.

    Points are asked about as classes added to the model: no penalty on seen classes, and nothing that a method has learned
    of just one class besides its vector, is then part of the differences.
    """

    def __init__(self, model: ZeroShotClassifier, start: Vectors, end: Vectors) -> None:
        self._model, self._start, self._end = model, start, end
        difference = np.abs(end - start)
        self._half_steps = np.ceil(difference / (difference.sum() or 1) * np.count_nonzero(difference)).astype(np.intp)  # (a,)
        self._moves = _there_and_on(self._half_steps)  # (s,) the attribute of each step
        self._silence = not _may_be_silent(start, end) or _takes_silence(model)
        self._parts = list(self._asked()) if len(self._moves) < BLOCK else None

    def __call__(self, X: ArrayLike) -> tuple[Doubles, Doubles]:
        """What each attribute contributes to the score of images (n, d), and what all of them do: (n, a), (n,)."""
        scores = np.concatenate([_scores(part, X) for part in self._parts or self._asked()], axis=1)  # (n, s + 1)
        if not self._silence:
            self._fill(scores, X)
        values = np.zeros((len(scores), len(self._end)))
        if len(self._moves):
            grouped = np.diff(scores, axis=1)[:, np.argsort(self._moves, kind="stable")]
            moved = np.flatnonzero(self._half_steps)
            first = np.cumsum(2 * self._half_steps[moved]) - 2 * self._half_steps[moved]
            values[:, moved] = np.add.reduceat(grouped, first, axis=1)
        return values, scores[:, -1] - scores[:, 0]

    def points(self, first: int = 0, last: int | None = None) -> Vectors:
        """The points of the walk from the ``first`` to before the ``last``, (k, a); all s + 1 unless told otherwise."""
        last = len(self._moves) + 1 if last is None else min(last, len(self._moves) + 1)
        done = np.zeros((last - first, len(self._end)))
        done[0] = np.bincount(self._moves[:first], minlength=len(self._end))
        done[np.arange(1, last - first), self._moves[first : last - 1]] = 1
        share = np.cumsum(done, axis=0) / np.maximum(2 * self._half_steps, 1)
        return np.where(share < 1, self._start + share * (self._end - self._start), self._end)

    def _asked(self) -> Iterator[Part]:
        """What scores the points, a block at a time, and which of them (k,) it scores."""
        for first in range(0, len(self._moves) + 1, BLOCK):
            points = self.points(first, first + BLOCK)
            asked = np.logical_or(points.any(axis=1), self._silence)
            model, labels = _with_points(self._model, points[asked])
            yield model.scorer(labels), asked

    def _fill(self, scores: Doubles, X: ArrayLike) -> None:
        """Score the points that say nothing of a class: as those beside them on average, the start as the seen classes."""
        silent = np.flatnonzero(np.isnan(scores).all(axis=0))
        for place in silent[silent > 0]:
            scores[:, place] = (scores[:, place - 1] + scores[:, place + 1]) / 2
        if 0 in silent:
            seen = self._model.decision_function(X, self._model.seen_classes_) + self._model.seen_penalty
            scores[:, 0] = seen.mean(axis=1)


def _there_and_on(steps: NDArray[np.intp]) -> NDArray[np.intp]:
    """The attribute of each step, where every one takes so many (a,) evenly up to the middle, and back from there on."""
    which = np.repeat(np.arange(len(steps)), steps)
    number = np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)  # of the step among those of its attribute
    late = as_generator(derive_seed(0, "order of attributes")).random(len(steps))
    order = np.argsort((number + late[which]) / steps[which], kind="stable")
    return np.concatenate([which[order], which[order][::-1]])


def _scores(part: Part, X: ArrayLike) -> Doubles:
    """The scores of points (n, k); not a number where they were not asked about."""
    scorer, asked = part
    found = scorer(X)
    scores = np.full((len(found), len(asked)), np.nan)
    scores[:, asked] = found
    return scores


def _with_points(model: ZeroShotClassifier, points: Vectors) -> tuple[ZeroShotClassifier, Labels]:
    """A copy of the model that knows these points (k, a) as classes, and their labels."""
    labels = model.table_.fresh_labels(len(points))
    # What was learned is shared: adding classes changes none of it, and a walk that is kept then needs little memory.
    learned = {id(value): value for value in vars(model).values() if isinstance(value, np.ndarray | Tensor | nn.Module)}
    return copy.deepcopy(model, learned).add_classes(ClassTable(labels, points)), labels


def _may_be_silent(start: Vectors, end: Vectors) -> bool:
    """Whether a point on the way can be all zero."""
    return bool((start * end <= 0).all())


def _takes_silence(model: ZeroShotClassifier) -> bool:
    """Whether a method takes a class whose vector is all zero."""
    try:
        _with_points(model, np.zeros((1, model.table_.vectors.shape[1])))
    except DataError:
        return False
    return True
