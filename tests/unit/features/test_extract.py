"""Feature extraction: caching, resuming, failures, memory and files."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.table_files import load_features
from sightunseen.features.backbones import CallableBackbone
from sightunseen.features.extract import Batch, extract
from sightunseen.features.feature_files import backbone_of, write_features

pytestmark = pytest.mark.slow

Photos = Callable[[int], list[Path]]


def mean_colours(images: list[Image.Image]) -> Any:
    return [np.asarray(image).mean(axis=(0, 1)) for image in images]


def joined(batches: Iterator[Batch]) -> tuple[list[Any], Any, list[tuple[Any, str]], int]:
    found = list(batches)
    return (
        [path for batch in found for path in batch.paths],
        np.concatenate([batch.features for batch in found]),
        [failure for batch in found for failure in batch.failures],
        sum(batch.cached for batch in found),
    )


def colours(n: int) -> Any:
    return np.arange(n)[:, None] * [1, 2, 3]


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_features_are_in_the_order_of_the_photos(photos: Photos, backbone: Any, batch_size: int) -> None:
    paths, features, failures, cached = joined(extract(photos(10), backbone, batch_size))
    assert paths == photos(10)
    np.testing.assert_array_equal(features, colours(10))
    assert (failures, cached, features.dtype) == ([], 0, np.float32)


def test_unusable_photos_are_reported_and_skipped(photos: Photos, backbone: Any, tmp_path: Path) -> None:
    paths = photos(6)
    paths[1].write_bytes(b"")
    paths[4].write_bytes(b"text")
    lines: list[str] = []
    batches = list(extract(paths, backbone, 3, lines.append))
    assert [batch.rows.tolist() for batch in batches] == [[0, 2], [3, 5]]
    np.testing.assert_array_equal(np.concatenate([batch.features for batch in batches]), colours(6)[[0, 2, 3, 5]])
    assert [failure[0] for batch in batches for failure in batch.failures] == [paths[1], paths[4]]
    assert lines[0] == f"{paths[1]}: the file is empty"
    assert len(lines) == 2
    nothing = list(extract([paths[1]], backbone))
    assert nothing[0].features.shape == (0, 3)
    with pytest.raises(SettingsError, match="batch_size"):
        next(extract(paths, backbone, 0))


def test_a_photo_that_cannot_be_preprocessed_is_skipped(photos: Photos, backbone: Any) -> None:
    def prepare(image: Image.Image) -> Any:
        if image.getpixel((0, 0))[0] == 1:
            raise ValueError("too long")
        return np.asarray(image, dtype=np.float32).transpose(2, 0, 1)

    backbone.prepare = prepare
    paths, _, failures, _ = joined(extract(photos(3), backbone))
    assert paths == [photos(3)[0], photos(3)[2]]
    assert failures == [(photos(3)[1], "the backbone cannot preprocess it (ValueError: too long)")]


# -- the cache -----------------------------------------------------------------------------------------------------------


def test_renamed_photos_are_found_in_the_cache(photos: Photos, backbone: Any, tmp_path: Path) -> None:
    first = joined(extract(photos(5), backbone, 2))[1]
    renamed = [Path(shutil.copy(path, tmp_path / f"copy of {path.name}")) for path in photos(5)]
    backbone.seen = 0
    paths, features, _, cached = joined(extract(renamed, backbone, 2))
    assert (paths, cached, backbone.seen) == (renamed, 5, 0)
    np.testing.assert_array_equal(features, first)


def test_copies_in_a_batch_are_extracted_once(photos: Photos, backbone: Any) -> None:
    paths, features, _, _ = joined(extract([*photos(2)] * 3, backbone))
    assert (len(paths), backbone.seen) == (6, 2)
    np.testing.assert_array_equal(features, np.tile(colours(2), (3, 1)))


def test_a_changed_photo_or_backbone_is_extracted_again(photos: Photos, backbone: Any) -> None:
    list(extract(photos(3), backbone))
    Image.new("RGB", (4, 4), (9, 9, 9)).save(photos(3)[0])
    paths = sorted(photos(3)[0].parent.iterdir())
    Image.new("RGB", (4, 4), (9, 9, 9)).save(paths[0])
    _, features, _, cached = joined(extract(paths, backbone))
    assert cached == 2
    np.testing.assert_array_equal(features[0], [9, 9, 9])
    assert joined(extract(paths, type(backbone)("2")))[3] == 0


def test_cache_false_stores_no_features(photos: Photos, backbone: Any, cache: Path) -> None:
    list(extract(photos(3), backbone, cache=False))
    assert not list(cache.rglob("*.sqlite"))
    assert joined(extract(photos(3), backbone))[3] == 0


def test_an_interrupted_extraction_resumes(photos: Photos, backbone: Any) -> None:
    paths, before = photos(12), set(threading.enumerate())
    batches = extract(paths, backbone, 2)
    for _ in range(3):
        next(batches)
    batches.close()
    backbone.seen = 0
    _, features, _, cached = joined(extract(paths, backbone, 2))
    assert (cached, backbone.seen) == (6, 6)
    np.testing.assert_array_equal(features, colours(12))
    assert set(threading.enumerate()) <= before  # no thread is left


def test_finished_batches_are_kept_after_an_exception(photos: Photos, backbone: Any) -> None:
    class Breaking(type(backbone)):
        def __call__(self, batch: Any) -> Any:
            if self.seen >= 6:
                raise RuntimeError("out of memory")
            return super().__call__(batch)

    with pytest.raises(RuntimeError, match="out of memory"):
        list(extract(photos(12), Breaking(), 2))
    assert joined(extract(photos(12), backbone, 2))[3] == 6


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from sightunseen.features.backbones import CallableBackbone
from sightunseen.features.extract import extract
backbone = CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colours")
print("ready", flush=True)
sys.stdin.readline()
for batch in extract(sorted(Path(sys.argv[1]).iterdir()), backbone, 3):
    for row in batch.features:
        print(*row.astype(int))
"""


