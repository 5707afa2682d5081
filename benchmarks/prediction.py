"""Prediction against a bare matrix product and argmax on the same data, side by side in one run; and its memory.

    python benchmarks/prediction.py [ROWS]

ROWS images (default: 40,000) of a synthetic world of CUB's shape (200 classes, 2048 features) are scored from a mapped file;
then 10,000,000 rows of 16 features are answered from one in a stream, with the program's own memory along the way.
"""

import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from sightunseen import CVC
from sightunseen.core.blocks import ROWS as BLOCK
from sightunseen.core.blocks import named_blocks
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.prediction import ranked


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def bare(X: np.ndarray, classifiers: torch.Tensor) -> np.ndarray:
    """The least that any classifier of this form must do, block by block, without a copy."""
    blocks = (torch.from_numpy(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK))
    return np.concatenate([(block @ classifiers.T).argmax(dim=1).numpy() for block in blocks])


def own_memory() -> float:
    """MiB of memory that is the program's own, not mapped from files."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split("RssAnon:")[1].split()[0]) / 1024


def compare(rows: int) -> None:
    data = make_world(World(n_seen=150, n_unseen=50, n_attributes=312, n_features=2048, images_per_class=10))
    model = CVC(n_steps=50).fit(data.train.X, data.train.y, data.classes)
    classifiers = torch.from_numpy(model.classifiers_of(model.classes_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, 2048))
        for start in range(0, rows, BLOCK):
            stored[start : start + BLOCK] = np.resize(data.features, (min(BLOCK, rows - start), 2048))
        stored.flush()
        del stored
        X = np.load(path, mmap_mode="r")
        pairs = [(seconds(lambda: bare(X, classifiers)), seconds(lambda: model.predict(X))) for _ in range(7)]
    least, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{rows:,} images x 2048 features, 200 classes, {torch.get_num_threads()} threads")
    print(f"bare product and argmax {rows / least:12,.0f} images/s")
    print(f"model.predict           {rows / ours:12,.0f} images/s, {least / ours:.0%} of that")


def stream(rows: int = 10_000_000) -> None:
    data = make_world(World(n_seen=20, n_unseen=10, n_attributes=20, n_features=16, images_per_class=20))
    model = CVC(n_steps=50, hidden=64).fit(data.train.X, data.train.y, data.classes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, 16)).flush()  # zeros that take no disk
        started, done, memory = time.perf_counter(), 0, {}
        for batch in ranked(model, named_blocks(np.load(path, mmap_mode="r")), top=3):
            done += len(batch["path"]) // 3
            if done * 10 // rows > len(memory):
                memory[done] = own_memory()
    taken = time.perf_counter() - started
    print(f"{done:,} images x 16 features answered in a stream: {done / taken:,.0f} images/s; memory of its own, MiB:")
    print("  " + ", ".join(f"{value:,.0f} after {at / 1e6:.0f}M" for at, value in memory.items()))


def main() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # of the bare product, which only reads
        compare(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)
    stream()


if __name__ == "__main__":
    main()
