"""A Ray cluster: connect to it, and map functions over items by its workers."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from sightunseen.cluster.connection import LOCAL, ClusterError, connect, first_line

RETRIES = 3  # of a task whose worker was lost

Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster:
    """A connection to Ray. Use it as a context manager, which ends the connection, and a cluster that was started for it.

    Parameters
    ----------
    ray : module
        Ray, connected.
    address : str, default="ray"
        Address of the cluster.
    ours : bool, default=False
        Whether the connection ends with this object.

    Attributes
    ----------
    is_local : bool
        Whether all nodes are this machine.
    is_client : bool
        Whether this process is outside of the cluster and reaches it through Ray Client.
    closing : contextlib.ExitStack
        What is closed before the connection ends.
    """

    def __init__(self, ray: Any, address: str = LOCAL, ours: bool = False) -> None:
        self.ray, self.ours = ray, ours
        self.closing = ExitStack()
        self.is_local = address == LOCAL
        self.is_client = address.startswith("ray://")

    @classmethod
    def connect(cls, address: str) -> "Cluster":
        """Connect to a cluster, or start one on this machine.

        Parameters
        ----------
        address : str
            ``ray``: a new cluster of this machine's cores and GPUs; in a job that was submitted to a cluster, that cluster.
            ``ray://HOST:PORT``: a cluster, from outside. ``HOST:PORT``: the same, from one of its nodes.

        Returns
        -------
        Cluster
            The connection. If this process is connected already, that connection, which then stays open.

        Raises
        ------
        SettingsError
            If the address has another form.
        MissingDependencyError
            If Ray is not installed.
        ClusterError
            If the cluster cannot be reached.
        """
        ray, reached, ours = connect(address)
        return cls(ray, reached, ours)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()
        if self.ours:
            self.ray.shutdown()

    def count(self, resource: str) -> int:
        """Return how many of a resource, ``CPU`` or ``GPU``, the nodes have together."""
        return int(self.ray.cluster_resources().get(resource, 0))

    def largest_node(self) -> int:
        """Return the number of cores of the largest node."""
        return max((int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]), default=0)

    def map_ordered(self, function: Callable[[Item], Result], items: Iterable[Item], cores: int = 1) -> Iterator[Result]:
        """Apply a function to items as Ray tasks; the results come in the order of the items.

        At most twice as many tasks as can run at once are submitted before the next result is taken. The tasks of a lost worker
        run again.

        Parameters
        ----------
        function : callable
            Function of one item. It runs in the current folder, where that exists on the node.
        items : iterable
            The items; taken when their tasks are submitted.
        cores : int, default=1
            Cores of one task.

        Yields
        ------
        object
            Result of each item.

        Raises
        ------
        ClusterError
            If a worker is lost too often. Exceptions of the function are raised unchanged.
        """
        submit, waiting = self._task(function, cores), deque[Any]()
        try:
            for item in items:
                if len(waiting) >= self._most(cores):
                    yield self.result(waiting.popleft())
                waiting.append(submit(item))
            while waiting:
                yield self.result(waiting.popleft())
        finally:
            self._cancel(waiting)

    def as_completed(
        self, function: Callable[[Item], Result], items: Iterable[Item], cores: int = 1
    ) -> Iterator[tuple[Item, Result | ClusterError]]:
        """Apply a function to items as Ray tasks; the results come as tasks end. See :meth:`map_ordered`.

        Parameters
        ----------
        function : callable
            Function of one item.
        items : iterable
            The items; taken when their tasks are submitted.
        cores : int, default=1
            Cores of one task.

        Yields
        ------
        item : object
            An item.
        result : object or ClusterError
            Its result; an error, if its worker was lost too often.
        """
        submit, running = self._task(function, cores), dict[Any, Item]()
        try:
            for item in items:
                if len(running) >= self._most(cores):
                    yield self._next_of(running)
                running[submit(item)] = item
            while running:
                yield self._next_of(running)
        finally:
            self._cancel(running)

    def result(self, reference: Any) -> Any:
        """Wait for a result; errors of the function are raised unchanged.

        Parameters
        ----------
        reference : ray.ObjectRef
            Reference to the result of a task.

        Returns
        -------
        object
            The result.

        Raises
        ------
        ClusterError
            If the result was lost.
        """
        with plain_errors():
            return self.ray.get(reference)

    def end(self, actor: Any) -> None:
        """End an actor, unless it has ended with the connection.

        Parameters
        ----------
        actor : ray.actor.ActorHandle
            The actor.
        """
        with suppress(Exception):
            self.ray.kill(actor)

    def _task(self, function: Callable[[Item], Result], cores: int) -> Callable[[Item], Any]:
        task = self.ray.remote(_applied).options(num_cpus=cores, max_retries=RETRIES)
        shared, folder = self.ray.put(function), Path.cwd()
        return lambda item: task.remote(shared, item, folder)

    def _most(self, cores: int) -> int:
        """Number of submitted tasks; counted again each time, because clusters grow while tasks wait."""
        return 2 * max(1, self.count("CPU") // cores)

    def _next_of(self, running: dict[Any, Item]) -> tuple[Item, Any]:
        (first,), _ = self.ray.wait(list(running), num_returns=1)
        item = running.pop(first)
        try:
            return item, self.result(first)
        except ClusterError as error:
            return item, error

    def _cancel(self, references: Iterable[Any]) -> None:
        for reference in references:
            with suppress(Exception):  # the connection may have ended
                self.ray.cancel(reference, force=True)


def _applied(function: Callable[[Item], Result], item: Item, folder: Path) -> Result:
    """Run a task in a worker."""
    enter(folder)
    return function(item)


def enter(folder: Path) -> None:
    """Change to the folder of the command, so that its relative paths are valid in a worker.

    Parameters
    ----------
    folder : Path
        The folder. If it does not exist on this node, only absolute paths are valid.
    """
    with suppress(OSError):
        os.chdir(folder)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of workers as themselves, and those of Ray as ``ClusterError``."""
    kinds = import_module("ray.exceptions")
    try:
        yield
    except kinds.RayTaskError as error:
        raise error.cause from None
    except kinds.RayError as error:
        raise ClusterError(
            f"a worker of the cluster was lost more than {RETRIES} times, possibly out of memory ({first_line(error)}). Run "
            "the command again, on nodes with more memory."
        ) from error
