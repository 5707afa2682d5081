"""Tables on disk: every format gives the same rows in any order, with little memory; faults name the file and the row."""

import pickle
import resource
import shutil
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sightunseen.core.errors import DataError
from sightunseen.core.rows import Rows
from sightunseen.data import file_rows, table_parts, tables
from sightunseen.data.arrow_files import ParquetTable, open_arrow_file
from sightunseen.data.table_files import is_unlabelled, load_features, load_tables, open_features
from sightunseen.data.tables import fingerprint_of, open_table

from .table_writers import WRITERS, fixed_lists, lists, one_column_each, write_stream

ROWS = 1000
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are not loaded."""
    monkeypatch.setattr(tables, "LOADED_BYTES", 0)
    monkeypatch.setattr(table_parts, "LOADED_ARCHIVE", 0)


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return WRITERS[request.param](tmp_path, X)


def write_parts(folder: Path, count: int = 10, **columns: Any) -> list[Path]:
    """Write ``count`` Parquet files; columns are functions of the number of the file."""
    folder.mkdir(exist_ok=True)
    files = [folder / f"part-{k}.parquet" for k in range(count)]
    for k, file in enumerate(files):
        own = {name: column(k) for name, column in columns.items()}
        parquet.write_table(pa.table({"features": fixed_lists(X[:20] + k), "label": ["owl", "bat"] * 10, **own}), file)
    return files


# Reading


def test_all_formats_are_read_in_blocks(path: Path) -> None:
    features, names = open_features(path)
    assert isinstance(features, Rows)
    assert features.shape == (ROWS, 3)
    assert features.dtype == np.float32
    assert names is None
    for start in range(0, ROWS, 130):
        np.testing.assert_array_equal(features[start : start + 130], X[start : start + 130])
    np.testing.assert_array_equal(load_features(path)[0], X)


def test_rows_in_any_order(path: Path) -> None:
    features, _ = open_features(path)
    for part in (slice(0, 5), slice(0, 5), slice(990, 2000), slice(400, 700), slice(3, 3), slice(0, ROWS), slice(ROWS, ROWS)):
        np.testing.assert_array_equal(features[part], X[part])
    rows = np.array([999, 3, 3, 500, 0])
    np.testing.assert_array_equal(features[rows], X[rows])
    np.testing.assert_array_equal(features[X[:, 0] > 0], X[X[:, 0] > 0])
    with pytest.raises(IndexError, match="in order, with step 1; got step 2"):
        features[::2]


def test_a_pickled_table_reads_the_same_rows(path: Path) -> None:
    features, _ = open_features(path)
    features[0:10]
    copy = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(copy[500:510], X[500:510])


def test_threads_can_read_one_table(path: Path) -> None:
    features, _ = open_features(path)
    found: dict[int, Any] = {}

    def read(start: int) -> None:
        found[start] = features[start : start + 100]

    threads = [Thread(target=read, args=(start,)) for start in range(0, ROWS, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start, block in found.items():
        np.testing.assert_array_equal(block, X[start : start + 100])


def test_a_row_of_a_folder_is_found_by_file_and_number(tmp_path: Path) -> None:
    files = write_parts(tmp_path / "parts", 12)
    features = open_table(tmp_path / "parts").features
    assert features.where(0) == f"{files[0]}, row 1"
    assert features.where(2 * 20) == f"{files[2]}, row 1"  # part-2 before part-10
    assert features.where(239) == f"{files[11]}, row 20"


def test_small_folders_are_loaded_and_still_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_parts(tmp_path / "parts", 3)
    monkeypatch.setattr(tables, "LOADED_BYTES", 1 << 20)
    table = open_table(tmp_path / "parts").loaded()
    assert all(isinstance(part, np.ndarray) for part in table.features.parts)
    assert table.features.where(45) == f"{files[2]}, row 6"


def test_only_the_row_groups_that_hold_the_rows_are_read(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"features": fixed_lists(X)}), tmp_path / "t.parquet", row_group_size=300)
    file = ParquetTable(tmp_path / "t.parquet")
    first, batch = next(file.blocks(["features"], 750, 64))
    assert (first, len(batch)) == (600, 64)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_blocks_are_small_even_if_one_row_group_holds_all_rows(tmp_path: Path, ending: str) -> None:
    table, path = pa.table({"features": fixed_lists(X)}), tmp_path / f"t.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path, row_group_size=ROWS)
    else:
        write_stream(path, table, ROWS)
    blocks = list(open_arrow_file(path).blocks(["features"], 0, 64))
    assert max(len(batch) for _, batch in blocks) == 64
    assert [first for first, _ in blocks] == list(range(0, ROWS, 64))


def test_few_files_stay_open(tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", 30)
    features = open_table(tmp_path / "parts").features
    before = len(list(Path("/proc/self/fd").iterdir()))
    for start in range(0, len(features), 20):
        features[start : start + 5]
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + file_rows.OPEN_FILES
    np.testing.assert_array_equal(features[3:8], X[3:8])


def test_address_space_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A sparse file of 8 GiB: mapping it, or loading it, would exceed the limit."""
    path = tmp_path / "t.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 2048)})
        file.truncate(file.tell() + (1 << 33))
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), before[1]))
    try:
        features = open_table(path).features
        assert not features[(1 << 20) - 100 :].any()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i4", "i8"])
