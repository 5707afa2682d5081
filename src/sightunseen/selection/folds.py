"""Class folds: some seen classes are held out and stand in for unseen ones. The one rule for how many folds there are."""

from typing import Any

from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import GradientTrainedClassifier

ENOUGH_CLASSES, MOST_FOLDS = 50, 5  # validation classes in all folds together, and folds


def class_folds(estimator: Any, data: ZeroShotDataset, n_folds: int | None = None, seed: int = 0) -> list[Fold]:
    """Draw the folds on which the hyperparameters of an estimator are chosen.

    Parameters
    ----------
    estimator : decides the number of folds where none is given.
    data : whose listed pairs of training and validation classes come first; further ones are drawn from the seen classes.
    n_folds : None: one for a method that is trained by gradients, for which every fold is another training; for any other
        as many as have 50 validation classes together, and five at most.
    seed : of what is drawn.
    """
    folds = data.validation_folds(n_folds or 1, seed)
    if n_folds is None and not isinstance(estimator, GradientTrainedClassifier):
        folds = data.validation_folds(enough_folds(folds[0]), seed)
    if not all(len(fold.test_seen) for fold in folds):
        raise DataError(
            "choosing on validation classes holds out a fifth of each seen class's images, but every class has a single "
            "image. Add images, or train with fixed hyperparameters (--select none)."
        )
    return folds


def enough_folds(fold: Fold) -> int:
    """How many folds of this size have enough validation classes together for a stable choice; at most five."""
    return min(MOST_FOLDS, -(-ENOUGH_CLASSES // len(fold.unseen)))
