"""Memory of prediction does not grow with the number of images, from memory-mapped files and into Parquet files."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from sightunseen.core.blocks import joined_blocks, named_blocks
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.eszsl import ESZSL
from sightunseen.prediction import ranked, write_predictions

pytestmark = pytest.mark.slow

STATUS = Path("/proc/self/status")
ROWS = 10_000_000


def own_memory() -> int:
    """Anonymous memory of the process in MiB, without memory-mapped files."""
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) // 1024


@pytest.mark.skipif(not STATUS.is_file(), reason="needs /proc of Linux")
def test_ten_million_images_need_no_more_memory_than_one_million(tmp_path: Path) -> None:
    vectors = {"cat": [1.0, 0.0], "dog": [0.0, 1.0], "okapi": [1.0, 1.0]}
    rng = np.random.default_rng(0)
    model = CVC(hidden=8, n_steps=20, device="cpu").fit(rng.random((40, 4)), ["cat", "dog"] * 20, vectors)
    path = tmp_path / "features.npy"
    stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, 4))  # a sparse file of zeros
    stored[-1] = rng.random(4)
    stored.flush()
    del stored
    done, after_a_million = 0, 0
    for batch in ranked(model, named_blocks(np.load(path, mmap_mode="r"))):
        done += len(batch["path"])
        if not after_a_million and done >= ROWS // 10:
            after_a_million = own_memory()
    assert done == ROWS
    assert batch["path"][-1] == str(ROWS - 1)
    assert batch["class"][-1] == model.predict(np.load(path, mmap_mode="r")[-1:])[0]
    assert own_memory() - after_a_million < 16  # the names of all images would take 320 MiB


def test_small_batches_are_written_in_large_row_groups(tmp_path: Path) -> None:
    """A Parquet writer keeps metadata of each row group in memory until it is closed."""
    rng = np.random.default_rng(0)
    model = ESZSL().fit(rng.random((40, 4)), ["cat", "dog"] * 20, {"cat": [1.0, 0.0], "dog": [0.0, 1.0]})
    X, names = rng.random((10_000, 4)), np.array([f"{k}.jpg" for k in range(10_000)])
    pieces = ((X[k : k + 32], names[k : k + 32]) for k in range(0, 10_000, 32))
    assert write_predictions(tmp_path / "answers.parquet", ranked(model, joined_blocks(pieces), 2)) == 20_000
    file = parquet.ParquetFile(tmp_path / "answers.parquet")
    assert file.num_row_groups <= 10
    found = file.read().to_pydict()
    assert found["path"][::2] == names.tolist()
    assert found["class"][::2] == model.predict(X).tolist()