def test_all_types_of_numbers_are_read(tmp_path: Path, dtype: str) -> None:
    values = (np.abs(X) * 30).astype(dtype)
    for columns in ({"features": lists(values)}, {"features": fixed_lists(values)}, one_column_each(values)):
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        features = open_table(tmp_path / "t.parquet").features
        assert features.dtype.kind == "f"
        np.testing.assert_array_equal(features[0:ROWS], values.astype(float))


def test_missing_numbers_are_nan(tmp_path: Path) -> None:
    for columns in ({"features": [[1.0, None], [2.0, 3.0]]}, {"a": [1, 2], "b": pa.array([None, 3], pa.int8())}):
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        np.testing.assert_array_equal(open_table(tmp_path / "t.parquet").features[0:2], [[1.0, np.nan], [2.0, 3.0]])


# Labels, splits and names


def test_labels_and_splits_of_many_files_are_joined(tmp_path: Path) -> None:
    encoded = pa.array(["cat", "owl"] * 10).dictionary_encode()
    write_parts(tmp_path, 3, label=lambda k: encoded if k == 1 else [k] * 20, split=lambda k: ["train", "test_seen"] * 10)
    table = open_table(tmp_path)
    assert table.labels is not None
    assert table.labels.tolist() == ["0"] * 20 + ["cat", "owl"] * 10 + ["2"] * 20
    assert table.split is not None
    assert table.split.tolist() == ["train", "test_seen"] * 30


def test_names_are_read_when_they_are_needed(tmp_path: Path) -> None:
    write_parts(tmp_path, 3, path=lambda k: [f"{k}/{row}.jpg" for row in range(20)])
    names = open_table(tmp_path).names
    assert isinstance(names, Rows)
    assert names[38:42].tolist() == ["1/18.jpg", "1/19.jpg", "2/0.jpg", "2/1.jpg"]
    assert names[np.array([59, 0])].tolist() == ["2/19.jpg", "0/0.jpg"]


@pytest.mark.parametrize("column", ["image_path", "url", "key", "file_name"])
def test_other_columns_of_names_are_used_if_they_are_text(tmp_path: Path, column: str) -> None:
    write_parts(tmp_path, 1, **{column: lambda k: [str(row) for row in range(20)]})
    assert open_table(tmp_path).names[3:4].tolist() == ["3"]
    write_parts(tmp_path, 1, **{column: lambda k: list(range(20))})
    assert open_table(tmp_path).names is None


