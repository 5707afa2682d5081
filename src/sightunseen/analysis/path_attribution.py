"""Attribution of a score difference to attributes, summed along a path between two class vectors."""

import copy
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.errors import DataError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.methods import ZeroShotClassifier

BLOCK = 2048  # path points scored at a time, which bounds memory for vectors of thousands of dimensions

Part = tuple[Callable[[ArrayLike], NDArray[np.float32]], NDArray[np.bool_]]


class PathAttribution:
    """Attribution of score(end) - score(start) to the attributes, integrated along a path between two class vectors.

    The path is a staircase around the straight line from ``start`` to ``end``. Each step changes one attribute, and the
    change of the score in that step is credited to this attribute. The contributions therefore sum to the difference of
    the two scores (completeness), and an attribute that does not differ contributes zero.

    An attribute takes more steps the more it differs; no step is longer than half the mean difference. The order of the
    steps is pseudo-random but fixed in the first half of the path and reversed in the second half, so the path is symmetric
    about its midpoint. If the score is a sum of functions of single attributes and products of two attributes, the
    contributions are exactly the Shapley values. Otherwise they approximate the Aumann-Shapley values, that is, integrated
    gradients along the straight line, which are the limit for infinitely small steps. No gradients are needed.

    The points of the path are scored as classes added to a copy of the model. Scores therefore contain no seen-class bias
    and nothing that the method learned about a single class apart from its vector.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    start, end : ndarray of shape (a,)
        Class vectors at both ends of the path.

    Examples
    --------
    The score of ESZSL without scaling is linear, so a contribution is a weight times the difference of the attribute:

    >>> from sightunseen.methods import ESZSL
    >>> vectors = {"owl": [1, 0, 1], "emu": [0, 1, 1]}
    >>> X = np.array([[1.0, 0], [0, 1], [2, 0], [0, 2]])
    >>> model = ESZSL(feature_scaling="none", semantic_norm=None).fit(X, ["owl", "emu", "owl", "emu"], vectors)
    >>> attribution = PathAttribution(model, np.array([0.0, 1, 1]), np.array([1.0, 0, 1]))
    >>> values, totals = attribution(X[:1])
    >>> np.allclose(values, X[:1] @ model.map_ * [1, -1, 0], atol=1e-5), np.allclose(values.sum(axis=1), totals)
    (True, True)
    """

    def __init__(self, model: ZeroShotClassifier, start: Vectors, end: Vectors) -> None:
        self._model, self._start, self._end = model, start, end
        difference = np.abs(end - start)
        self._half_steps = np.ceil(difference / (difference.sum() or 1) * np.count_nonzero(difference)).astype(np.intp)  # (a,)
        self._moves = _symmetric_order(self._half_steps)  # (s,) the attribute of each step
        self._zero_allowed = not _may_contain_zero(start, end) or _accepts_zero_vector(model)
        self._parts = list(self._scorers()) if len(self._moves) < BLOCK else None

    def __call__(self, X: ArrayLike) -> tuple[Doubles, Doubles]:
        """Compute the contributions for images.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.

        Returns
        -------
        values : ndarray of shape (n, a)
            Contribution of each attribute.
        totals : ndarray of shape (n,)
            Score of ``end`` minus score of ``start``, the sum of the contributions.
        """
        scores = np.concatenate([_scores(part, X) for part in self._parts or self._scorers()], axis=1)  # (n, s + 1)
        if not self._zero_allowed:
            self._interpolate(scores, X)
        values = np.zeros((len(scores), len(self._end)))
        if len(self._moves):
            grouped = np.diff(scores, axis=1)[:, np.argsort(self._moves, kind="stable")]
            moved = np.flatnonzero(self._half_steps)
            first = np.cumsum(2 * self._half_steps[moved]) - 2 * self._half_steps[moved]
            values[:, moved] = np.add.reduceat(grouped, first, axis=1)
        return values, scores[:, -1] - scores[:, 0]

    def points(self, first: int = 0, last: int | None = None) -> Vectors:
        """Points of the path.

        Parameters
        ----------
        first : int, default=0
            Index of the first point.
        last : int, default=None
            Index after the last point; by default all s + 1 points of a path of s steps are returned.

        Returns
        -------
        ndarray of shape (k, a)
            Points as class vectors.
        """
        last = len(self._moves) + 1 if last is None else min(last, len(self._moves) + 1)
        done = np.zeros((last - first, len(self._end)))
        done[0] = np.bincount(self._moves[:first], minlength=len(self._end))
        done[np.arange(1, last - first), self._moves[first : last - 1]] = 1
        share = np.cumsum(done, axis=0) / np.maximum(2 * self._half_steps, 1)
        return np.where(share < 1, self._start + share * (self._end - self._start), self._end)

    def _scorers(self) -> Iterator[Part]:
        """Yield, per block of k points, a scoring function and a mask (k,) of the points that it scores."""
        for first in range(0, len(self._moves) + 1, BLOCK):
            points = self.points(first, first + BLOCK)
            scored = np.logical_or(points.any(axis=1), self._zero_allowed)
            model, labels = with_points(self._model, points[scored])
            yield model.scorer(labels), scored

    def _interpolate(self, scores: Doubles, X: ArrayLike) -> None:
        """Fill in the scores of zero vectors: the mean of both neighbours, or of the seen classes at the start."""
        zero = np.flatnonzero(np.isnan(scores).all(axis=0))
        for index in zero[zero > 0]:
            scores[:, index] = (scores[:, index - 1] + scores[:, index + 1]) / 2
        if 0 in zero:
            seen = self._model.decision_function(X, self._model.seen_classes_) + self._model.seen_penalty
            scores[:, 0] = seen.mean(axis=1)


