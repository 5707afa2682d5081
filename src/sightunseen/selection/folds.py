"""Class folds for selection: validation classes stand in for unseen classes."""

from typing import Any

import numpy as np

from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.linear import SMALLEST_LENGTH
from sightunseen.core.randomness import as_generator, derive_seed

NO_HELD_OUT_IMAGES = (
    "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
    "image. Add images, or train with fixed hyperparameters (--select none)."
)
ENOUGH_CLASSES, MOST_FOLDS = 50, 5  # validation classes in all folds together, and folds
FEWEST_REHEARSALS, MOST_REHEARSALS = 2, 10


def class_folds(estimator: Any, data: ZeroShotDataset, n_folds: int | None = None, seed: int = 0) -> list[Fold]:
    """Draw the class folds on which the hyperparameters of an estimator are chosen.

    Parameters
    ----------
    estimator : ZeroShotClassifier or PipelineMethod
        Determines the default number of folds.
    data : ZeroShotDataset
        The data. Class folds that come with them are used first; further ones are drawn from the seen classes.
    n_folds : int, default=None
        Number of folds. None: for a ``quick`` method as many as give 50 validation classes in total, at most five; for any
        other method, which is trained once per fold, one.
    seed : int, default=0
        Seed of the drawn classes and of the held-out images.

    Returns
    -------
    list of Fold
        The folds.

    Raises
    ------
    DataError
        If there are fewer than 4 seen classes, or if every class has a single image.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> folds = class_folds(ESZSL(), make_world(World()), n_folds=2)
    >>> [set(fold.seen).isdisjoint(fold.unseen) for fold in folds]
    [True, True]
    """
    folds = data.validation_folds(n_folds or 1, seed)
    if n_folds is None and estimator.quick:
        folds = data.validation_folds(enough_folds(len(folds[0].unseen), ENOUGH_CLASSES, 1, MOST_FOLDS), seed)
    if not all(len(fold.test_seen) for fold in folds):
        raise DataError(NO_HELD_OUT_IMAGES)
    return folds


def enough_folds(size: int, enough: int, fewest: int, most: int) -> int:
    """Number of class folds of ``size`` validation classes that have ``enough`` of them together, within bounds."""
    return int(np.clip(-(-enough // size), fewest, most))


def rehearsal_folds(data: ZeroShotDataset, n_folds: int | None = None, seed: int = 0) -> list[Fold]:
    """Draw class folds on which an adaptation is rehearsed; twins are the validation classes of every second one.

    Twins are pairs of classes with similar class vectors, which an adaptation confuses most easily. Among the few classes of a
    random fold they are rarer than among the unseen classes of a data set.

    Parameters
    ----------
    data : ZeroShotDataset
        The data.
    n_folds : int, default=None
        Number of folds. None: as many as give 50 validation classes in total, but 2 to 10.
    seed : int, default=0
        Seed of the drawn classes and of the held-out images.

    Returns
    -------
    list of Fold
        The folds.

    Raises
    ------
    DataError
        If there are fewer than 4 seen classes, or if every class has a single image.
    """
    size = len(data.drawn_classes(0, seed))
    if n_folds is None:
        n_folds = enough_folds(size, ENOUGH_CLASSES, FEWEST_REHEARSALS, MOST_REHEARSALS)
    folds = []
    for k in range(n_folds):
        drawn = twins(data, size, derive_seed(seed, "twins", k)) if k % 2 else data.drawn_classes(k, seed)
        folds.append(data.class_fold(drawn, derive_seed(seed, "rehearsal images", k)))
    if not all(len(fold.test_seen) for fold in folds):
        raise DataError(NO_HELD_OUT_IMAGES)
    return folds


def twins(data: ZeroShotDataset, size: int, seed: int = 0) -> Labels:
    """Draw seen classes at random, each with the one that is most similar to it.

    Parameters
    ----------
    data : ZeroShotDataset
        The data.
    size : int
        Number of classes.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    ndarray of labels
        Sorted.
    """
    vectors = data.classes.vectors_of(data.seen)
    centred = vectors - vectors.mean(axis=0)
    centred = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), SMALLEST_LENGTH)
    similarity = centred @ centred.T
    np.fill_diagonal(similarity, -np.inf)
    chosen: list[int] = []
    for k in as_generator(seed).permutation(len(vectors)).tolist():
        if k not in chosen:
            similarity[:, k] = -np.inf
            twin = int(similarity[k].argmax())
            similarity[:, twin] = -np.inf
            chosen += [k, twin]
        if len(chosen) >= size:
            break
    return np.sort(data.seen[chosen[:size]])
