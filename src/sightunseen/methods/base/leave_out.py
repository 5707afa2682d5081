"""Capability of methods that are fitted without some of the classes in closed form."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.classifier import ZeroShotClassifier


class LeaveClassesOut(ZeroShotClassifier):
    """Abstract base class of methods whose hyperparameters are compared on many class folds without refitting."""

    @abstractmethod
    def left_out_scores(
        self,
        X: Floats,
        y: Labels,
        classes: ClassTable,
        X_test: Floats,
        left_out: Sequence[Labels],
        parameters: Sequence[Mapping[str, Any]],
    ) -> Iterator[tuple[int, int, Doubles]]:
        """Score images with models that are fitted without some of the classes.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Features of images of all seen classes.
        y : ndarray of shape (n,)
            Their labels.
        classes : ClassTable
            Class vectors of the seen classes.
        X_test : ndarray of shape (m, d)
            Features of the images to score; none of them is in ``X``.
        left_out : sequence of ndarray of labels
            The classes that each fold leaves out, which are unseen in this fold.
        parameters : sequence of mapping
            Combinations of hyperparameters.

        Yields
        ------
        combination, fold : int
            Indices in ``parameters`` and ``left_out``; every pair occurs once, in any order.
        scores : ndarray of shape (m, s)
            Scores of all seen classes, sorted, including those left out.
        """
