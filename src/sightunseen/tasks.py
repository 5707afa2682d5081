"""Algorithm 1, line 1: drawing tasks of M classes and N images a class, many at a time."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class ClassImages:
    """The images of c classes: those of class k stand at ``rows[start[k] : start[k] + count[k]]``."""

    rows: Indices  # (n,) image rows, sorted by class
    start: Indices  # (c,)
    count: Indices  # (c,) all positive

    @classmethod
    def of(cls, y: NDArray[Any]) -> "ClassImages":
        """Group images by their label; class k is the k-th label in sorted order."""
        _, position = np.unique(y, return_inverse=True)
        count = np.bincount(position)
        return cls(np.argsort(position, kind="stable"), np.cumsum(count) - count, count)

    def warn_of_small_classes(self, images_per_class: int) -> None:
        """Say once that some classes repeat images within a task."""
        small = int((self.count < images_per_class).sum())
        if small:
            warnings.warn(
                f"{small} of {len(self.count)} classes have fewer than {images_per_class} images; "
                "their images are drawn with replacement.",
                stacklevel=2,
            )


def draw_tasks(
    images: ClassImages, n_tasks: int, classes_per_task: int, images_per_class: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Tasks of M distinct classes and N distinct images of each (repeated only where a class has fewer than N).

    Returns
    -------
    classes : (n_tasks, M), and image rows : (n_tasks, M, N). The local label of an image is its place along M.
    """
    # The M smallest of c random keys are a random subset; a task does not care for its order.
    keys = rng.random((n_tasks, len(images.count)))
    classes = np.argpartition(keys, classes_per_task - 1, axis=1)[:, :classes_per_task]
    places = draw_distinct(images.count[classes], images_per_class, rng)
    return classes, images.rows[images.start[classes][..., None] + places]


def draw_batches(n_images: int, n_batches: int, size: int, rng: np.random.Generator) -> Indices:
    """Plain mini-batches for training without tasks: (n_batches, size) image rows, each drawn from all images."""
    return rng.integers(0, n_images, size=(n_batches, size))


def draw_distinct(count: Indices, size: int, rng: np.random.Generator) -> Indices:
    """``size`` distinct numbers below each entry of ``count`` (Floyd's algorithm, for all entries at once).

    Entries below ``size`` are drawn from with replacement. Shape: (*count.shape, size).
    """
    drawn = np.empty((*count.shape, size), dtype=np.int64)
    for k in range(size):
        # Of the numbers up to `last`, take a random one; if it was taken before, `last` itself was not.
        last = count - size + k
        enough = last >= k
        candidate = rng.integers(0, np.where(enough, last + 1, count))
        taken = (drawn[..., :k] == candidate[..., None]).any(axis=-1) & enough
        drawn[..., k] = np.where(taken, last, candidate)
    return drawn
