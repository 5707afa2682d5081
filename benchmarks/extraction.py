"""From photos to features: how much the cache saves, and whether memory stays flat. Prints ratios.

    python benchmarks/extraction.py [PHOTOS] [ROWS]

Default: ../shared/cub-images through EfficientNet-Lite0, cold and from the cache; then 1,000,000 simulated photos, written
to Parquet, with the program's own memory along the way. Where PHOTOS is not there, 200 are drawn.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from sightunseen.data.photo_lists import list_photos
from sightunseen.features.backbones import CallableBackbone, open_backbone
from sightunseen.features.extract import Batch, extract
from sightunseen.features.feature_files import write_features


def own_memory() -> float:
    """MiB of memory that is the program's own, not mapped from files."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split("RssAnon:")[1].split()[0]) / 1024


def draw(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for k in range(200):
        Image.fromarray(rng.integers(0, 256, (375, 500, 3), dtype=np.uint8)).save(folder / f"{k}.jpg")
    return folder


def compare(photos: Path, folder: Path) -> None:
    paths = list_photos(photos if photos.exists() else draw(folder)).paths
    backbone = open_backbone("efficientnet_lite0", "cpu")
    seconds = []
    for _ in ("cold", "cached"):
        started = time.perf_counter()
        for _ in extract(paths, backbone):
            pass
        seconds.append(time.perf_counter() - started)
    cold, cached = (len(paths) / taken for taken in seconds)
    print(f"{len(paths):,} photos, {backbone.name}, {torch.get_num_threads()} threads")
    print(f"cold   {cold:10,.1f} photos/s")
    print(f"cached {cached:10,.1f} photos/s, {cached / cold:,.0f} times as fast")


def watched(batches: Iterable[Batch], rows: int, memory: dict[int, float]) -> Iterator[Batch]:
    done = 0
    for batch in batches:
        yield batch
        done += len(batch.paths)
        if done * 10 // rows > len(memory):
            memory[done] = own_memory()


def stream(rows: int, folder: Path) -> None:
    images = [Image.new("RGB", (8, 8), (k % 256, k // 256, 0)) for k in range(1024)]
    backbone = CallableBackbone(lambda batch: np.ones((len(batch), 16)), "simulated")
    memory: dict[int, float] = {}
    started = time.perf_counter()
    batches = extract(range(rows), backbone, 256, reader=lambda k: images[k % 1024], cache=False)
    write_features(folder / "features.parquet", watched(batches, rows, memory), backbone)
    taken = time.perf_counter() - started
    print(f"{rows:,} simulated photos written to Parquet: {rows / taken:,.0f} photos/s; memory of its own, MiB:")
    print("  " + ", ".join(f"{value:,.0f} after {at:,}" for at, value in memory.items()))
    first, *_, last = memory.values()
    print(f"  at the end {last / first:.2f} times that after a tenth")


def main() -> None:
    photos = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/cub-images")
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        os.environ["SIGHTUNSEEN_CACHE"] = cache
        compare(photos, Path(folder))
        stream(rows, Path(folder))


if __name__ == "__main__":
    main()
