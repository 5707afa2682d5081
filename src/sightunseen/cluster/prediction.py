"""Ranked predictions of a table of features, made by the workers of a cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sightunseen.cluster.map_reduce import Cluster
from sightunseen.cluster.streams import stream
from sightunseen.core.blocks import ROWS, named_blocks
from sightunseen.data.table_files import open_features
from sightunseen.methods import ZeroShotClassifier
from sightunseen.prediction import Batch, Explain, ranked

SLICE = 16 * ROWS  # images of one task: whole blocks, so that they are those of a prediction without cluster


def ranked_on(
    cluster: Cluster,
    model: ZeroShotClassifier,
    path: Path,
    images: int,
    top: int = 1,
    candidates: Any = None,
    none: bool = True,
    explainer: Callable[[ZeroShotClassifier], Explain | None] | None = None,
) -> Iterator[Batch]:
    """Predict the best classes of the images of a table on a cluster; see :func:`~sightunseen.prediction.ranked`.

    The model is sent to every node once. Every worker opens the table and reads only its slices.

    Parameters
    ----------
    cluster : Cluster
        The cluster.
    model : ZeroShotClassifier
        A fitted model.
    path : Path
        Table of features, valid on all nodes.
    images : int
        Number of images of the table.
    top : int, default=1
        Number of rows per image.
    candidates : array-like of labels, "seen", "unseen", "all" or None, default=None
        The classes to choose among. None: all classes.
    none : bool, default=True
        Whether images may be rejected.
    explainer : callable, default=None
        Called in every worker with the model; returns the function that explains the best classes.

    Yields
    ------
    dict of str to ndarray
        The columns of one block, in the order of the table.

    Raises
    ------
    DataError
        If the features cannot be read or do not fit the model.
    """
    slices = [(start, min(start + SLICE, images)) for start in range(0, images, SLICE)]
    for batches in stream(cluster, _RankingWorker, (model, path, top, candidates, none, explainer), slices):
        yield from batches


class _RankingWorker:
    """Worker that predicts slices of a table."""

    def __init__(self, model: ZeroShotClassifier, path: Path, top: int, candidates: Any, none: bool, explainer: Any) -> None:
        self.model = model
        self.how = (top, candidates, none, None if explainer is None else explainer(model))
        self.features, self.names = open_features(path)

    def __call__(self, rows: tuple[int, int]) -> list[Batch]:
        return list(ranked(self.model, named_blocks(self.features, self.names, *rows), *self.how))
