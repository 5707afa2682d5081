"""t-SNE (van der Maaten & Hinton, 2008): images and classes as points of the plane, near ones near each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from sightunseen.core.errors import DataError, MissingDependencyError

DIMENSIONS = 50  # that t-SNE works on; more are reduced by PCA before
PERPLEXITY = 30.0  # about how many neighbours a point has; fewer among few points
FEWEST = 4  # points; fewer have true distances in the plane
ITERATIONS = (250, 500)  # with exaggerated attraction, and then without
EVERY = 25  # iterations between two words about progress
MANY = 1000  # points; among fewer, threads wait for one another longer than they work

Floats = NDArray[np.float64]
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Picture:
    """A t-SNE picture: points of the plane. Nearness in it means something; directions and sizes do not."""

    images: Floats  # (n, 2)
    classes: Floats  # (c, 2)


def picture_of(images: ArrayLike, classes: ArrayLike, seed: int = 0, tell: Tell | None = None) -> Picture:
    """Place images (n, k) and classes (c, k), each scaled to length one as in the paper, together in the plane.

    There may be no images, or no classes. The same points and seed give the same bits, with any number of threads.
    ``tell`` is told iterations done and their total along the way.
    """
    images, classes = np.asarray(images), np.asarray(classes)
    if images.ndim != 2 or classes.ndim != 2 or images.shape[1] != classes.shape[1]:
        raise DataError(
            f"images (n, k) and classes (c, k) must be points of one space; got shapes {images.shape} and {classes.shape}."
        )
    points = np.concatenate([images, classes])
    if not len(points):
        raise DataError("there is nothing to place in a picture: no images and no classes.")
    if not np.isfinite(points).all():
        raise DataError(
            "the points of a picture must be finite; found NaN or infinity. Look at the features: sightunseen inspect"
        )
    threads = torch.get_num_threads() if len(points) >= MANY else 1
    # PCA and the search for neighbours add up in another order on several threads; t-SNE itself, with its own, does not.
    with threadpool_limits(1):
        placed = _placed(normalize(points), seed, tell or (lambda done, total: None), threads)
    return Picture(placed[: len(images)], placed[len(images) :])


def _placed(points: NDArray[Any], seed: int, tell: Tell, threads: int) -> Floats:
    reduced = np.zeros((len(points), DIMENSIONS))
    if np.allclose(points, points[0]):
        return reduced[:, :2]
    components = PCA(min(DIMENSIONS, *points.shape), random_state=seed).fit_transform(points)
    reduced[:, : components.shape[1]] = components
    if len(points) < FEWEST:
        return reduced[:, :2]
    done = 0

    def note(*_: Any) -> None:
        nonlocal done
        done += EVERY
        tell(done, sum(ITERATIONS))

    early, late = ITERATIONS
    tsne = _open_tsne()(
        perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
        early_exaggeration_iter=early,
        n_iter=late,
        initialization="pca",
        neighbors="exact",
        negative_gradient_method="bh",
        n_jobs=threads,
        random_state=seed,
        callbacks=note,
        callbacks_every_iters=EVERY,
    )
    return np.array(tsne.fit(reduced), dtype=np.float64)


def _open_tsne() -> Any:
    try:
        from openTSNE import TSNE  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependencyError("t-SNE pictures need openTSNE: pip install 'sightunseen[report]'") from error
    return TSNE
