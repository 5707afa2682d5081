"""Class vectors as a generator likes them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError, SettingsError

# What tells units apart. Within one unit sizes of attributes follow each other closely, also where rare ones are small: in
# the benchmarks the next larger one is at most 1.7 times as large, and the largest 8 times the middle one.
GAP, SPREAD = 10.0, 30.0
TEXT = re.compile(r"text (\d+)")  # the names of the dimensions of a text beside attributes


@dataclass(frozen=True)
class AttributeScaling:
    """(v - shift) * factor, so that attributes in different units count alike; nothing where they share one.

    Every attribute is divided by its largest size. One far from zero, such as a year, is first counted from nearer by, so
    that its values reach from half of that size to the whole.
    """

    shift: Vectors | None = None  # (a,)
    factor: Vectors | None = None  # (a,)

    @classmethod
    def learned(cls, table: ClassTable) -> "AttributeScaling":
        """The scaling for the vectors in use; the dimensions of a text are left alone."""
        count = attribute_count(table)
        found = cls.of_attributes(table.vectors[:, :count])
        if found.shift is None or found.factor is None:
            return found
        texts = table.vectors.shape[1] - count
        return cls(np.append(found.shift, np.zeros(texts)), np.append(found.factor, np.ones(texts)))

    @classmethod
    def of_attributes(cls, attributes: Vectors) -> "AttributeScaling":
        """The scaling for attributes (c, a); classes with NaN or infinite ones are passed over."""
        known = attributes[np.isfinite(attributes).all(axis=1)]
        if not known.size or not differ_in_unit(known):
            return cls()
        low, high = known.min(axis=0), known.max(axis=0)
        size, span = np.maximum(np.abs(low), np.abs(high)), high - low
        far = (span < size / 2) & ~np.isclose(low, high, rtol=1e-3, atol=0)  # what never varies has nothing to show
        nearer = np.where(low > 0, low - span, high + span)
        divisor = np.where(far, 2 * span, np.where(size > 0, size, 1))
        return cls(np.where(far, nearer, 0.0), 1 / divisor)

    def __call__(self, vectors: Vectors) -> Vectors:
        """Scale (c, a) -> (c, a); the same array where nothing changes."""
        if self.shift is None or self.factor is None:
            return vectors
        return np.asarray((vectors - self.shift) * self.factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, by name."""
        named = {"attribute_scaling.shift": self.shift, "attribute_scaling.factor": self.factor}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "AttributeScaling":
        """The scaling that :meth:`arrays` came from."""
        return cls(arrays.get("attribute_scaling.shift"), arrays.get("attribute_scaling.factor"))


def attribute_count(table: ClassTable) -> int:
    """How many of the columns in use are attributes; the dimensions of a text, which stand after them, are not."""
    kind, size = table.use.partition(":")[0], int(table.vectors.shape[1])
    if kind in ("text", "names") or (kind == "both" and table.attribute_names is None):
        return 0
    last = TEXT.fullmatch(table.attribute_names[-1]) if kind == "both" and table.attribute_names else None
    return size if last is None else size - int(last[1])


def differ_in_unit(attributes: Vectors) -> bool:
    """Whether the columns of (c, a) are evidently in different units: their largest sizes lie far apart."""
    sizes = np.abs(attributes).max(axis=0)
    sizes = np.sort(sizes[sizes > 0])
    if len(sizes) < 2:
        return False
    rare = math.ceil(len(sizes) / 10)  # the smallest tenth may be rare attributes, or idle dimensions of a text
    gaps = sizes[rare:] / sizes[rare - 1 : -1]
    return bool(gaps.max() > GAP or sizes[-1] > SPREAD * sizes[(len(sizes) - 1) // 2])


def scale_vectors(vectors: Vectors, norm: float | str | None) -> Vectors:
    """Scale every vector (c, a) to one length: a number, ``sqrt`` for the square root of a, or None to leave them.

    The size of attributes differs a hundredfold between benchmarks; at length sqrt(a) an entry is about one.
    """
    length = length_of(norm, vectors.shape[1])
    if length is None:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise DataError(
            f"{int((lengths == 0).sum())} class vectors are all zero and say nothing about their class. "
            "Describe these classes, drop them, or set semantic_norm=None."
        )
    return np.asarray(vectors * (length / lengths))


def join_vectors(parts: Sequence[tuple[Vectors, float]]) -> Vectors:
    """Several kinds of class vectors side by side, (c, a) each: every kind varies around its mean as much as its weight says.

    What all classes of a kind have in common tells none of them apart, and does not count.
    """
    if not all(weight > 0 for _, weight in parts):
        raise DataError("the weights of class vectors must be positive. Leave out a kind that is not wanted.")
    spreads = [float(np.sqrt(np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean())) or 1.0 for vectors, _ in parts]
    return np.hstack([vectors * (weight / spread) for (vectors, weight), spread in zip(parts, spreads, strict=True)])


def length_of(norm: float | str | None, size: int) -> float | None:
    """The length that ``norm`` stands for in vectors of this size; None leaves them as they are."""
    if norm is None:
        return None
    length = math.sqrt(size) if norm == "sqrt" else norm
    if isinstance(length, str) or not length > 0:
        raise SettingsError(f"semantic_norm must be a positive number, 'sqrt' or None; got {norm!r}.")
    return float(length)