def test_concurrent_processes(photos: Photos) -> None:
    folder = photos(60)[0].parent
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(folder)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    assert [process.stdout and process.stdout.readline() for process in processes] == ["ready\n"] * 3
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60) for process in processes]
    for process, (out, err) in zip(processes, answers, strict=True):
        assert (process.returncode, err) == (0, "")
        assert [[int(word) for word in line.split()] for line in out.splitlines()] == colours(60).tolist()
    assert joined(extract(photos(60), CallableBackbone(mean_colours, "mean colours")))[3] == 60


@pytest.mark.parametrize(
    "damage",
    [lambda _: b"no database at all", lambda whole: whole[:100] + b"\xff" * 3996 + whole[4096:], lambda whole: whole[:5000]],
    ids=["another file", "a page overwritten", "truncated"],
)
def test_a_damaged_database_is_replaced(photos: Photos, backbone: Any, cache: Path, damage: Callable[[bytes], bytes]) -> None:
    list(extract(photos(3), backbone))
    (database,) = cache.rglob("*.sqlite")
    damaged = damage(database.read_bytes())
    database.write_bytes(damaged)
    with pytest.warns(UserWarning, match="was damaged; it is set aside"):
        _, features, _, cached = joined(extract(photos(3), backbone))
    assert cached == 0
    np.testing.assert_array_equal(features, colours(3))
    assert database.with_name(f"{database.name}.damaged").is_file()
    assert joined(extract(photos(3), backbone))[3] == 3


def test_features_with_a_wrong_checksum_are_extracted_again(photos: Photos, backbone: Any, cache: Path) -> None:
    list(extract(photos(3), backbone))
    (path,) = cache.rglob("*.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE features SET features = x'000000000000000000000001' WHERE rowid = 1")
        database.execute("UPDATE features SET features = x'00', checksum = 3523407757 WHERE rowid = 2")  # crc32 of one zero
    database.close()
    _, features, _, cached = joined(extract(photos(3), backbone))
    assert cached == 1
    np.testing.assert_array_equal(features, colours(3))
    assert joined(extract(photos(3), backbone))[3] == 3


def test_extraction_works_without_a_usable_cache(photos: Photos, backbone: Any, cache: Path) -> None:
    (cache / "features").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="cannot be used"):
        _, features, _, cached = joined(extract(photos(3), backbone))
    assert cached == 0
    np.testing.assert_array_equal(features, colours(3))


