"""95% intervals of accuracies, by a bootstrap over classes and over the images of each class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.core.rows import Indices

DRAWS = 1000
MOST_CLASSES = 1000  # that are resampled one by one; the mean of more is normally distributed for all purposes
LOW, HIGH = 0.025, 0.975
NORMAL = 1.959964  # quantile of the standard normal distribution at ``HIGH``
COVERAGE = "bootstrap over the tested classes and their images"


@dataclass(frozen=True)
class Counts:
    """Number of images of each class, and of those that are predicted correctly.

    Parameters
    ----------
    right, images : ndarray of int of shape (c,)
        Counts by class; every class has an image.
    """

    right: Indices
    images: Indices

    @classmethod
    def of(cls, y_true: ArrayLike, y_pred: ArrayLike) -> "Counts":
        """Count images by their true class.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        y_pred : array-like of shape (n,)
            Predicted labels.

        Returns
        -------
        Counts
            The counts, by sorted label.

        Raises
        ------
        DataError
            If there are no labels, or if the two differ in shape.

        Examples
        --------
        >>> Counts.of(["a", "a", "b"], ["a", "b", "b"])
        Counts(right=array([1, 1]), images=array([2, 1]))
        """
        y_true, y_pred = paired_labels(y_true, y_pred)
        return cls.at(np.unique(y_true, return_inverse=True)[1], y_true == y_pred)

    @classmethod
    def at(cls, classes: Indices, right: NDArray[np.bool_]) -> "Counts":
        """Count images by the index (n,) of their true class, and whether their predictions (n,) are correct."""
        images = np.bincount(classes)
        return cls(np.bincount(classes[right], minlength=len(images)), images)

    @property
    def n_right(self) -> int:
        """Number of images that are predicted correctly."""
        return int(self.right.sum())

    @property
    def n_images(self) -> int:
        """Number of images."""
        return int(self.images.sum())

    @property
    def decided(self) -> bool:
        """Whether all predictions are correct, or none; a bootstrap then has no spread."""
        return self.n_right in (0, self.n_images)


def paired_labels(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check that there is one prediction per label.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,)
        Predicted labels.

    Returns
    -------
    y_true, y_pred : ndarray of shape (n,)
        Both as arrays.

    Raises
    ------
    DataError
        If there are no labels, or if the two differ in shape.
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.shape != y_pred.shape or y_true.ndim != 1 or y_true.size == 0:
        raise DataError(
            f"accuracy needs as many predictions as labels, and at least one; got {y_pred.shape} and {y_true.shape}."
        )
    return y_true, y_pred


def bootstrap(counts: Counts, per_class: bool = True, seed: int = 0, n_draws: int = DRAWS) -> Doubles:
    """Accuracies of resampled test sets.

    Every draw has as many classes as there are, drawn with replacement, and as many images of each drawn class as that class
    has, drawn with replacement (a two-stage bootstrap; Davison and Hinkley, Bootstrap Methods and their Application, 1997,
    Section 3.8). So the spread covers both which classes and which images were tested. It does not cover the choice of the
    training classes and images, of hyperparameters, or of the candidates, which are those of the model in every draw. A single
    class has no spread between classes; of two to four classes the spread between classes is underestimated.

    Parameters
    ----------
    counts : Counts
        Correct predictions of every class.
    per_class : bool, default=True
        Every class has the same weight, as in T1, U and S; otherwise every image.
    seed : int, default=0
        Seed of the draws.
    n_draws : int, default=1000
        Number of draws.

    Returns
    -------
    ndarray of shape (n_draws,)
        Accuracies, between 0 and 1. With more than 1,000 classes they are drawn from the normal distribution that has the mean
        and the variance of the bootstrap.

    Examples
    --------
    >>> draws = bootstrap(Counts(np.array([3, 9]), np.array([10, 10])))
    >>> draws.shape, round(float(draws.mean()), 1)
    ((1000,), 0.6)
    """
    rng = as_generator(derive_seed(seed, "bootstrap"))
    n_classes, accuracy = len(counts.images), counts.right / counts.images
    if n_classes > MOST_CLASSES:
        weight = np.ones(n_classes) if per_class else counts.images.astype(np.float64)
        mean = float(np.average(accuracy, weights=weight))
        between, within = (accuracy - mean) ** 2, accuracy * (1 - accuracy) / counts.images
        deviation = np.sqrt(np.sum(weight**2 * (between + within))) / weight.sum()
        return np.clip(rng.normal(mean, deviation, n_draws), 0.0, 1.0)
    drawn = rng.integers(n_classes, size=(n_draws, n_classes))
    images = counts.images[drawn]
    right = rng.binomial(images, accuracy[drawn])
    found = (right / images).mean(axis=1) if per_class else right.sum(axis=1) / images.sum(axis=1)
    return np.asarray(found)


def interval(counts: Counts, draws: Doubles) -> list[float]:
    """95% interval of an accuracy.

    Parameters
    ----------
    counts : Counts
        Correct predictions of every class.
    draws : ndarray of shape (n_draws,)
        Result of :func:`bootstrap`.

    Returns
    -------
    list of float
        Low and high, in percent: the quantiles of the draws at 2.5 and 97.5%. If all images are right or all are wrong, the
        draws have no spread; then the interval is that of Wilson (1927) for the number of images.

    Examples
    --------
    >>> ten = Counts(np.array([5, 5]), np.array([5, 5]))
    >>> interval(ten, bootstrap(ten))
    [72.25, 100.0]
    """
    if counts.decided:
        edge = 100 * NORMAL**2 / (counts.n_images + NORMAL**2)
        return [0.0, round(edge, 2)] if counts.n_right == 0 else [round(100 - edge, 2), 100.0]
    return bounds(draws)


def bounds(draws: Doubles) -> list[float]:
    """Quantiles of draws at 2.5 and 97.5%, in percent.

    Parameters
    ----------
    draws : ndarray of shape (n_draws,)
        Fractions, such as harmonic means of two results of :func:`bootstrap`.

    Returns
    -------
    list of float
        Low and high, rounded to two decimals.
    """
    return [round(100 * float(bound), 2) for bound in np.quantile(draws, [LOW, HIGH])]
