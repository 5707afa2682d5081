"""Streams of results from workers with a state, such as a backbone: pools of actors of Ray Data, with its back-pressure."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np

from sightunseen.cluster.map_reduce import RETRIES, Cluster, enter, plain_errors

Worker = Callable[[Any], Any]


class _Cell:
    """One value of a column; Ray Data stores it as it is, and does not look for arrays in it."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Failure(_Cell):
    """An error of a worker. It is sent as a result, so that the first error in the order of the items is the one raised."""


class _Actor:
    """A worker in a process of its own."""

    def __init__(self, make: Callable[..., Worker], arguments: tuple[Any, ...], folder: Path) -> None:
        enter(folder)
        self.work: Worker | None = None
        self.error: Exception | None = None
        try:
            self.work = make(*arguments)
        except Exception as error:
            self.error = error

    def __call__(self, block: dict[str, Any]) -> dict[str, Any]:
        cells = np.empty(len(block["cell"]), dtype=object)
        for number, cell in enumerate(block["cell"]):
            cells[number] = self._result(cell.value)
        return {"cell": cells}

    def _result(self, item: Any) -> _Cell:
        if self.work is None:
            return _Failure(self.error)
        try:
            return _Cell(self.work(item))
        except Exception as error:
            return _Failure(error)


def stream(
    cluster: Cluster, make: Callable[..., Worker], arguments: tuple[Any, ...], items: Sequence[Any], gpus: int = 0
) -> Iterator[Any]:
    """Process items by a pool of workers; the results come in the order of the items.

    Ray Data keeps the pool busy, stops reading when results wait to be taken, restarts a lost worker and repeats its items.

    Parameters
    ----------
    cluster : Cluster
        The cluster.
    make : callable
        Called once in every worker with ``arguments``; returns a function of one item.
    arguments : tuple
        Arguments of ``make``; they are stored once per node.
    items : sequence
        The items.
    gpus : int, default=0
        GPUs of one worker. Without, a worker has one core.

    Yields
    ------
    object
        Result of each item. Exceptions of workers are raised unchanged.

    Raises
    ------
    ClusterError
        If a worker is lost too often with the same item.
    """
    given = (make, arguments, list(items), gpus, Path.cwd())
    cells = _from_outside(cluster, given) if cluster.is_client else _cells(*given)
    cluster.closing.callback(cells.close)  # the threads of a data set must not outlive the connection
    with plain_errors(), closing(cells):
        for cell in cells:
            if isinstance(cell, _Failure):
                raise cell.value
            yield cell.value


def _cells(
    make: Callable[..., Worker], arguments: tuple[Any, ...], items: list[Any], gpus: int, folder: Path
) -> Generator[_Cell, None, None]:
    """Run the data set in a process of the cluster."""
    data = import_module("ray.data")
    size = data.ActorPoolStrategy(min_size=1, initial_size=_pool(len(items), gpus), max_size=len(items))
    with catch_warnings(action="ignore", category=DeprecationWarning):  # of fields of its context, and of max_task_retries
        context = data.DataContext.get_current().copy()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = context.print_on_execution_start = False
        with data.DataContext.current(context):
            rows = data.from_items([{"cell": _Cell(item)} for item in items], override_num_blocks=len(items))
            blocks = rows.map_batches(
                _Actor,
                batch_size=None,
                fn_constructor_args=(make, arguments, folder),
                compute=size,
                max_task_retries=RETRIES,  # by default Ray Data repeats an item that kills its worker without end
                **({"num_gpus": gpus} if gpus else {"num_cpus": 1}),
            )
    for block in blocks.iter_batches(batch_size=None, batch_format="numpy"):
        yield from block["cell"]


def _pool(most: int, gpus: int) -> int:
    """Number of workers to begin with; the pool grows with the cluster."""
    found = import_module("ray").cluster_resources()
    return max(1, min(most, int(found.get("GPU", 0)) // gpus if gpus else int(found.get("CPU", 0))))


class _Inside:
    """The data set of a process outside of the cluster: Ray Data does not run through Ray Client."""

    def __init__(self, *given: Any) -> None:
        self.cells = _cells(*given)

    def following(self) -> _Cell | None:
        return next(self.cells, None)


def _from_outside(cluster: Cluster, given: tuple[Any, ...]) -> Generator[_Cell, None, None]:
    ray = cluster.ray
    inside = ray.remote(_Inside).options(num_cpus=0).remote(*given)
    try:
        following = inside.following.remote()
        while (cell := ray.get(following)) is not None:
            following = inside.following.remote()
            yield cell
    finally:
        cluster.end(inside)