def _symmetric_order(half_steps: NDArray[np.intp]) -> NDArray[np.intp]:
    """Attribute of each step: ``half_steps`` (a,) evenly spread over the first half, then the reverse."""
    which = np.repeat(np.arange(len(half_steps)), half_steps)
    number = np.arange(len(which)) - np.repeat(np.cumsum(half_steps) - half_steps, half_steps)  # among the attribute's steps
    delay = as_generator(derive_seed(0, "order of attributes")).random(len(half_steps))
    order = np.argsort((number + delay[which]) / half_steps[which], kind="stable")
    return np.concatenate([which[order], which[order][::-1]])


def _scores(part: Part, X: ArrayLike) -> Doubles:
    """Scores (n, k) of a block of points; NaN for points that were not scored."""
    scorer, scored = part
    found = scorer(X)
    scores = np.full((len(found), len(scored)), np.nan)
    scores[:, scored] = found
    return scores


def with_points(model: ZeroShotClassifier, points: Vectors) -> tuple[ZeroShotClassifier, Labels]:
    """Copy a model and add points of its space of class vectors as classes.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model; it is not modified.
    points : ndarray of shape (k, a)
        Class vectors.

    Returns
    -------
    model : ZeroShotClassifier
        The copy.
    labels : ndarray of shape (k,)
        Labels of the points.
    """
    labels = model.table_.fresh_labels(len(points))
    # Learned arrays are shared, not copied: add_classes does not change them, and cached attributions stay small.
    torch = sys.modules.get("torch")  # if it is not imported, no model has tensors
    kinds = (np.ndarray,) if torch is None else (np.ndarray, torch.Tensor, torch.nn.Module)
    learned = {id(value): value for value in vars(model).values() if isinstance(value, kinds)}
    return copy.deepcopy(model, learned).add_classes(ClassTable(labels, points)), labels


def _may_contain_zero(start: Vectors, end: Vectors) -> bool:
    """Whether a point of the path can be the zero vector."""
    return bool((start * end <= 0).all())


def _accepts_zero_vector(model: ZeroShotClassifier) -> bool:
    """Whether a class with a zero vector can be added to the model."""
    try:
        with_points(model, np.zeros((1, model.table_.vectors.shape[1])))
    except DataError:
        return False
    return True
