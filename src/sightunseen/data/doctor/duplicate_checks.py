"""Check for near-duplicates: test images whose features are nearly those of a training image or of another test image.

A test image is a near-duplicate of another image if the Euclidean distance of their features is at most a radius: a quarter of
the root mean square distance of an image from the mean, or less if so small distances occur by chance. The number of images
within a distance r of an image grows as r to the power of the intrinsic dimension of the features. That dimension and the
typical distance of the FEW-th nearest image give the number of images that have another one within r by chance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.rows import VALUES, Indices, selected_blocks
from sightunseen.data.doctor.finding import PASS, WARN, Finding, some

OF_SPREAD = 0.25  # radius by the distance from the mean; 0.1 for a recompressed photo, 0.9 for another photo of the same bird
CHANCE = 0.01  # largest expected number of test images that have another image within the radius by chance
FEW, MANY = 5, 10  # nearest images whose distances give the intrinsic dimension; FEW - 1 copies of an image do not change it
SAMPLE, QUERIES = 512, 128  # images for the principal components, and for the distances of the nearest images
FEWEST_FEATURES = 16  # with fewer, different images have the same features, such as only one that is not zero
DIMENSIONS = 64  # principal components in which nearest images are searched
ROUNDING = 1e-3  # error of a distance in units of the spread: squares of single precision are subtracted
MOST_IMAGES = 250_000  # larger data are not compared: the time grows as the square
MOST_PAIRS = 4_000_000_000  # of a test image and any image; beyond, evenly spaced test images are compared
SHOWN = 3
CHECK = "near-duplicates"

Points = NDArray[np.float32]


def check_near_duplicates(data: ZeroShotDataset) -> list[Finding]:
    """Check for test images that are nearly the same as a training image or another test image.

    The nearest images are searched in the leading principal components; their distances are then computed in all features.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding, PASS or WARN.
    """
    test = np.union1d(data.test_seen_rows, data.test_unseen_rows)
    rows = np.union1d(data.train_rows, test)
    if len(rows) > MOST_IMAGES:
        return [_passed(f"not compared: the data have more than {MOST_IMAGES:,} images.")]
    if not len(test) or len(rows) <= 2 * MANY or data.features.shape[1] < FEWEST_FEATURES:
        return [_passed("not compared: there are too few images or features.")]
    projection = _Projection.of(data.features[_spaced(rows, SAMPLE)])
    if projection is None:
        return [_passed("not compared: the features do not vary, or some are not finite.")]
    compared = _spaced(test, max(1, MOST_PAIRS // len(rows)))
    with np.errstate(invalid="ignore", over="ignore"):
        points, nearby = _read(data, rows, _spaced(compared, QUERIES), projection)
    radius = _radius(nearby, len(compared))
    if not np.isfinite(points).all() or radius is None:
        return [_passed("not compared: some features are not finite.")]
    part = f" Compared: {len(compared):,} of {len(test):,} test images." if len(compared) < len(test) else ""
    in_test = np.isin(rows, test)
    pairs = [_nearest(rows, points, compared, among, radius) for among in (~in_test, in_test)]
    of_train, of_test = (_verified(data, *found, radius * projection.spread) for found in pairs)
    return [_finding(data, of_train, of_test, part)]


@dataclass(frozen=True)
class _Projection:
    """Leading principal components of the features, in units of the spread."""

    mean: NDArray[np.float32]  # (d,)
    spread: float  # root mean square distance of an image from the mean
    components: NDArray[np.float32]  # (d, k)

    @classmethod
    def of(cls, sample: NDArray[np.generic]) -> "_Projection | None":
        """Compute them from a sample (n, d); None if it does not vary or is not finite."""
        values = np.asarray(sample, dtype=np.float64)
        if not np.isfinite(values).all():
            return None
        mean = values.mean(axis=0)
        centred = values - mean
        gram = centred @ centred.T  # (n, n)
        spread = float(np.sqrt(np.trace(gram) / len(gram)))
        if spread <= 0:
            return None
        squares, vectors = np.linalg.eigh(gram)
        kept = np.flatnonzero(squares > 1e-9 * squares[-1])[-DIMENSIONS:]
        components = centred.T @ (vectors[:, kept] / np.sqrt(squares[kept]))
        return cls(mean.astype(np.float32), spread, components.astype(np.float32))

    def centred(self, block: NDArray[np.generic]) -> Points:
        return np.asarray((np.asarray(block, dtype=np.float32) - self.mean) / np.float32(self.spread))


def _read(data: ZeroShotDataset, rows: Indices, queries: Indices, projection: _Projection) -> tuple[Points, Points]:
    """Principal components of all images (n, k), and distances of the nearest MANY images of each query (q, MANY), ascending.

    The features are read once, block by block.
    """
    wanted = projection.centred(data.features[queries])
    squares = np.square(wanted).sum(axis=1, keepdims=True)
    nearest = np.full((len(queries), MANY + 1), np.inf, dtype=np.float32)
    points = np.empty((len(rows), projection.components.shape[1]), dtype=np.float32)
    done = 0
    for chosen, block in selected_blocks(data.features, rows):
        content = projection.centred(block)
        points[done : done + len(chosen)] = content @ projection.components
        apart = squares + np.square(content).sum(axis=1) - 2 * wanted @ content.T
        apart[queries[:, None] == chosen] = -1  # the image itself becomes the first
        nearest = np.partition(np.concatenate([nearest, apart], axis=1), MANY, axis=1)[:, : MANY + 1]
        done += len(chosen)
    return points, np.sqrt(np.maximum(np.sort(nearest, axis=1)[:, 1:], 0))


def _radius(nearest: Points, n_compared: int) -> float | None:
    """Largest distance of a near-duplicate, in units of the spread; None if it is not finite."""
    typical, further = (float(np.median(nearest[:, k - 1])) for k in (FEW, MANY))
    if not np.isfinite(typical) or not np.isfinite(further):
        return None
    if typical <= ROUNDING:  # copies, or differences that vanish beside an image with far larger features
        return 0.0
    if further <= typical:  # as in a space of infinite dimension: chance plays no role
        return min(OF_SPREAD, typical)
    dimension = np.log(MANY / FEW) / np.log(further / typical)
    by_chance = typical * (CHANCE / (FEW * n_compared)) ** (1 / dimension)
    return float(min(OF_SPREAD, by_chance))


def _nearest(
    rows: Indices, points: Points, compared: Indices, among: NDArray[np.bool_], radius: float
) -> tuple[Indices, Indices]:
    """Compared test images whose nearest image among some rows may be within the radius, and that image."""
    candidates, others, places = rows[among], points[among], np.searchsorted(rows, compared)
    if len(candidates) < 2:
        return compared[:0], compared[:0]
    # One product gives minus the squared distance, up to a constant of each row: 2 a b - b b.
    left = np.concatenate([2 * points[places], np.full((len(places), 1), -1, dtype=np.float32)], axis=1)
    right = np.concatenate([others, np.square(others).sum(axis=1, keepdims=True)], axis=1).T
    step, found = max(1, VALUES // len(others)), []
    for start in range(0, len(compared), step):
        chosen = compared[start : start + step]
        closeness = left[start : start + step] @ right
        own = np.minimum(np.searchsorted(candidates, chosen), len(candidates) - 1)
        itself = np.flatnonzero(candidates[own] == chosen)
        closeness[itself, own[itself]] = -np.inf
        found.append(closeness.argmax(axis=1))
    nearest = np.concatenate(found)
    apart = np.linalg.norm(points[places] - others[nearest], axis=1)
    close = apart <= radius + ROUNDING  # at most the distance in all features, up to rounding
    return compared[close], candidates[nearest[close]]


def _verified(data: ZeroShotDataset, test: Indices, others: Indices, radius: float) -> list[tuple[int, int, float]]:
    """Pairs of rows whose distance in all features is at most a radius, each once, nearest first."""
    found: dict[tuple[int, int], float] = {}
    step = max(1, VALUES // max(1, data.features.shape[1]))
    for start in range(0, len(test), step):
        one, other = test[start : start + step], others[start : start + step]
        content = data.features[one].astype(np.float64)
        apart = np.linalg.norm(content - data.features[other], axis=1)
        apart[~content.any(axis=1)] = np.inf  # reported by empty-images
        for row, partner, distance in zip(one.tolist(), other.tolist(), apart.tolist(), strict=True):
            if distance <= radius and (partner, row) not in found:
                found[row, partner] = distance
    return [(row, partner, found[row, partner]) for row, partner in sorted(found, key=lambda pair: (found[pair], pair))]


def _finding(
    data: ZeroShotDataset, of_train: list[tuple[int, int, float]], of_test: list[tuple[int, int, float]], part: str
) -> Finding:
    near = [pair for pair in of_train if pair[2] > 0]  # copies are reported by identical-images
    if not near and not of_test:
        return _passed(f"no test image is nearly the same as a training image or another test image.{part}")
    parts, why = [], []
    if near:
        parts.append(f"test images that are nearly the same as a training image: {len(near)} ({_listed(data, near)})")
        why.append("A near-copy of a training image is easy to classify.")
    if of_test:
        parts.append(f"pairs of nearly the same test images: {len(of_test)} ({_listed(data, of_test)})")
        why.append("A photo that is in the test set twice counts twice.")
    remedy = "Look at these pairs, and keep one image of each."
    return Finding(CHECK, WARN, f"{'; '.join(parts)}.{part}", " ".join(why), remedy)


def _listed(data: ZeroShotDataset, pairs: list[tuple[int, int, float]]) -> str:
    def name(row: int) -> str:
        return f"row {row}" if data.image_names is None else str(data.image_names[row])

    differing = sum(data.labels[row] != data.labels[other] for row, other, _ in pairs)
    labels = f"; {differing} with two labels" if differing else ""
    return some((f"{name(row)} / {name(other)}" for row, other, _ in pairs), SHOWN) + labels


def _spaced(rows: Indices, most: int) -> Indices:
    """At most so many of the rows, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp))]


def _passed(what: str) -> Finding:
    return Finding(CHECK, PASS, what)
