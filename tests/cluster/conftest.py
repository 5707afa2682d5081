"""Fixtures of the tests of clusters: one local Ray cluster of two workers, small data, and a function that runs commands."""

import contextlib
import io
import os
import shlex
import signal
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.cli import main
from sightunseen.cluster.map_reduce import Cluster
from sightunseen.core.dataset import ZeroShotDataset

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="session")
def cluster(_own_cache: None) -> Iterator[Any]:
    """A local cluster of two workers, for all tests; commands with ``--cluster ray`` use it."""
    if find_spec("ray") is None:  # not imported, because Ray reads how it logs at its import
        pytest.skip("Ray is not installed: pip install 'sightunseen[ray]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray leaves files and sockets to the garbage collector
        with Cluster.connect("ray") as found:
            yield found


@pytest.fixture
def run() -> Run:
    """Function that runs a command line in this process and returns its exit code, stdout and stderr."""

    def command(line: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(line))
        return code, out.getvalue(), err.getvalue()

    return command


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with its own cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def photos(desk: Path) -> Path:
    """Photos of three classes, one of them not an image, and an ONNX network that averages the pixels."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    for k in range(12):
        folder = desk / "photos" / ("cat", "dog", "okapi")[k // 4]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * k, 0, 0)).save(folder / f"{k:02}.png")
    (desk / "photos/cat/zz.jpg").write_text("this is no photo")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("GlobalAveragePool", ["photos"], ["features"])
    inputs = [helper.make_tensor_value_info("photos", kind, ["n", 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("features", kind, ["n", 3, 1, 1])]
    graph = helper.make_graph([node], "mean", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "mean.onnx")
    return desk


@pytest.fixture
def tables(desk: Path, small_world: ZeroShotDataset) -> Path:
    """A table of features with labels and splits, and its classes."""
    split = np.empty(len(small_world.labels), dtype="U12")
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(small_world, f"{part}_rows")] = part
    classes = {"class_labels": small_world.classes.labels, "class_vectors": small_world.classes.vectors}
    np.savez(desk / "features.npz", X=small_world.features, y=small_world.labels, split=split, **classes)
    return desk


@pytest.fixture
def assassin(cluster: Any) -> Iterator[Callable[[str], list[int]]]:
    """Function that starts to watch for a busy worker of a name, and kills the first one; returns a list that gets its pid."""
    (raylet,) = cluster.map_ordered(lambda _: os.getppid(), [0])
    ended = Event()
    threads: list[Thread] = []

    def watch(name: str, killed: list[int]) -> None:
        before = set(workers(raylet, name))
        while not ended.wait(0.02) and not killed:
            for pid in set(workers(raylet, name)) - before:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break

    def start(name: str) -> list[int]:
        killed: list[int] = []
        threads.append(Thread(target=watch, args=(name, killed)))
        threads[-1].start()
        return killed

    yield start
    ended.set()
    for thread in threads:
        thread.join()


def workers(raylet: int, name: str) -> Iterator[int]:
    """Processes of a Ray node whose title, which is that of their current work, contains a name."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            title, parent = (folder / "cmdline").read_bytes(), (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == raylet and name.encode() in title:
                yield int(folder.name)
