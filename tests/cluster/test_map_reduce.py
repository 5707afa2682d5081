"""Tasks of a cluster: order, errors, lost workers, bounded submission; and addresses."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightunseen.cluster.connection import ClusterError
from sightunseen.cluster.map_reduce import Cluster
from sightunseen.cluster.streams import stream
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError


def lost_once(mark: Path, deadly: int) -> Callable[[int], int]:
    """Make a task that kills its worker at one item, the first time."""

    def task(item: int) -> int:
        if item == deadly and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    return task


def test_results_are_ordered_and_a_lost_task_runs_again(cluster: Any, tmp_path: Path) -> None:
    assert list(cluster.map_ordered(lost_once(tmp_path / "mark", 5), range(12))) == [k * k for k in range(12)]
    assert (tmp_path / "mark").exists()


def test_all_results_arrive_as_completed(cluster: Any, tmp_path: Path) -> None:
    found = dict(cluster.as_completed(lost_once(tmp_path / "mark", 2), range(6)))
    assert found == {k: k * k for k in range(6)}
    assert (tmp_path / "mark").exists()


def test_items_are_taken_only_as_results_are(cluster: Any) -> None:
    taken = []

    def items() -> Iterator[int]:
        for k in range(1000):
            taken.append(k)
            yield k

    results = cluster.map_ordered(lambda item: item, items())
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(taken) <= 3 + 2 * cluster.count("CPU")
    results.close()


def test_errors_of_workers_arrive_unchanged(cluster: Any) -> None:
    def fail(item: int) -> int:
        raise DataError(f"row {item} is not finite.")

    with pytest.raises(DataError, match=r"^row 3 is not finite.$") as raised:
        list(cluster.map_ordered(fail, [3]))
    assert type(raised.value) is DataError


def test_a_worker_that_is_always_lost_is_an_error_of_its_item(cluster: Any) -> None:
    def work(item: str) -> str:
        if item == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    found = dict(cluster.as_completed(work, ["a", "deadly"]))
    assert found["a"] == "a"
    assert isinstance(found["deadly"], ClusterError)
    assert "was lost more than 3 times, possibly out of memory" in str(found["deadly"])


def test_tasks_run_in_the_current_folder(cluster: Any, desk: Path) -> None:
    assert list(cluster.map_ordered(lambda _: os.getcwd(), [0])) == [str(desk)]


@pytest.mark.parametrize("is_client", [False, True])
def test_first_error_of_a_stream_is_raised(cluster: Any, is_client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through Ray Client, the stream runs in an actor of the cluster."""
    monkeypatch.setattr(cluster, "is_client", is_client)

    def make(bad: int) -> Callable[[int], tuple[int, list[int]]]:
        def work(item: int) -> tuple[int, list[int]]:
            if item >= bad:
                raise DataError(f"item {item}")
            return item, [item]

        return work

    results = stream(cluster, make, (3,), range(6))
    assert [next(results) for _ in range(3)] == [(0, [0]), (1, [1]), (2, [2])]
    with pytest.raises(DataError, match=r"^item 3$"):
        next(results)


def test_item_that_kills_every_worker_ends_a_stream(cluster: Any) -> None:
    def make() -> Callable[[int], int]:
        def work(item: int) -> int:
            if item == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return item

        return work

    with pytest.raises(ClusterError, match="was lost more than 3 times"):
        list(stream(cluster, make, (), range(4)))


def test_stream_is_closed_with_the_connection(cluster: Any) -> None:
    with Cluster(cluster.ray) as connection:
        results = stream(connection, lambda: lambda item: item, (), range(100))
        assert next(results) == 0
    assert list(results) == []


def test_error_in_the_start_of_a_worker_is_raised(cluster: Any) -> None:
    def make() -> Callable[[int], int]:
        raise DataError("no weights")

    with pytest.raises(DataError, match=r"^no weights$"):
        list(stream(cluster, make, (), range(3)))


@pytest.mark.parametrize("address", ["", "dask", "ray://", "ray://host", "host", "host:0", "host:65536", "http://a:1", "a b:1"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="--cluster must be ray, ray://HOST:PORT or HOST:PORT"):
        Cluster.connect(address)


def test_unreachable_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # not listening
        with pytest.raises(ClusterError, match=r"there is no cluster at 127.0.0.1:"):
            Cluster.connect(f"127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(ClusterError, match=r"there is no cluster at nowhere.invalid:10001"):
        Cluster.connect("nowhere.invalid:10001")


@pytest.mark.parametrize(("address", "package"), [("ray", "ray"), ("ray://host:1", "grpc")])
def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, address: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"--cluster needs {package}: pip install 'sightunseen\[ray\]'"):
        Cluster.connect(address)