def test_a_folder_is_labelled_if_its_files_are(tmp_path: Path) -> None:
    files = write_parts(tmp_path, 2)
    assert not is_unlabelled(tmp_path)
    for file in files:
        parquet.write_table(pa.table({"features": fixed_lists(X)}), file)
    assert is_unlabelled(tmp_path)
    assert not is_unlabelled(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert not is_unlabelled(tmp_path / "empty")


def test_empty_files_are_left_out(tmp_path: Path) -> None:
    files = write_parts(tmp_path, 3)
    for column in (pa.array([], pa.list_(pa.float32())), pa.array([], pa.list_(pa.float32(), 3))):
        parquet.write_table(pa.table({"features": column, "label": pa.array([], pa.string())}), files[0])
        assert len(open_table(tmp_path).features) == 40


def test_a_table_without_rows(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": pa.array([], pa.float32())}), tmp_path / "empty.parquet")
    assert len(open_features(tmp_path / "empty.parquet")[0]) == 0
    parquet.write_table(pa.table({"x": pa.array([], pa.list_(pa.float32()))}), tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="has no images"):
        open_features(tmp_path / "empty.parquet")


# Shards of embeddings with metadata


def write_shards(folder: Path, embeddings: str, metadata: str, count: int = 12, **columns: Any) -> Path:
    for k in range(count):
        for path in (folder / embeddings.format(k), folder / metadata.format(k)):
            path.parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / embeddings.format(k), X[:5] + k)
        own = {"image_path": [f"{k}-{row}.jpg" for row in range(5)], "caption": ["a photo"] * 5, **columns}
        parquet.write_table(pa.table(own), folder / metadata.format(k))
    return folder


@pytest.mark.parametrize(
    ("embeddings", "metadata"),
    [
        ("img_emb/img_emb_{}.npy", "metadata/metadata_{}.parquet"),
        ("img_emb/img_emb_{:04}.npy", "metadata/metadata_{}.parquet"),
        ("X_{}.npy", "X_{}.parquet"),
        ("{}/a.npy", "{}/a.parquet"),
    ],
)
def test_shards_are_paired_with_their_metadata(tmp_path: Path, embeddings: str, metadata: str) -> None:
    folder = write_shards(tmp_path, embeddings, metadata, label=["owl", "bat", "cat", "dog", "ant"])
    table = open_table(folder)
    assert table.features.shape == (60, 3)
    assert table.names[:].tolist()[50:52] == ["10-0.jpg", "10-1.jpg"]
    np.testing.assert_array_equal(table.features[50:52], X[:2] + np.float32(10))
    assert table.labels is not None
    assert table.labels.tolist()[:2] == ["owl", "bat"]
    assert not is_unlabelled(folder)


def test_shards_without_labels_are_unlabelled(tmp_path: Path) -> None:
    assert is_unlabelled(write_shards(tmp_path / "a", "img_emb/img_emb_{}.npy", "metadata/metadata_{}.parquet"))
    shutil.rmtree(tmp_path / "a" / "metadata")
    assert open_table(tmp_path / "a").names is None


def test_metadata_of_another_length_or_without_its_shard_raises(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, "img_emb/img_emb_{}.npy", "metadata/metadata_{}.parquet")
    np.save(folder / "img_emb" / "img_emb_7.npy", X[:4])
    with pytest.raises(DataError, match=r"img_emb_7\.npy has 4 rows but metadata_7\.parquet has 5"):
        open_table(folder)
    (folder / "metadata" / "metadata_7.parquet").unlink()
    with pytest.raises(DataError, match=r"12 \.npy files and 11 \.parquet files .* such as img_emb_7\.npy"):
        open_table(folder)


# Faults


def test_a_truncated_file_among_many_is_found_at_opening(tmp_path: Path) -> None:
    files = write_parts(tmp_path, 100)
    files[57].write_bytes(files[57].read_bytes()[:-100])
    with pytest.raises(DataError, match=r"part-57\.parquet cannot be read"):
        open_table(tmp_path)


@pytest.mark.parametrize("name", ["npy", "npz", "npz_compressed", "arrow_stream", "feather_file", "hugging_face"])
@pytest.mark.parametrize("cut", [8, 16, 500])
def test_truncated_files_are_found_at_opening(tmp_path: Path, name: str, cut: int) -> None:
    path = WRITERS[name](tmp_path, X)
    last = sorted(path.glob("*.arrow"))[-1] if path.is_dir() else path
    last.write_bytes(last.read_bytes()[:-cut])
    with pytest.raises(DataError, match=last.name):
        open_table(path)


def test_a_file_of_another_width_is_found_at_opening(tmp_path: Path) -> None:
    files = write_parts(tmp_path, 5)
    for column in (fixed_lists(X[:20, :2]), lists(X[:20, :2])):
        parquet.write_table(pa.table({"features": column, "label": ["owl"] * 20}), files[3])
        with pytest.raises(DataError, match=r"part-0\.parquet has 3 features per image, part-3\.parquet has 2"):
            open_table(tmp_path)


@pytest.mark.parametrize("what", ["label", "split"])
def test_labels_or_splits_in_some_files_only_raise(tmp_path: Path, what: str) -> None:
    files = write_parts(tmp_path, 5, split=lambda k: ["train"] * 20)
    parquet.write_table(parquet.read_table(files[2]).drop_columns([what]), files[2])
    with pytest.raises(DataError, match=rf"1 of the 5 files .* have no column '{what}', such as part-2\.parquet"):
        open_table(tmp_path)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (pa.array(["a"] * 7 + [None] + ["b"] * 12), "row 8: the label is missing"),
        (pa.array(["a"] * 7 + [None] + ["b"] * 12).dictionary_encode(), "row 8: the label is missing"),
        (pa.array([1.0] * 7 + [float("nan")] + [2.0] * 12), "row 8, the label is nan; expected a text or a finite number"),
        (pa.array([b"a"] * 7 + [b"\xff"] + [b"b"] * 12), "row 8, the label is not valid text"),
        (pa.array([["a"]] * 20), "labels must be texts or numbers; got list"),
    ],
)
def test_a_label_that_is_missing_or_wrong_is_named(tmp_path: Path, label: pa.Array, message: str) -> None:
    write_parts(tmp_path, 2, label=lambda k: label if k else ["a"] * 20)
    with pytest.raises(DataError, match=rf"part-1\.parquet.*{message}"):
        open_table(tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0, 2.0]] * 400 + [None] + [[1.0, 2.0]] * 50, "row 401: 'features', the features, is missing"),
        ([[1.0, 2.0]] * 400 + [[1.0]] + [[1.0, 2.0]] * 50, "row 401: 'features' holds 1 numbers.* one length, 2 as in row 1"),
        ([[1.0, 2.0]] * 400 + [[1.0, 1e300]], r"1e\+300 in row 401, column 2 is beyond"),
    ],
)
def test_a_faulty_row_is_named_when_it_is_read(tmp_path: Path, ending: str, column: Any, message: str) -> None:
    (tmp_path / "parts").mkdir()
    for k in range(2):
        values = column if k else [[1.0, 2.0]] * 10
        table, path = pa.table({"features": values}), tmp_path / "parts" / f"part-{k}.{ending}"
        parquet.write_table(table, path, row_group_size=64) if ending == "parquet" else write_stream(path, table, 64)
    features = open_table(tmp_path / "parts").features
    assert len(features[0:300]) == 300
    with pytest.raises(DataError, match=rf"part-1\.{ending}.*{message}") as error:
        features[300:]
    assert len(str(error.value)) <= 500


