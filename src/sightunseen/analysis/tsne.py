"""t-SNE (van der Maaten & Hinton, 2008) of images and classes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from sightunseen.core.arrays import Doubles
from sightunseen.core.errors import DataError, MissingDependencyError

DIMENSIONS = 50  # input of t-SNE; PCA reduces longer vectors
PERPLEXITY = 30.0  # upper limit; lower for few points
FEWEST = 4  # points; fewer keep their distances in the plane, so PCA is enough
ITERATIONS = (250, 500)  # with early exaggeration, and without
EVERY = 25  # iterations between two progress reports
MANY = 1000  # points; below, threads cost more than they save

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class TsneEmbedding:
    """Two-dimensional t-SNE embedding: neighbourhoods are meaningful, directions and distances between clusters are not.

    Parameters
    ----------
    images : ndarray of shape (n, 2)
        Coordinates of the images.
    classes : ndarray of shape (c, 2)
        Coordinates of the classes.
    """

    images: Doubles
    classes: Doubles


def tsne_embedding(images: ArrayLike, classes: ArrayLike, seed: int = 0, tell: Tell | None = None) -> TsneEmbedding:
    """Embed images and classes together in the plane.

    All points are L2-normalised first, as in the paper. The same points and seed give the same bits with any number of
    threads.

    Parameters
    ----------
    images : array-like of shape (n, k)
        Images in the joint embedding space; n may be 0.
    classes : array-like of shape (c, k)
        Classes in the same space; c may be 0.
    seed : int, default=0
        Random seed.
    tell : callable, default=None
        Progress callback, called with the number of iterations done and their total.

    Returns
    -------
    TsneEmbedding
        Coordinates of images and classes.

    Raises
    ------
    DataError
        If the shapes do not agree, there are no points, or a value is not finite.
    MissingDependencyError
        If openTSNE is not installed.

    Examples
    --------
    >>> embedding = tsne_embedding([[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> embedding.images.shape, embedding.classes.shape
    ((1, 2), (2, 2))
    """
    images, classes = np.asarray(images), np.asarray(classes)
    if images.ndim != 2 or classes.ndim != 2 or images.shape[1] != classes.shape[1]:
        raise DataError(
            "images (n, k) and classes (c, k) must be points of one space; "
            f"got arrays of shape {images.shape} and {classes.shape}."
        )
    points = np.concatenate([images, classes])
    if not len(points):
        raise DataError("t-SNE needs at least one point; got no images and no classes.")
    if not np.isfinite(points).all():
        raise DataError("t-SNE needs finite values; found NaN or infinity. Check the features with: sightunseen inspect")
    threads = (os.cpu_count() or 1) if len(points) >= MANY else 1
    # PCA and the neighbour search sum in an order that depends on the number of threads; t-SNE itself does not.
    with threadpool_limits(1):
        placed = _placed(normalize(points), seed, tell or (lambda done, total: None), threads)
    return TsneEmbedding(placed[: len(images)], placed[len(images) :])


def _placed(points: NDArray[Any], seed: int, tell: Tell, threads: int) -> Doubles:
    """Coordinates (n, 2) of unit vectors (n, k)."""
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

    tsne = _open_tsne()(
        perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
        early_exaggeration_iter=ITERATIONS[0],
        n_iter=ITERATIONS[1],
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
        raise MissingDependencyError("t-SNE needs openTSNE: pip install 'sightunseen[report]'") from error
    return TSNE
