"""Imputation, scaling and concatenation of class vectors."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError, SettingsError

# Ratios of the largest absolute values of attributes that indicate different units: between neighbours in sorted order, and
# between the largest and the median. In the benchmarks, within one unit, they are at most 1.7 and 8.
GAP, SPREAD = 10.0, 30.0
TEXT = re.compile(r"text (\d{1,9})")  # names of text dimensions that follow attributes
MISSING = -1.0  # marks a missing attribute value, as in the files of AwA
RARE = 0.05  # largest fraction of the attribute values that are read as missing


@dataclass(frozen=True)
class AttributeScaling:
    """Imputation of missing attributes, and scaling ``(v - shift) * factor`` of attributes in different units.

    Missing attributes (see :func:`missing_values`) are replaced by the mean over the classes in which they are known. Every
    attribute is divided by its largest absolute value. An attribute far from zero, such as a year, is shifted first, so that
    its scaled values range from 0.5 to 1. If the attributes share one unit, the scaling is the identity.

    Parameters
    ----------
    shift : ndarray of shape (a,), optional
        Shift of each attribute; None for the identity.
    factor : ndarray of shape (a,), optional
        Factor of each attribute; None for the identity.
    means : ndarray of shape (a,), optional
        Replacement for missing values of each attribute; None if the table has no missing values.

    Examples
    --------
    >>> import numpy as np
    >>> weights_and_legs = np.array([[5000.0, 4.0], [2500.0, 2.0], [0.0, 0.0]])
    >>> AttributeScaling.of_attributes(weights_and_legs)(weights_and_legs)
    array([[1. , 1. ],
           [0.5, 0.5],
           [0. , 0. ]])
    """

    shift: Vectors | None = None
    factor: Vectors | None = None
    means: Vectors | None = None

    @classmethod
    def learned(cls, table: ClassTable) -> "AttributeScaling":
        """Derive imputation and scaling from the vectors in use of a class table; text dimensions are not changed.

        Parameters
        ----------
        table : ClassTable
            The class table.

        Returns
        -------
        AttributeScaling
            The scaling.
        """
        count = attribute_count(table)
        found = cls.of_attributes(table.vectors[:, :count])
        texts = table.vectors.shape[1] - count

        def extended(values: Vectors | None, neutral: float) -> Vectors | None:
            return None if values is None else np.append(values, np.full(texts, neutral))

        return cls(extended(found.shift, 0), extended(found.factor, 1), extended(found.means, MISSING))

    @classmethod
    def of_attributes(cls, attributes: Vectors) -> "AttributeScaling":
        """Derive imputation and scaling from attributes.

        Parameters
        ----------
        attributes : ndarray of shape (c, a)
            Attributes; classes with NaN or infinite values are ignored.

        Returns
        -------
        AttributeScaling
            The scaling.
        """
        missing = missing_values(attributes)
        means = _means_of_known(attributes, missing) if missing.any() else None
        attributes = attributes if means is None else np.where(missing, means, attributes)
        known = attributes[np.isfinite(attributes).all(axis=1)]
        if not known.size or not differ_in_unit(known):
            return cls(means=means)
        low, high = known.min(axis=0), known.max(axis=0)
        size, span = np.maximum(np.abs(low), np.abs(high)), high - low
        far = (span < size / 2) & ~np.isclose(low, high, rtol=1e-3, atol=0)  # constant attributes are not shifted
        nearer = np.where(low > 0, low - span, high + span)
        divisor = np.where(far, 2 * span, np.where(size > 0, size, 1))
        return cls(np.where(far, nearer, 0.0), 1 / divisor, means)

    def imputed(self, vectors: Vectors) -> Vectors:
        """Replace the missing values of class vectors of shape (c, a); returns the same array if there are none."""
        if self.means is None or not (vectors == MISSING).any():
            return vectors
        return np.where(vectors == MISSING, self.means, vectors)

    def imputed_table(self, table: ClassTable) -> ClassTable:
        """Replace the missing values of the semantics in use; returns the same table if there are none."""
        vectors = self.imputed(table.vectors)
        if vectors is table.vectors:
            return table
        return ClassTable(table.labels, {**table.semantics, table.use: vectors}, table.names, table.use, table.texts)

    def __call__(self, vectors: Vectors) -> Vectors:
        """Scale class vectors of shape (c, a) without missing values; the identity returns the same array."""
        if self.shift is None or self.factor is None:
            return vectors
        return np.asarray((vectors - self.shift) * self.factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return shift, factor and means by name, for serialisation."""
        named = {"shift": self.shift, "factor": self.factor, "means": self.means}
        return {f"attribute_scaling.{name}": array for name, array in named.items() if array is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "AttributeScaling":
        """Restore the scaling from the result of :meth:`arrays`."""
        return cls(*(arrays.get(f"attribute_scaling.{name}") for name in ("shift", "factor", "means")))


def missing_values(attributes: Vectors) -> NDArray[np.bool_]:
    """Find attribute values that are marked as missing: -1, if it is rare and all other values are non-negative.

    Parameters
    ----------
    attributes : ndarray of shape (c, a)
        Attributes, without text dimensions.

    Returns
    -------
    ndarray of bool of shape (c, a)
        True where a value is missing.

    Examples
    --------
    >>> import numpy as np
    >>> legs = np.array([[4.0], [-1.0], *[[2.0]] * 20])
    >>> missing_values(legs)[:3].ravel()
    array([False,  True, False])
    """
    marked = attributes == MISSING
    if marked.sum() > RARE * attributes.size or (attributes[~marked] < 0).any():
        return np.zeros_like(marked)
    return np.asarray(marked)


def attribute_count(table: ClassTable) -> int:
    """Return the number of attributes among the dimensions in use; text dimensions follow them."""
    kind, size = table.use.partition(":")[0], int(table.vectors.shape[1])
    if kind in ("text", "names") or (kind == "both" and table.attribute_names is None):
        return 0
    last = TEXT.fullmatch(table.attribute_names[-1]) if kind == "both" and table.attribute_names else None
    return size if last is None else max(0, size - int(last[1]))


def differ_in_unit(attributes: Vectors) -> bool:
    """Return whether the attributes are evidently in different units: their largest absolute values are far apart.

    Parameters
    ----------
    attributes : ndarray of shape (c, a)
        Finite attributes.

    Returns
    -------
    bool
        Whether the units differ.
    """
    sizes = np.abs(attributes).max(axis=0)
    sizes = np.sort(sizes[sizes > 0])
    if len(sizes) < 2:
        return False
    rare = math.ceil(len(sizes) / 10)  # the smallest tenth may be rare attributes or unused dimensions
    gaps = sizes[rare:] / sizes[rare - 1 : -1]
    return bool(gaps.max() > GAP or sizes[-1] > SPREAD * sizes[(len(sizes) - 1) // 2])


def _means_of_known(attributes: Vectors, missing: NDArray[np.bool_]) -> Vectors:
    """Mean (a,) of each attribute over the classes in which it is known and finite; 0 if there is none."""
    known = ~missing & np.isfinite(attributes)
    return np.asarray(np.where(known, attributes, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def scale_vectors(vectors: Vectors, norm: float | str | None) -> Vectors:
    """Scale all class vectors to the same length.

    Attributes of different benchmarks differ by a factor of 100; with length sqrt(a), entries are about 1.

    Parameters
    ----------
    vectors : ndarray of shape (c, a)
        Class vectors.
    norm : float, "sqrt" or None
        Length; ``sqrt`` stands for the square root of a, None for no scaling.

    Returns
    -------
    ndarray of shape (c, a)
        Scaled class vectors.

    Raises
    ------
    DataError
        If a vector is all zero.
    SettingsError
        If ``norm`` is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> scale_vectors(np.array([[3.0, 4.0]]), norm=10)
    array([[6., 8.]])
    """
    length = length_of(norm, vectors.shape[1])
    if length is None:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise DataError(
            f"{int((lengths == 0).sum())} class vectors are all zero and cannot be scaled. "
            "Describe these classes, drop them, or set semantic_norm=None."
        )
    return np.asarray(vectors * (length / lengths))


def join_vectors(parts: Sequence[tuple[Vectors, float]]) -> Vectors:
    """Concatenate several kinds of class vectors, each scaled such that its spread around its mean equals its weight.

    Parameters
    ----------
    parts : sequence of (ndarray of shape (c, a_k), float)
        Class vectors of each kind, and their weight. The spread is the root mean square distance to the mean vector.

    Returns
    -------
    ndarray of shape (c, sum of a_k)
        Concatenated class vectors.

    Raises
    ------
    DataError
        If a weight is not positive, or if the kinds differ in their number of classes.
    """
    if not all(0 < weight < math.inf for _, weight in parts):
        raise DataError("the weights of class vectors must be positive numbers. Leave out kinds that are not needed.")
    counts = {len(vectors) for vectors, _ in parts}
    if len(counts) > 1 or 0 in counts:
        raise DataError(
            f"all kinds of class vectors must be of the same classes; got {[len(vectors) for vectors, _ in parts]}."
        )
    with np.errstate(over="ignore", invalid="ignore"):  # of vectors that are not finite, which the split doctor reports
        spreads = [float(np.sqrt(np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean())) or 1.0 for vectors, _ in parts]
        return np.hstack([vectors * (weight / spread) for (vectors, weight), spread in zip(parts, spreads, strict=True)])


def length_of(norm: float | str | None, size: int) -> float | None:
    """Return the length that ``norm`` stands for.

    Parameters
    ----------
    norm : float, "sqrt" or None
        Length; ``sqrt`` stands for the square root of ``size``.
    size : int
        Number of dimensions.

    Returns
    -------
    float or None
        The length; None for no scaling.

    Raises
    ------
    SettingsError
        If ``norm`` is neither of these, or not positive.
    """
    if norm is None:
        return None
    length = math.sqrt(size) if norm == "sqrt" else norm
    if isinstance(length, str) or not length > 0:
        raise SettingsError(f"semantic_norm must be a positive number, 'sqrt' or None; got {norm!r}.")
    return float(length)