def test_a_name_that_is_missing_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path, 2, path=lambda k: ["a.jpg"] * 19 + [None if k else "b.jpg"])
    names = open_table(tmp_path).names
    with pytest.raises(DataError, match=r"part-1\.parquet, row 20, the name of the image is None"):
        names[30:40]


def test_a_table_without_features_raises(tmp_path: Path) -> None:
    for columns, message in (
        ({"path": ["a"], "colour": ["red"]}, "every feature must be a number, but colour holds text"),
        ({"path": ["a"]}, "holds no features"),
        ({"features": [[[1.0]]]}, "every feature must be a number"),
    ):
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        with pytest.raises(DataError, match=message):
            open_features(tmp_path / "t.parquet")


def test_folders_that_hold_no_single_table_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no photos and no table of features"):
        open_table(tmp_path)
    write_parts(tmp_path, 1)
    np.savez(tmp_path / "t.npz", X=X)
    with pytest.raises(DataError, match=r"tables of several kinds, such as part-0\.parquet, t\.npz"):
        open_table(tmp_path)


def test_damaged_bytes_of_an_arrow_file_load_or_raise(tmp_path: Path) -> None:
    table = pa.table({"features": lists(X[:40]), "label": ["owl"] * 40, "path": ["a"] * 40})
    content = write_stream(tmp_path / "t.arrow", table, 20).read_bytes()
    for position in range(0, len(content), 13):
        changed = content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        (tmp_path / "t.arrow").write_bytes(changed)
        try:
            found = open_table(tmp_path / "t.arrow")
            found.features[0:40], found.names and found.names[0:40]
        except DataError as error:
            assert "t.arrow" in str(error)  # noqa: PT017 - it may load, too


def test_damaged_bytes_of_the_footer_of_a_parquet_file_load_or_raise(tmp_path: Path) -> None:
    """pyarrow ends the process if it is asked to describe a damaged column."""
    [path] = write_parts(tmp_path, 1)
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    for position in range(len(content) - 8 - footer, len(content) - 8):
        changed = content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]
        path.write_bytes(changed)
        try:
            open_table(path).features[0:20]
        except DataError as error:
            assert "part-0.parquet" in str(error)  # noqa: PT017 - it may load, too


# Data sets and fingerprints


def test_a_folder_of_files_is_a_data_set(tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", 3)
    classes = tmp_path / "classes.csv"
    classes.write_text("class,legs\nowl,2\nbat,2\ncat,4\n")
    data = load_tables(tmp_path / "parts", classes)
    assert isinstance(data.features, Rows)
    assert data.seen.tolist() == ["bat", "owl"]
    assert data.unseen.tolist() == ["cat"]
    assert data.sources["features parts"] == fingerprint_of(tmp_path / "parts")


def test_the_fingerprint_of_a_folder_depends_on_contents_and_names(tmp_path: Path) -> None:
    files = write_parts(tmp_path / "parts", 3)
    before = fingerprint_of(tmp_path / "parts")
    shutil.copytree(tmp_path / "parts", tmp_path / "copy")
    (tmp_path / "copy" / "notes.txt").write_text("not a table")
    assert fingerprint_of(tmp_path / "copy") == before
    files[2].rename(files[2].with_name("part-3.parquet"))
    assert fingerprint_of(tmp_path / "parts") != before
    files[1].write_bytes(files[1].read_bytes() + b" ")
    assert fingerprint_of(files[1]) != fingerprint_of(tmp_path / "copy" / files[1].name)
