"""Moments of features on a GPU: their rate beside that of bare transfers from host to device, and a fit at ImageNet-21k shape.

python benchmarks/gpu_moments.py --gib 20
"""

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.core.rows import block_rows
from sightunseen.methods import Foresight
from sightunseen.methods.base.cuda_accumulation import READERS
from sightunseen.methods.base.passes import CUDA_BLOCKS, accumulated

FEATURES, ATTRIBUTES, VIEWS = 2048, 300, ("root", "unit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=20.0, help="size of the features (default: 20)")
    parser.add_argument("--classes", type=int, default=21_000, help="number of seen classes (default: 21,000)")
    parser.add_argument("--folder", type=Path, help="where the file of features is written (default: a temporary folder)")
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "features.npy"
        rows = int(args.gib * 2**30 / (4 * FEATURES))
        started = time.perf_counter()
        write_features(path, rows)
        print(f"{rows:,} rows of {FEATURES:,} features written in {time.perf_counter() - started:.0f} s", flush=True)
        X = np.load(path, mmap_mode="r")
        y = np.random.default_rng(0).integers(1000, size=rows)
        gigabytes = X.nbytes / 1e9
        compare_with_cpu(X[:60_000], y[:60_000])
        copied, read = transfer_seconds(X), reading_seconds(X)
        print(f"host to device: {gigabytes / copied:.1f} GB/s; file to pinned memory: {gigabytes / read:.1f} GB/s", flush=True)
        for _ in range(3):
            with AnonymousMemory() as memory:
                seconds = moments_seconds(X, y)
            print(
                f"moments of the file, both views: {gigabytes / seconds:.1f} GB/s, {read / seconds:.2f} of the rate of reading "
                f"it; peak anonymous memory {memory.peak:.1f} GiB",
                flush=True,
            )
        pinned = torch.empty(X.shape, pin_memory=True).numpy()
        np.copyto(pinned, X)
        for _ in range(3):
            copied, seconds = transfer_seconds(pinned), moments_seconds(pinned, y)
            print(
                f"moments of pinned memory, both views: {gigabytes / seconds:.1f} GB/s; host to device "
                f"{gigabytes / copied:.1f} GB/s: ratio {copied / seconds:.2f}",
                flush=True,
            )
        del pinned
        fit(X, np.random.default_rng(0).integers(args.classes, size=rows), args.classes)


def moments_seconds(X: np.ndarray, y: np.ndarray) -> float:
    started = time.perf_counter()
    accumulated(X, y, VIEWS, device="cuda")
    return time.perf_counter() - started


def reading_seconds(X: np.ndarray) -> float:
    """Seconds of copying the file, which the operating system has cached, into pinned memory block by block."""
    block = torch.empty((CUDA_BLOCKS * block_rows(X.shape), FEATURES), pin_memory=True).numpy()
    with ThreadPoolExecutor(READERS) as pool:

        def copy(rows: slice) -> None:
            np.copyto(block[: rows.stop - rows.start], X[rows])

        started = time.perf_counter()
        for start in range(0, len(X), len(block)):
            ends = np.linspace(start, min(start + len(block), len(X)), READERS + 1, dtype=int).tolist()
            list(pool.map(copy, [slice(*pair) for pair in pairwise(ends)]))
        return time.perf_counter() - started


def write_features(path: Path, rows: int) -> None:
    """Write non-negative features, generated on the GPU."""
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, FEATURES))
    torch.manual_seed(0)
    for start in range(0, rows, 1 << 17):
        block = torch.randn((min(1 << 17, rows - start), FEATURES), device="cuda").relu_()
        table[start : start + len(block)] = block.cpu().numpy()


def transfer_seconds(X: np.ndarray) -> float:
    """Seconds of copying as many bytes from pinned memory to the GPU."""
    block = torch.empty((CUDA_BLOCKS * block_rows(X.shape), FEATURES), pin_memory=True)
    there = torch.empty_like(block, device="cuda")
    there.copy_(block, non_blocking=True)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for start in range(0, len(X), len(block)):
        rows = min(len(block), len(X) - start)
        there[:rows].copy_(block[:rows], non_blocking=True)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def compare_with_cpu(X: np.ndarray, y: np.ndarray) -> None:
    table = ClassTable(np.arange(1100), np.random.default_rng(1).random((1100, ATTRIBUTES)))
    here, there = (Foresight(device=device).fit(X, y, table).to_linear() for device in ("cpu", "cuda"))
    for name in ("weights", "plain", "bias"):
        one, other = getattr(here, name), getattr(there, name)
        print(f"{name} of the model differ by {np.abs(one - other).max() / np.abs(one).max():.1e} of the largest", flush=True)


def fit(X: np.ndarray, y: np.ndarray, classes: int) -> None:
    table = ClassTable(np.arange(classes), np.random.default_rng(1).random((classes, ATTRIBUTES)))
    with AnonymousMemory() as memory:
        started = time.perf_counter()
        model = Foresight(device="cuda").fit(X, y, table)
        seconds = time.perf_counter() - started
    device = torch.cuda.max_memory_allocated() / 2**30
    print(
        f"Foresight.fit of {len(X):,} images of {classes:,} classes: {seconds:.0f} s, peak anonymous memory {memory.peak:.1f} "
        f"GiB, on the GPU {device:.1f} GiB",
        flush=True,
    )
    started = time.perf_counter()
    model.predict(np.asarray(X[:10_000]))
    print(f"predict of 10,000 images among {classes:,} classes: {time.perf_counter() - started:.1f} s", flush=True)


class AnonymousMemory:
    """Peak of the memory of this process, without mapped files, in GiB."""

    def __enter__(self) -> "AnonymousMemory":
        self.peak, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            status = Path("/proc/self/status").read_text("ascii")
            self.peak = max(self.peak, int(status.partition("RssAnon:")[2].split()[0]) / 2**20)


if __name__ == "__main__":
    main()
