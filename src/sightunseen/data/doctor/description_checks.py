"""Checks of whether class vectors distinguish the classes: similar classes, uninformative attributes and hubs.

All distances are Euclidean distances between class vectors as methods use them: imputed, in one unit, of unit norm.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from sightunseen.core.blocks import ROWS
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.rows import Indices
from sightunseen.data.doctor.finding import PASS, WARN, Finding, some
from sightunseen.semantics.class_vectors import AttributeScaling, attribute_count

# A pair is similar if its distance is at most this fraction of the median distance of a class to its nearest one, or of the
# root mean square distance between classes. The smallest fractions are .64 and .33 in AwA, .58 and .19 in SUN.
OF_NEAREST, OF_ALL = 0.5, 0.1
FEWEST_CLASSES = 4
# A class is a hub if it is among the k nearest of more than HUB * k others, nearer than MARGIN times the next. On average a
# class is among those of k others; the largest number is 2.8 k in CUB and 2.6 k in SUN. Without the margin, random vectors of
# many dimensions, which are all nearly equidistant, have hubs.
HUB, MARGIN = 3.5, 0.95
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 2, 5
CHANCE = 0.01  # largest expected number of pairs of attributes that are equal by chance
SHOWN = 3


def check_descriptions(data: ZeroShotDataset) -> list[Finding]:
    """Check the class vectors: pairs of similar classes, attributes without information, and hubs.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding per check, PASS or WARN.
    """
    described = _Described.of(data)
    nearest = _Nearest.of(described.vectors)
    return [_similar_classes(described, nearest), _uninformative_attributes(data), _hub_classes(described, nearest)]


@dataclass(frozen=True)
class _Described:
    """Classes with distinct, finite and non-zero vectors."""

    table: ClassTable
    rows: Indices  # rows of the classes in the table, (c,)
    vectors: Vectors  # scaled to unit norm and centred, (c, a)
    unseen: NDArray[np.bool_]  # (c,)

    @classmethod
    def of(cls, data: ZeroShotDataset) -> "_Described":
        table, scaling = data.classes, AttributeScaling.learned(data.classes)
        imputed = scaling.imputed(table.vectors)
        usable = np.flatnonzero(np.isfinite(imputed).all(axis=1) & imputed.any(axis=1))
        # Equal vectors are reported by distinct-vectors.
        rows = usable[np.sort(np.unique(imputed[usable], axis=0, return_index=True)[1])]
        scaled = scaling(imputed[rows])
        scaled = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), np.finfo(float).tiny)
        centred = scaled - scaled.mean(axis=0) if len(rows) else scaled
        return cls(table, rows, centred, ~np.isin(table.labels[rows], data.seen))

    @property
    def labels(self) -> Labels:
        return self.table.labels[self.rows]


@dataclass(frozen=True)
class _Nearest:
    """The nearest other classes of every class, in ascending order of distance."""

    distances: NDArray[np.float64]  # (c, k)
    indices: NDArray[np.intp]  # (c, k)

    @classmethod
    def of(cls, vectors: Vectors) -> "_Nearest":
        """Find the nearest classes, by blocks of rows; one more than are counted for hubs."""
        size = min(_neighbours(len(vectors)) + 1, len(vectors) - 1)
        if size < 1:
            return cls(np.empty((len(vectors), 0)), np.empty((len(vectors), 0), dtype=np.intp))
        squares, distances, indices = np.square(vectors).sum(axis=1), [], []
        for start in range(0, len(vectors), ROWS):
            block = vectors[start : start + ROWS]
            apart = squares - 2 * block @ vectors.T  # squared distances up to a constant of each row, (b, c)
            own = np.arange(len(block))
            apart[own, start + own] = np.inf
            found = np.argpartition(apart, size - 1, axis=1)[:, :size]
            # Differences of small distances would be lost in the rounding of the products.
            exact = np.stack([np.linalg.norm(block - vectors[column], axis=1) for column in found.T], axis=1)
            order = np.argsort(exact, axis=1, kind="stable")
            distances.append(np.take_along_axis(exact, order, axis=1))
            indices.append(np.take_along_axis(found, order, axis=1))
        return cls(np.concatenate(distances), np.concatenate(indices))


def _neighbours(n_classes: int) -> int:
    """Number k of nearest classes that are counted for hubs."""
    return int(np.clip(n_classes // 10, FEWEST_NEIGHBOURS, MOST_NEIGHBOURS))


def _similar_classes(described: _Described, nearest: _Nearest) -> Finding:
    if len(described.rows) < FEWEST_CLASSES:
        return Finding("similar-classes", PASS, f"fewer than {FEWEST_CLASSES} different class vectors, too few to compare.")
    distances, partners = nearest.distances[:, 0], nearest.indices[:, 0]
    typical = float(np.median(distances))
    spread = float(np.sqrt(2 * np.square(described.vectors).sum(axis=1).mean()))
    close = np.flatnonzero(distances <= max(OF_NEAREST * typical, OF_ALL * spread))
    if not len(close):
        what = f"the two most similar classes are {distances.min() / typical:.0%} of the typical nearest distance apart."
        return Finding("similar-classes", PASS, what)
    pairs = {(min(row, partners[row]), max(row, partners[row])): distances[row] for row in close.tolist()}
    with_unseen = {pair: bool(described.unseen[list(pair)].any()) for pair in pairs}
    ordered = sorted(pairs, key=lambda pair: (not with_unseen[pair], pairs[pair]))
    names = [f"{label} (unseen)" if new else str(label) for label, new in zip(described.labels, described.unseen, strict=True)]
    listed, n_unseen = some((f"{names[one]} / {names[other]}" for one, other in ordered), SHOWN), sum(with_unseen.values())
    if n_unseen:
        what = (
            f"pairs of classes with nearly the same vector: {len(pairs)}, {n_unseen} of them with an unseen class ({listed})."
        )
        why = "An unseen class is distinguished from others by its vector alone."
    else:
        what = f"pairs of seen classes with nearly the same vector: {len(pairs)} ({listed})."
        why = "Methods that predict classifiers from class vectors may confuse them."
    return Finding("similar-classes", WARN, what, why, _distinguish(described, *ordered[0]))


def _distinguish(described: _Described, one: int, other: int) -> str:
    """Say what to add to the descriptions of two classes."""
    table, labels = described.table, described.labels
    kind = table.use.partition(":")[0]
    if kind == "names":
        return f"Add descriptions that say what distinguishes {labels[one]} from {labels[other]}."
    count = attribute_count(table)
    if not count:
        return f"Describe what distinguishes {labels[one]} from {labels[other]}, e.g. colour, shape or size."
    advice = "Add attributes in which they differ" + (", or describe the difference; " if kind == "both" else "; ")
    differences = np.abs(described.vectors[one, :count] - described.vectors[other, :count])
    largest = [column for column in np.argsort(-differences)[:2].tolist() if differences[column] > 0]
    if not largest:
        return f"{advice}{labels[one]} and {labels[other]} differ in no attribute of vectors of unit norm."
    names, values = _names(table, count), table.vectors[described.rows]
    most = " and ".join(f"'{names[k]}' ({values[one, k]:.3g}, {values[other, k]:.3g})" for k in largest)
    return f"{advice}{labels[one]} and {labels[other]} differ most in {most}."


def _uninformative_attributes(data: ZeroShotDataset) -> Finding:
    table, count = data.classes, attribute_count(data.classes)
    if not count:
        return Finding("uninformative-attributes", PASS, f"'{table.use}' are encoded texts, without attributes.")
    values = AttributeScaling.learned(table).imputed(table.vectors)[:, :count]
    usable = np.isfinite(values).all(axis=1)
    seen = np.isin(table.labels, data.seen)[usable]
    values = values[usable]
    if len(values) < 2:
        return Finding("uninformative-attributes", PASS, "fewer than 2 class vectors, too few to compare.")
    names, constant = _names(table, count), _constant(values)
    unlearned = _constant(values[seen]) & ~constant if seen.sum() > 1 else np.zeros(count, dtype=bool)
    repeated = _repeated(values, np.flatnonzero(~constant))
    parts = []
    # Dimensions without names may be those of an encoder, which need not use all of them.
    if constant.any() and table.attribute_names is not None:
        parts.append(f"the same for all classes: {constant.sum()} ({_some_of(names, constant)})")
    if unlearned.any():
        parts.append(f"the same for all seen classes but not for unseen ones: {unlearned.sum()} ({_some_of(names, unlearned)})")
    if repeated:
        shown = some((f"{names[column]} = {names[original]}" for column, original in repeated.items()), SHOWN)
        parts.append(f"copies or complements of another: {len(repeated)} ({shown})")
    if not parts:
        unused = f"; {constant.sum()} are the same for all classes" if constant.any() else ", and all vary between classes"
        return Finding("uninformative-attributes", PASS, f"no attribute of {count} repeats another{unused}.")
    what = f"attributes without information, of {count}: {'; '.join(parts)}."
    why = "Nothing can be learned about an attribute that does not vary between seen classes; a copy counts twice."
    return Finding("uninformative-attributes", WARN, what, why, "Correct their values, or remove these attributes.")


def _constant(values: Vectors) -> NDArray[np.bool_]:
    """Whether each attribute has the same value in all classes, up to rounding, (c, a) -> (a,)."""
    return np.asarray(np.ptp(values, axis=0) <= 1e-9 * np.abs(values).max(axis=0))


def _repeated(values: Vectors, columns: Indices) -> dict[int, int]:
    """Attributes that are an earlier one up to unit, offset and sign, and that one; equality by chance is left out."""
    if not len(columns):
        return {}
    varying = values[:, columns]
    span = (varying - varying.min(axis=0)) / np.ptp(varying, axis=0)  # from 0 to 1
    sided = np.abs(span - 0.5) > 1e-9
    first = sided.argmax(axis=0)  # first class that distinguishes an attribute from its complement
    flipped = np.take_along_axis(span, first[None], axis=0)[0] > 0.5
    span = np.round(np.where(flipped, 1 - span, span), 9) + 0.0  # no -0.0
    _, originals, groups = np.unique(span, axis=1, return_index=True, return_inverse=True)
    repeated = {}
    for position, group in enumerate(groups.ravel().tolist()):
        original = int(originals[group])
        if position != original and _chance(span[:, position]) < CHANCE / len(columns) ** 2:
            repeated[int(columns[position])] = int(columns[original])
    return repeated


def _chance(values: NDArray[np.float64]) -> float:
    """Probability that a random permutation of the values over the classes gives the same attribute."""
    counts = np.unique(values, return_counts=True)[1]
    return float(np.exp(gammaln(counts + 1).sum() - gammaln(len(values) + 1)))


def _hub_classes(described: _Described, nearest: _Nearest) -> Finding:
    n_classes = len(described.rows)
    k = _neighbours(n_classes)
    if nearest.distances.shape[1] <= k:
        return Finding("hub-classes", PASS, f"fewer than {k + 2} different class vectors, too few to compare.")
    clear = nearest.distances[:, :k] < MARGIN * nearest.distances[:, k:]
    counts = np.bincount(nearest.indices[:, :k][clear], minlength=n_classes)  # k-occurrences
    hubs = np.argsort(-counts, kind="stable")[: int((counts > HUB * k).sum())]
    if not len(hubs):
        return Finding(
            "hub-classes", PASS, f"no class is among the {k} nearest of unusually many others (at most {counts.max()})."
        )
    names = [f"{described.labels[row]}: {counts[row]} of {n_classes - 1}" for row in hubs]
    what = f"hubs, classes among the {k} nearest of unusually many others: {len(hubs)} ({some(names, SHOWN)})."
    why = "Images of the other classes are attracted to a hub; its description is probably too general."
    return Finding("hub-classes", WARN, what, why, f"Describe what is specific to {some(described.labels[hubs], SHOWN)}.")


def _names(table: ClassTable, count: int) -> tuple[str, ...]:
    return table.attribute_names or tuple(f"attribute {number + 1}" for number in range(count))


def _some_of(names: tuple[str, ...], chosen: NDArray[np.bool_]) -> str:
    return some((names[column] for column in np.flatnonzero(chosen)), SHOWN)
