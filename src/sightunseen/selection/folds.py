"""Class folds for selection: validation classes stand in for unseen classes."""

from typing import Any

from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError

NO_HELD_OUT_IMAGES = (
    "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
    "image. Add images, or train with fixed hyperparameters (--select none)."
)
ENOUGH_CLASSES, MOST_FOLDS = 50, 5  # validation classes in all folds together, and folds


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
        enough = -(-ENOUGH_CLASSES // len(folds[0].unseen))
        folds = data.validation_folds(min(MOST_FOLDS, enough), seed)
    if not all(len(fold.test_seen) for fold in folds):
        raise DataError(NO_HELD_OUT_IMAGES)
    return folds
