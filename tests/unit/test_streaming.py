"""Answers for ten million images from a mapped file, in memory that does not grow with them."""

from pathlib import Path

import numpy as np
import pytest

from sightunseen.methods.cvc import CVC
from sightunseen.predictions import ranked

STATUS = Path("/proc/self/status")
ROWS = 10_000_000


def own_memory() -> int:
    """MiB that are the process's own; what is mapped from a file can be dropped by the system at any time."""
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) // 1024


@pytest.mark.skipif(not STATUS.is_file(), reason="asks Linux how much memory is in use")
def test_ten_million_images_need_no_more_memory_than_one_million(tmp_path: Path) -> None:
    vectors = {"cat": [1.0, 0.0], "dog": [0.0, 1.0], "okapi": [1.0, 1.0]}
    rng = np.random.default_rng(0)
    model = CVC(hidden=8, n_tasks=20, device="cpu").fit(rng.random((40, 4)), ["cat", "dog"] * 20, vectors)
    path = tmp_path / "features.npy"
    stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, 4))  # zeros that take no disk
    stored[-1] = rng.random(4)
    stored.flush()
    del stored
    done, after_a_million = 0, 0
    for batch in ranked(model, np.load(path, mmap_mode="r")):
        done += len(batch["path"])
        if not after_a_million and done >= ROWS // 10:
            after_a_million = own_memory()
    assert done == ROWS
    assert batch["path"][-1] == str(ROWS - 1)
    assert batch["class"][-1] == model.predict(np.load(path, mmap_mode="r")[-1:])[0]
    assert own_memory() - after_a_million < 16  # all names alone would be 320
