"""Capability of methods that are fitted without some of the classes in closed form."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.rows import Indices
from sightunseen.methods.base.classifier import ZeroShotClassifier
from sightunseen.methods.base.feature_scaling import FeatureScaling
from sightunseen.methods.base.moments import AllMoments, Moments, scaled_scatter
from sightunseen.methods.base.scatter import Scatter
from sightunseen.methods.base.span import Span


class TrainingImages(ABC):
    """Training images as far as class means and covariances need them.

    Attributes
    ----------
    labels : ndarray of shape (s,)
        Labels of the classes, sorted.
    """

    labels: Labels

    @abstractmethod
    def scatter(self, kind: str) -> tuple[FeatureScaling, Scatter, Span]:
        """Compute the scatter of scaled features, in coordinates of a span that contains the images.

        Parameters
        ----------
        kind : str
            Feature scaling with a single view.

        Returns
        -------
        scaling : FeatureScaling
            The fitted scaling.
        scatter : Scatter
            Means and covariance.
        span : Span
            Its coordinates.
        """

    @abstractmethod
    def without(self, rows: Indices, X: Floats, y: Labels) -> "TrainingImages":
        """Leave some images out.

        Parameters
        ----------
        rows : ndarray of int of shape (k,)
            Their indices among the training images.
        X : ndarray of float32 of shape (k, d)
            Their features.
        y : ndarray of shape (k,)
            Their labels.

        Returns
        -------
        TrainingImages
            All other images.
        """


@dataclass(frozen=True)
class FewImages(TrainingImages):
    """Fewer images than half the number of features: coordinates in their span are fewer than features.

    Parameters
    ----------
    X : ndarray of float32 of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        Labels.
    """

    X: Floats
    y: Labels

    @property
    def labels(self) -> Labels:  # type: ignore[override]
        """Labels of the classes, sorted."""
        return np.unique(self.y)

    def scatter(self, kind: str) -> tuple[FeatureScaling, Scatter, Span]:
        """Compute the scatter in the span of the images; see :meth:`TrainingImages.scatter`."""
        scaling, labels = FeatureScaling.learned(kind, self.X, self.y), self.labels
        span = Span.of(scaling(self.X))
        return scaling, Scatter.of(span.X, np.searchsorted(labels, self.y), len(labels)), span

    def without(self, rows: Indices, X: Floats, y: Labels) -> "FewImages":
        """Leave some images out; see :meth:`TrainingImages.without`."""
        return FewImages(np.delete(self.X, rows, axis=0), np.delete(self.y, rows))


@dataclass(frozen=True)
class SummedImages(TrainingImages):
    """Any number of images by their moments.

    Parameters
    ----------
    moments : mapping of str to Moments
        Moments by normalisation.
    """

    moments: AllMoments

    @property
    def labels(self) -> Labels:  # type: ignore[override]
        """Labels of the classes, sorted."""
        return next(iter(self.moments.values())).labels

    def scatter(self, kind: str) -> tuple[FeatureScaling, Scatter, Span]:
        """Compute the scatter from the moments; see :meth:`TrainingImages.scatter`."""
        scaling, scatter = scaled_scatter(self.moments, kind)
        return scaling, scatter, Span.everything(scatter.means.shape[1])

    def without(self, rows: Indices, X: Floats, y: Labels) -> "SummedImages":
        """Subtract the moments of some images; see :meth:`TrainingImages.without`."""
        moments = {name: one - Moments.of(X, y, name, one.origin) for name, one in self.moments.items()}
        return SummedImages(moments)


class LeaveClassesOut(ZeroShotClassifier):
    """Abstract base class of methods whose hyperparameters are compared on many class folds without refitting."""

    @abstractmethod
    def training_images(
        self, X: Any, y: Labels, parameters: Sequence[Mapping[str, Any]], shared: dict[str, Any]
    ) -> TrainingImages:
        """Read the training images once, for all combinations of hyperparameters.

        Parameters
        ----------
        X : ndarray or Rows of shape (n, d)
            Features.
        y : ndarray of shape (n,)
            Labels.
        parameters : sequence of mapping
            Combinations of hyperparameters.
        shared : dict
            Cache, as for :meth:`fit_sharing`, which need not read the images again.

        Returns
        -------
        TrainingImages
            The images.
        """

    @abstractmethod
    def left_out_scores(
        self,
        images: TrainingImages,
        classes: ClassTable,
        X_test: Floats,
        left_out: Sequence[Labels],
        parameters: Sequence[Mapping[str, Any]],
    ) -> Iterator[tuple[int, int, Doubles]]:
        """Score images with models that are fitted without some of the classes.

        Parameters
        ----------
        images : TrainingImages
            Images of all seen classes.
        classes : ClassTable
            Class vectors of the seen classes to compare; they may be a part of all.
        X_test : ndarray of shape (m, d)
            Features of the images to score, which are not training images.
        left_out : sequence of ndarray of labels
            The classes that each fold leaves out, which are unseen in this fold.
        parameters : sequence of mapping
            Combinations of hyperparameters.

        Yields
        ------
        combination, fold : int
            Indices in ``parameters`` and ``left_out``; every pair occurs once, in any order.
        scores : ndarray of shape (m, s)
            Scores of all classes of the table, sorted by label, including those left out.
        """
