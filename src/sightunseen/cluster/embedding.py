"""Features of photos, extracted by the workers of a cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from platform import node
from types import SimpleNamespace
from typing import Any, cast

from sightunseen.cluster.map_reduce import Cluster
from sightunseen.cluster.streams import stream
from sightunseen.core.arrays import Floats
from sightunseen.core.errors import ModelError
from sightunseen.data.content_cache import cache_folder
from sightunseen.features.backbones import Backbone, open_backbone
from sightunseen.features.extract import Batch, extract
from sightunseen.features.feature_cache import FeatureCache

SHARDS = 256  # number of shards that a list of photos has at least, if it has as many batches
SHARD = 1024  # photos of a shard at most: the work that is repeated when a worker is lost
HEAD = "node:__internal_head__"  # resource that only the head node has


def extract_on(
    cluster: Cluster,
    photos: Iterable[Any],
    backbone: Backbone,
    batch_size: int = 32,
    tell: Callable[[str], None] | None = None,
    cache: bool = True,
    device: str = "auto",
) -> Iterator[Batch]:
    """Extract the features of photos on a cluster, in order.

    Every worker opens the backbone by its name, on a GPU or a core of its own. It gets shards of whole batches, so that the
    batches are those of :func:`~sightunseen.features.extract.extract`. The cache is a database on the head node, which an actor
    reads and writes for all workers.

    Parameters
    ----------
    cluster : Cluster
        The cluster.
    photos : iterable
        Paths that are valid on all nodes.
    backbone : Backbone
        Network that computes the features, opened by its name.
    batch_size : int, default=32
        Number of photos per batch.
    tell : callable, optional
        Function that receives a line of text for each photo that cannot be used.
    cache : bool, default=True
        Whether to load and store features in the cache.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of the workers; ``auto``: GPUs if the cluster has any.

    Yields
    ------
    Batch
        Features of up to ``batch_size`` photos.

    Raises
    ------
    ModelError
        If the backbone of a worker has other weights.
    """
    gpus = int(device == "cuda" or (device == "auto" and cluster.count("GPU") > 0))
    keeper = _keeper(cluster, backbone) if cache else None
    arguments = (backbone.name, "cuda" if gpus else "cpu", backbone.fingerprint, batch_size, keeper)
    try:
        for shard in stream(cluster, _PhotoWorker, arguments, shards_of(list(photos), batch_size), gpus):
            for batch in shard:
                if tell is not None:
                    for path, reason in batch.failures:
                        tell(f"{path}: {reason}")
                yield batch
    finally:
        if keeper is not None:
            cluster.end(keeper)


def shards_of(photos: Sequence[Any], batch_size: int) -> list[tuple[int, Sequence[Any]]]:
    """Split photos into shards of whole batches.

    Parameters
    ----------
    photos : sequence
        The photos.
    batch_size : int
        Number of photos per batch.

    Returns
    -------
    list of (int, sequence)
        Index of the first photo of each shard, and its photos.

    Examples
    --------
    >>> shards_of("abcde", 2)
    [(0, 'ab'), (2, 'cd'), (4, 'e')]
    """
    batches = -(-len(photos) // batch_size)
    size = batch_size * max(1, min(-(-batches // SHARDS), SHARD // batch_size))
    return [(start, photos[start : start + size]) for start in range(0, len(photos), size)]


class _PhotoWorker:
    """Worker that extracts the features of shards."""

    def __init__(self, name: str, device: str, fingerprint: str, batch_size: int, keeper: Any) -> None:
        self.backbone, self.batch_size = open_backbone(name, device), batch_size
        if self.backbone.fingerprint != fingerprint:
            raise ModelError(
                f"the backbone '{name}' has other weights or preprocessing on the node {node()} than here. Install the same "
                "versions on all nodes."
            )
        self.cache = None if keeper is None else _RemoteCache(keeper)

    def __call__(self, shard: tuple[int, Sequence[Any]]) -> list[Batch]:
        start, photos = shard
        batches = extract(photos, self.backbone, self.batch_size, cache=self.cache or False)
        return [replace(batch, rows=batch.rows + start) for batch in batches]


class _RemoteCache:
    """The cache of the head node, in a worker."""

    def __init__(self, keeper: Any) -> None:
        import ray

        self.keeper, self.get = keeper, ray.get

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        return cast(dict[bytes, Floats], self.get(self.keeper.find.remote(keys)))

    def keep(self, features: Mapping[bytes, Floats]) -> None:
        self.get(self.keeper.keep.remote(features))

    def close(self) -> None:
        """Leave the database open for other workers."""


class _Keeper:
    """Actor that holds the cache. One process has the database open, because locks fail on many network file systems."""

    def __init__(self, folder: Path | None, fingerprint: str, size: int) -> None:
        if folder is not None:
            os.environ["SIGHTUNSEEN_CACHE"] = str(folder)
        self.cache = FeatureCache(cast(Backbone, SimpleNamespace(fingerprint=fingerprint, size=size)))

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        return self.cache.find(keys)

    def keep(self, features: Mapping[bytes, Floats]) -> None:
        self.cache.keep(features)


def _keeper(cluster: Cluster, backbone: Backbone) -> Any:
    """Start the actor of the cache on the head node, in the folder of this machine if that is named or the same machine."""
    folder = cache_folder().absolute() if cluster.is_local or "SIGHTUNSEEN_CACHE" in os.environ else None
    return (
        cluster.ray.remote(_Keeper)
        .options(num_cpus=0, resources={HEAD: 0.001}, max_restarts=-1, max_task_retries=-1)
        .remote(folder, backbone.fingerprint, backbone.size)
    )