# -- memory --------------------------------------------------------------------------------------------------------------


def peak(n: int) -> int:
    """Peak memory, in bytes, of extracting n simulated photos of 2 x 2 pixels."""
    images = [Image.new("RGB", (2, 2), (k % 256, k // 256, 0)) for k in range(500)]
    backbone = CallableBackbone(lambda batch: np.zeros((len(batch), 3)), "nothing")
    tracemalloc.start()
    try:
        batches = extract(iter(range(n)), backbone, 500, reader=lambda k: images[k % 500], cache=False)
        assert sum(len(batch.paths) for batch in batches) == n
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_photos() -> None:
    peak(5_000)
    assert peak(200_000) < 1.2 * peak(20_000)


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_features_are_written_and_read_back(photos: Photos, backbone: Any, tmp_path: Path, ending: str) -> None:
    paths = photos(7)
    paths[2].write_bytes(b"")
    kept = [0, 1, 3, 4, 5, 6]
    labels, splits = [f"class {k % 2}" for k in range(7)], ["train"] * 6 + ["test_seen"]
    out = tmp_path / f"features{ending}"
    assert write_features(out, extract(paths, backbone, 3), backbone, labels, splits) == 6
    features, names = load_features(out)
    np.testing.assert_array_equal(features, colours(7)[kept])
    assert names is not None
    assert names.tolist() == [str(paths[k]) for k in kept]
    assert backbone_of(out) == {"name": "mean colour", "fingerprint": backbone.fingerprint, "size": 3}
    if ending == ".parquet":
        table = parquet.read_table(out)
        assert table.column("label").to_pylist() == [labels[k] for k in kept]
        assert table.column("split").to_pylist() == [splits[k] for k in kept]
        assert str(table.schema.field("features").type).startswith("fixed_size_list<")
        assert json.loads(table.schema.metadata[b"sightunseen.backbone"])["size"] == 3
    else:
        with np.load(out, allow_pickle=False) as file:
            assert file["label"].tolist() == [labels[k] for k in kept]
            assert file["split"].tolist() == [splits[k] for k in kept]


def test_many_rows_are_written_in_groups(backbone: Any, tmp_path: Path) -> None:
    def reader(k: int) -> Image.Image:
        return Image.new("RGB", (1, 1), (k % 256, k // 256, 0))

    out = tmp_path / "features.parquet"
    write_features(out, extract(range(9_000), backbone, 700, reader=reader, cache=False), backbone)
    assert parquet.ParquetFile(out).num_row_groups == 3
    features, _ = load_features(out)
    np.testing.assert_array_equal(features, [[k % 256, k // 256, 0] for k in range(9_000)])


def test_no_file_is_written_without_usable_photos(photos: Photos, backbone: Any, tmp_path: Path) -> None:
    paths = photos(2)
    for path in paths:
        path.write_bytes(b"")
    for ending in (".parquet", ".npz"):
        with pytest.raises(DataError, match="none of the photos could be used"):
            write_features(tmp_path / f"out{ending}", extract(paths, backbone), backbone)
    with pytest.raises(SettingsError, match=r"\.parquet or \.npz; got '\.txt'"):
        write_features(tmp_path / "out.txt", extract(paths, backbone), backbone)
    assert {path.name for path in tmp_path.iterdir()} == {"photos"}


def test_a_path_that_is_not_utf8_can_be_written(backbone: Any, tmp_path: Path) -> None:
    path = "\udce9t\udce9.png"  # how Python represents a Latin-1 file name on Linux
    one = Batch((path,), np.array([0]), np.ones((1, 3), np.float32), (), 0)
    write_features(tmp_path / "out.parquet", [one], backbone)
    assert parquet.read_table(tmp_path / "out.parquet").column("path").to_pylist() == ["?t?.png"]


def test_backbone_of_files_without_a_backbone(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", X=np.ones((2, 3)))
    assert backbone_of(tmp_path / "plain.npz") is None
    assert backbone_of(tmp_path / "plain.csv") is None
    (tmp_path / "broken.parquet").write_text("nothing")
    with pytest.raises(DataError, match="cannot be read"):
        backbone_of(tmp_path / "broken.parquet")
