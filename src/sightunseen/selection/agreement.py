"""Agreement of validation and test: whether T1 on the test images is what T1 on validation classes promised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le, Len

from sightunseen.core.arrays import Doubles
from sightunseen.core.documents import DocumentError, validated
from sightunseen.core.errors import ModelError
from sightunseen.core.intervals import HIGH, NORMAL, Counts, bootstrap, interval
from sightunseen.core.limits import FOLDS
from sightunseen.core.records import OPEN

SCORES = np.linspace(-9.0, 9.0, 361)  # of the right class, in standard deviations around their mean
DENSITY = np.exp(-(SCORES**2) / 2) / np.exp(-(SCORES**2) / 2).sum()
STRENGTHS = np.linspace(-12.0, 12.0, 481)  # discriminabilities; at the ends all images are wrong or right, within rounding

Percent = Annotated[float, Ge(0), Le(100)]


@dataclass(frozen=True)
class Validation:
    """T1 on the validation classes of every class fold, at the chosen hyperparameters.

    Parameters
    ----------
    T1 : tuple of float
        Per-class accuracy among the validation classes of each fold, in percent; a single value if only their mean is known.
    classes : tuple of int
        Number of validation classes of each fold.
    """

    T1: tuple[float, ...]
    classes: tuple[int, ...]

    @classmethod
    def of(cls, selection: Mapping[str, Any]) -> "Validation | None":
        """Read the results on validation classes in a run record.

        Parameters
        ----------
        selection : mapping
            ``selection`` of a :class:`~sightunseen.core.records.RunRecord`.

        Returns
        -------
        Validation or None
            None if nothing was selected on validation classes.

        Raises
        ------
        ModelError
            If the record has values of other types.
        """
        if "validation" not in selection:
            return None
        try:
            found = validated(_Selection, {name: selection.get(name) for name in ("validation", "folds")})
        except DocumentError as error:
            raise ModelError(f"the selection in the run record is damaged: {error}. Train the model again.") from error
        values, sizes = found.validation.T1_of_folds or [found.validation.T1], [fold.validation_classes for fold in found.folds]
        if not sizes:
            return None
        if len(values) != len(sizes):  # the mean
            values, sizes = [found.validation.T1], [round(sum(sizes) / len(sizes))]
        return cls(tuple(values), tuple(sizes))

    @property
    def mean(self) -> float:
        """Mean of T1 over the folds."""
        return sum(self.T1) / len(self.T1)

    @property
    def guessing(self) -> float:
        """T1 of random guessing, in percent."""
        return 100 * sum(1 / size for size in self.classes) / len(self.classes)


@dataclass(frozen=True)
class Agreement:
    """Comparison of T1 on test images with T1 on validation classes.

    Parameters
    ----------
    expected : float
        T1 in percent that the validation classes promise for the number of unseen classes.
    found : float
        T1 in percent on the test images.
    allowed : float
        Largest difference that chance allows, in points.
    """

    expected: float
    found: float
    allowed: float

    @property
    def differs(self) -> bool:
        """Whether the difference is larger than chance allows."""
        return abs(self.found - self.expected) > self.allowed

    def note(self) -> dict[str, float | bool]:
        """Form in a run record."""
        numbers = {"expected_T1": self.expected, "found_T1": self.found, "allowed_difference": self.allowed}
        return {**{name: round(value, 2) for name, value in numbers.items()}, "differs": self.differs}


def compare(validation: Validation, test: Counts, n_classes: int) -> Agreement | None:
    """Compare T1 on test images with T1 on validation classes.

    A fold has another number of classes than the test, and fewer classes are easier to tell apart. So T1 of every fold is
    converted to the number of unseen classes by :func:`with_classes`. The mean over folds is what the test images should give.
    Two things vary by chance: the folds, by the standard deviation s over folds, and the test, by the standard deviation e of
    the bootstrap over classes and images. A difference of more than t sqrt(s^2 + e^2) is flagged, where t is the quantile of
    Student's distribution at 97.5% for the smaller of the numbers of test classes and of folds, less one. Folds share classes,
    so s is not divided by their number. Of a single fold, s is taken from e, in proportion to the square root of the numbers
    of classes, and its classes are counted instead of folds.

    Parameters
    ----------
    validation : Validation
        T1 on validation classes.
    test : Counts
        Correct predictions of the test images of unseen classes, among unseen classes.
    n_classes : int
        Number of unseen classes among the candidates.

    Returns
    -------
    Agreement or None
        The comparison; None if there are fewer than two candidates in a fold or in the test, or images of a single class, or if
        there are so few classes that chance allows any difference.
    """
    from scipy.special import stdtrit

    if min(n_classes, len(test.images), *validation.classes) < 2:
        return None
    expected = [with_classes(T1 / 100, k, n_classes) for T1, k in zip(validation.T1, validation.classes, strict=True)]
    draws = bootstrap(test)
    low, high = interval(test, draws)
    of_test = max(float(draws.std()), (high - low) / 100 / (2 * NORMAL))
    of_folds = float(np.std(expected, ddof=1)) if len(expected) > 1 else of_test * math.sqrt(n_classes / validation.classes[0])
    freedom = min(len(test.images), len(expected) if len(expected) > 1 else validation.classes[0]) - 1
    allowed = float(stdtrit(freedom, HIGH)) * math.sqrt(of_folds**2 + of_test**2)
    if allowed >= 1:
        return None
    return Agreement(100 * float(np.mean(expected)), 100 * float(np.mean(test.right / test.images)), 100 * allowed)


def with_classes(accuracy: float, n_from: int, n_to: int) -> float:
    """Convert an accuracy among some number of classes to another number of classes.

    The model is that of a forced choice among n alternatives (Green and Swets, Signal Detection Theory and Psychophysics,
    1966): the score of the right class is normal with mean d, those of the others are standard normal, and the largest wins.
    The discriminability d stays the same.

    Parameters
    ----------
    accuracy : float
        Accuracy among ``n_from`` classes, between 0 and 1.
    n_from, n_to : int
        Numbers of classes, at least two.

    Returns
    -------
    float
        Accuracy among ``n_to`` classes.

    Examples
    --------
    >>> round(with_classes(0.9, 10, 50), 2), round(with_classes(0.1, 10, 50), 2)
    (0.75, 0.02)
    """
    discriminability = np.interp(accuracy, _accuracies(n_from), STRENGTHS)
    return float(np.interp(discriminability, STRENGTHS, _accuracies(n_to)))


@lru_cache(maxsize=64)
def _accuracies(n_classes: int) -> Doubles:
    """Probability that the score of the right class is the largest, for each of ``STRENGTHS``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(SCORES + STRENGTHS[:, None]) ** (n_classes - 1) @ DENSITY)


@dataclass
class _Fold:
    __pydantic_config__ = OPEN

    validation_classes: Annotated[int, Ge(1), Le(2**31)]


@dataclass
class _Measured:
    __pydantic_config__ = OPEN

    T1: Percent
    T1_of_folds: Annotated[list[Percent], Len(0, FOLDS)] | None = None


@dataclass
class _Selection:
    __pydantic_config__ = OPEN

    validation: _Measured
    folds: Annotated[list[_Fold], Len(0, FOLDS)]
