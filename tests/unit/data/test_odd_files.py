"""Odd but valid files, damaged files and files that are not regular: each loads or raises a ``DataError`` that names it."""

import datetime
import io
import json
import os
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
from pyarrow import parquet

from sightunseen.core.blocks import named_blocks
from sightunseen.core.errors import DataError
from sightunseen.core.limits import LABEL_LENGTH, MAGNITUDE
from sightunseen.core.memory import check_memory, free_memory
from sightunseen.data import open_data, tables
from sightunseen.data.class_files import read_class_file
from sightunseen.data.doctor import examine
from sightunseen.data.gbu import load_gbu
from sightunseen.data.photo_lists import is_photos, list_photos
from sightunseen.data.table_files import load_classes, load_features, load_tables, open_features
from sightunseen.features.feature_files import backbone_of

N = 12
LABELS = [f"k{row % 3}" for row in range(N)]
X = np.random.default_rng(0).random((N, 4))


def arrays() -> dict[str, Any]:
    """Arrays of a valid ``.npz``."""
    return {
        "X": X,
        "y": np.array(LABELS),
        "split": np.where(np.arange(N) % 3 < 2, "train", "test_unseen"),
        "path": np.array([f"{row}.jpg" for row in range(N)]),
        "class_labels": np.array(["k0", "k1", "k2"]),
        "class_vectors": np.eye(3),
        "attribute_names": np.array(["a", "b", "c"]),
    }


def invalid_text(code: int) -> Any:
    """Text array whose characters have this code."""
    return np.full((N, 1), code, dtype=np.uint32).view("U1").ravel()


ODD_ARRAYS: dict[str, tuple[str, Any, str]] = {
    "0-d features": ("X", np.array(3.0), r"shape \(\)"),
    "1-d features": ("X", X[:, 0], r"shape \(12,\)"),
    "3-d features": ("X", X[:, :, None], r"shape \(12, 4, 1\)"),
    "no columns": ("X", np.zeros((N, 0)), "columns"),
    "10 million columns of no row": ("X", np.zeros((0, 10_000_001)), "columns"),
    "complex features": ("X", X + 1j, "complex128"),
    "boolean features": ("X", X > 0.5, "bool"),
    "dates as features": ("X", np.full((N, 4), "2020-01-01", dtype="M8[s]"), "datetime64"),
    "durations as features": ("X", np.full((N, 4), 3, dtype="m8[s]"), "timedelta64"),
    "records as features": ("X", np.zeros(N, dtype=[("a", float)]), "shape"),
    "features of 1e300": ("X", np.where(X[5, 2] == X, 1e300, X), r"1e\+300 in row 6, column 3 is beyond"),
    "large integers as features": ("X", np.full((N, 4), -(2**63)), "in row 1, column 1 is beyond"),
    "0-d labels": ("y", np.array("k0"), r"shape \(\)"),
    "lists as labels": ("y", np.zeros((N, 2)), r"shape \(12, 2\)"),
    "NaN as a label": ("y", np.where(np.arange(N) == 4, np.nan, 1.0), "row 5 is nan"),
    "infinity as a label": ("y", np.full(N, np.inf), "row 1 is inf"),
    "complex labels": ("y", np.ones(N) * 1j, "complex128"),
    "bytes that are not UTF-8": ("y", np.array([b"\xff"] * N), "row 1 is not valid text"),
    "NUL within a label": ("y", np.array(["a\0b"] * N), "NUL"),
    "half a character": ("y", invalid_text(0xD800), "Unicode"),
    "a character beyond Unicode": ("y", invalid_text(0x7FFFFFFF), "Unicode"),
    "a long label": ("y", np.array(["k0"] * (N - 1) + ["x" * (LABEL_LENGTH + 1)]), "row 12 has more than 1,000 characters"),
    "numbers as split": ("split", np.arange(N), "train, test_seen or test_unseen"),
    "a table as split": ("split", np.zeros((N, 2), dtype=str), "split"),
    "fewer names than images": ("path", np.array(["a"]), "12 images but 1 names"),
    "records as names": ("path", np.zeros(N, dtype=[("a", float)]), "names of the images"),
    "infinite class labels": ("class_labels", np.array([1.0, np.inf, 2.0]), "row 2 is inf"),
    "a class twice": ("class_labels", np.array(["k0", "k0", "k2"]), "unique"),
    "text as class vectors": ("class_vectors", np.eye(3).astype(str), "table of numbers"),
    "class vectors of 1e200": ("class_vectors", np.eye(3) * 1e200, r"1e\+200 in row 1, column 1"),
    "complex class vectors": ("class_vectors", np.eye(3) * 1j, "complex128"),
    "a table of attribute names": ("attribute_names", np.array([["a", "b"]]), "attribute_names"),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "t.npz"


@pytest.mark.parametrize("what", ODD_ARRAYS)
def test_an_odd_array_in_npz_is_an_error_without_warnings(table: Path, what: str) -> None:
    name, value, message = ODD_ARRAYS[what]
    np.savez(table, **{**arrays(), name: value})
    with warnings.catch_warnings(action="error"), pytest.raises(DataError, match=message) as error:
        load_tables(table)
    assert len(str(error.value)) <= 500


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i1", "u2", "longdouble"])
def test_all_real_types_of_features_are_read(table: Path, dtype: str) -> None:
    np.savez(table, **{**arrays(), "X": (X * 100).astype(dtype)})
    np.testing.assert_array_equal(load_tables(table).features, (X * 100).astype(dtype).astype(float))


def test_labels_may_be_numbers_or_bytes(table: Path) -> None:
    for labels, expected in (
        (np.arange(N) % 3, "0"),
        (np.array(LABELS, dtype="S"), "k0"),
        (np.array(LABELS, dtype=">U2"), "k0"),
    ):
        np.savez(table, **{**arrays(), "y": labels, "class_labels": np.unique(labels)})
        assert load_tables(table).labels[0] == expected


DECLARED = [
    ("<f8", (10**6, 10**6)),
    ("<f8", (10**18,)),
    ("<U0", (10**12,)),
    ("<f8", (10**18, 0)),
    ("<f8", (0, 10**18)),
    ("|V0", (10**15,)),
    ("|O", (5,)),
]


@pytest.mark.parametrize("name", ["X", "y", "split", "class_vectors", "class_labels"])
@pytest.mark.parametrize(("dtype", "shape"), DECLARED)
def test_a_header_that_declares_more_than_there_is_raises(table: Path, name: str, dtype: str, shape: Any) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_2_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    np.savez(table, **{key: value for key, value in arrays().items() if key != name})
    with zipfile.ZipFile(table, "a") as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + bytes(100))
    with pytest.raises(DataError):
        load_tables(table)
    alone = table.with_suffix(".npy")
    alone.write_bytes(header.getvalue() + bytes(100))
    with pytest.raises(DataError, match=r"t\.npy"):
        load_features(alone)


def test_an_archive_that_expands_more_than_100_times_is_not_read(table: Path) -> None:
    with zipfile.ZipFile(table, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "|u1", "fortran_order": False, "shape": (600, 1 << 20)})
        for _ in range(600):
            file.write(bytes(1 << 20))
    with pytest.raises(DataError, match="declares 600 MiB of data, more than 100 times its size"):
        load_features(table)


def test_memory_of_the_machine_is_the_limit() -> None:
    check_memory(free_memory() // 2, "x")
    with pytest.raises(DataError, match=r"x needs .* of memory; .* are available"):
        check_memory(2 * free_memory() + 1, "x")


def test_memory_limit_of_the_process_is_respected() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), before[1]))
    try:
        assert free_memory() <= 1 << 28
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_large_values_of_a_file_on_disk_are_found_in_their_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LOADED_BYTES", 0)
    values = np.ones((3000, 2), dtype=np.float32)
    values[2500, 1] = 10 * MAGNITUDE
    np.save(tmp_path / "t.npy", values)
    features, names = open_features(tmp_path / "t.npy")
    with pytest.raises(DataError, match="row 2501, column 2"):
        list(named_blocks(features, names))


@pytest.mark.parametrize(
    "text", ["[]", "3", '{"name": 1, "fingerprint": "a", "size": 3}', '{"name": "a"}', "nonsense", "[" * 100_000]
)
def test_a_damaged_description_of_the_backbone_raises(table: Path, text: str) -> None:
    np.savez(table, **arrays(), **{"sightunseen.backbone": np.array(text)})
    with pytest.raises(DataError, match="description of the backbone"):
        backbone_of(table)


# -- Parquet -------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Any] = {
    "nested lists": pa.array([[[1.0]]] * N),
    "lists of several lengths": pa.array([[1.0] * (row % 3) for row in range(N)]),
    "missing lists": pa.array([None if row % 2 else [1.0] for row in range(N)]),
    "empty lists": pa.array([[]] * N, pa.list_(pa.float64())),
    "lists of text": pa.array([["a"]] * N),
    "nothing": pa.nulls(N),
    "decimals": pa.array([Decimal("1.5")] * N),
    "dates": pa.array([datetime.date(2020, 1, 1)] * N),
    "durations": pa.array([datetime.timedelta(1)] * N),
    "structs": pa.array([{"a": 1}] * N),
    "maps": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "large numbers": pa.array([1e300] * N),
    "long texts": pa.array(["x" * 300_000] * N),
    "bytes": pa.array([b"\xff"] * N),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_an_odd_column_of_features_raises(tmp_path: Path, what: str) -> None:
    path = tmp_path / "t.parquet"
    for name in ("f0", "features"):
        parquet.write_table(pa.table({"label": LABELS, name: COLUMNS[what]}), path)
        with pytest.raises(DataError, match=r"t\.parquet"):
            load_features(path)
        with pytest.raises(DataError, match=r"t\.parquet"):
            open_features(path)


@pytest.mark.parametrize("what", [what for what in COLUMNS if what not in ("decimals", "large numbers")])
def test_an_odd_column_of_classes_raises(tmp_path: Path, what: str) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"class": COLUMNS[what], "a": X[:, 0]}), path)
    with pytest.raises(DataError, match=r"t\.parquet"):
        read_class_file(path)


def test_dictionary_encoded_labels_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"class": pa.array(["a", "b"]).dictionary_encode(), "x": [1, 2]}), path)
    assert read_class_file(path).labels == ("a", "b")


def test_wide_tables_keep_names_and_values_in_order(tmp_path: Path) -> None:
    names, values = [f"c{column}" for column in range(2000)], np.random.default_rng(0).random((3, 2000))
    columns = pa.table([pa.array(["a", "b", "c"]), *(pa.array(column) for column in values.T)], names=["class", *names])
    parquet.write_table(columns, tmp_path / "t.parquet")
    with open(tmp_path / "t.csv", "w", encoding="utf-8") as file:
        file.write(",".join(["class", *names]) + "\n")
        file.writelines(",".join([label, *map(repr, row)]) + "\n" for label, row in zip("abc", values.tolist(), strict=True))
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        found = read_class_file(path)
        assert found.attribute_names == tuple(names)
        np.testing.assert_array_equal(found.values, values)
        np.testing.assert_array_equal(open_features(path)[0][0:3], values)


# -- class files and lists -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"x": %s}}' % ("9" * 400), "numeric"),
        ('{"a": [%s]}' % ("9" * 400), "not numbers"),
        ('{"a": [%s]}' % ("9" * 5000), "cannot be read"),
        ('{"a": [1e300]}', "beyond the largest magnitude"),
        ('{"a": {"x": [1]}}', "numeric"),
        ('[{"class": ["a"], "x": 1}]', "row 1 is"),
        ('[{"class": NaN, "x": 1}]', "row 1 is nan"),
        ('[{"class": %s, "x": 1}]' % ("9" * 4000), "row 1 is a number of more than 300 digits"),
        ('[{"class": "a\\u0000", "x": 1}]', "NUL"),
        ('{"\\ud800": [1]}', "not valid text"),
        ('{"a": {"description": "\\ud800"}}', "not valid text"),
        ('{"%s": [1]}' % ("a" * 2000), "2,000 characters; at most 1,000"),
        ('{"a": {"%s": 1}}' % ("a" * 2000), "2,000 characters; at most 1,000"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested deeper"),
        ("[" * 100_000, "nested deeper"),
        (json.dumps({f"c{k}": {f"x{k}": 1} for k in range(10_000)}), "more than 100 times its size"),
    ],
)
def test_odd_json_of_classes_raises(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_class_file(path)
    assert len(str(error.value)) <= 500 + len(str(path))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"class,x\n\xff,1\n", b"cl\xffass,x\na,1\n", b"path,label\n\xff.jpg,a\n"])
@pytest.mark.parametrize("read", [read_class_file, list_photos, load_features])
def test_text_that_is_not_utf8_raises(tmp_path: Path, content: bytes, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    is_photos(path)
    with pytest.raises(DataError, match=r"t\.csv"):
        read(path)


def test_a_long_field_in_a_list_of_photos_raises(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("path\n" + "a" * 200_000 + "\n")
    with pytest.raises(DataError, match="field limit"):
        list_photos(path)
    path.write_text("path," + "a" * 200_000 + "\nb,c\n")
    assert not is_photos(path)


def test_photos_in_deeply_nested_folders_are_found(tmp_path: Path) -> None:
    here, folder = Path.cwd(), tmp_path
    try:
        os.chdir(tmp_path)
        for _ in range(1200):
            folder = Path("d")
            folder.mkdir()
            os.chdir(folder)
        Path("a.jpg").write_bytes(b"x")
    finally:
        os.chdir(here)
    try:
        assert is_photos(tmp_path)
        assert list_photos(tmp_path).labels == ("d",)
    finally:
        subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)  # too deep for pytest, which removes folders recursively


# -- MATLAB --------------------------------------------------------------------------------------------------------------


ODD_VARIABLES: dict[str, tuple[str, str, Any]] = {
    "sparse features": ("res101", "features", scipy.sparse.csc_matrix(np.eye(5))),
    "a struct as features": ("res101", "features", {"a": 1}),
    "text as features": ("res101", "features", "hello"),
    "complex features": ("res101", "features", np.eye(5) * 1j),
    "features of 1e300": ("res101", "features", np.full((5, 48), 1e300)),
    "cells as labels": ("res101", "labels", np.array([["a"], [3.0]], dtype=object)),
    "infinite labels": ("res101", "labels", np.full((48, 1), np.inf)),
    "fewer names than images": ("res101", "image_files", np.array([["a"]], dtype=object)),
    "cells of cells": ("res101", "image_files", np.array([[np.array([["a"]], dtype=object)]], dtype=object)),
    "infinite indices": ("att_splits", "trainval_loc", np.array([np.inf])),
    "fractions as indices": ("att_splits", "trainval_loc", np.array([1.5])),
    "negative indices": ("att_splits", "test_seen_loc", np.array([-1])),
    "the smallest index": ("att_splits", "test_seen_loc", np.array([-(2**63)])),
    "text as indices": ("att_splits", "test_seen_loc", "hello"),
    "a struct as class vectors": ("att_splits", "att", {"a": 1}),
    "class vectors of 1e200": ("att_splits", "att", np.full((4, 8), 1e200)),
    "numbers as class names": ("att_splits", "allclasses_names", np.full((8, 1), np.nan)),
}


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("what", ODD_VARIABLES)
def test_an_odd_matlab_variable_raises(birds: Any, tmp_path: Path, what: str) -> None:
    file, name, value = ODD_VARIABLES[what]
    birds.mats[file][name] = value
    folder = birds.write(tmp_path / "BIRDS")
    with warnings.catch_warnings(action="error"), pytest.raises(DataError, match=name.partition("_")[0]):
        load_gbu(folder)


@pytest.mark.usefixtures("empty_cache")
def test_odd_variables_that_are_not_used_are_ignored(birds: Any, tmp_path: Path) -> None:
    birds.features["notes"] = {"a": np.array([[scipy.sparse.eye(3)]], dtype=object)[0, 0]}
    assert len(load_gbu(birds.write(tmp_path / "BIRDS")).labels) == 48


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("compressed", [False, True])
def test_every_changed_byte_of_a_matlab_file_loads_or_raises(birds: Any, tmp_path: Path, compressed: bool) -> None:
    """Bytes of the tags of cells, of types that do not exist: scipy's reader crashes on some of them."""
    path = birds.write(tmp_path / "BIRDS") / "res101.mat"
    scipy.io.savemat(path, birds.features, do_compression=compressed)
    content = path.read_bytes()
    for position in range(128, len(content), 97 if compressed else 31):
        for value in (0, 8, 255):
            path.write_bytes(content[:position] + bytes([value]) + content[position + 1 :])
            try:
                load_gbu(path.parent)
            except DataError as error:
                assert "res101" in str(error) or "BIRDS" in str(error)  # noqa: PT017 - it may load, too


def replaced(name: str, **dataset: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, **dataset)

    return change


def linked(link: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file["features"]
        file["features"] = link

    return change


def large_cell(file: h5py.File) -> None:
    file.create_dataset("cell", shape=(10**9,), chunks=(10**6,), dtype="u2")
    file["image_files"][0, 0] = file["cell"].ref


HDF5: dict[str, tuple[Callable[[h5py.File], Any], str]] = {
    "a million by a million": (replaced("features", shape=(10**6, 10**6), chunks=(1000, 1000), dtype="f8"), "declares"),
    "a large empty array": (replaced("features", shape=(24, 10**8), chunks=(1, 10**6), dtype="f4"), "declares"),
    "a large cell": (large_cell, "cell must be a text"),
    "null cells": (replaced("image_files", shape=(48, 1), dtype=h5py.ref_dtype), "cannot be read"),
    "many null cells": (replaced("image_files", shape=(10**7, 1), chunks=(10**5, 1), dtype=h5py.ref_dtype), "10,000,000 cells"),
    "a soft link": (linked(h5py.SoftLink("/labels")), "no 'features'"),
    "a link to another file": (linked(h5py.ExternalLink("/etc/passwd", "/x")), "no 'features'"),
    "data in another file": (replaced("features", shape=(48, 5), dtype="u1", external=[("/etc/passwd", 0, 240)]), "this file"),
    "a compound type": (replaced("features", data=np.zeros((48, 5), dtype=[("a", float)])), "table of numbers"),
    "texts": (replaced("features", data=["a", "b"], dtype=h5py.string_dtype()), "features"),
    "a group": (lambda file: (file.__delitem__("features"), file.create_group("features")), "must be an array"),
    "nothing": (lambda file: (file.__delitem__("features"), file.create_dataset("features", data=h5py.Empty("f8"))), "array"),
}


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("what", HDF5)
def test_an_odd_hdf5_file_raises(birds: Any, tmp_path: Path, what: str) -> None:
    change, message = HDF5[what]
    birds.v7_3.add("res101")
    path = birds.write(tmp_path / "BIRDS") / "res101.mat"
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(DataError, match=message):
        load_gbu(path.parent)


# -- files that are not regular ------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Path], Any]] = {
    "t.npz": load_tables,
    "t.npy": load_features,
    "t.parquet": open_features,
    "t.csv": read_class_file,
    "c.json": read_class_file,
    "c.npz": load_classes,
    "p.csv": list_photos,
    "d.npz": open_data,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "/proc/self/maps", "itself", "nothing", "an empty file", "a folder"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, target: str) -> None:
    path = tmp_path / name
    if target == "pipe":
        os.mkfifo(path)
    elif target == "an empty file":
        path.touch()
    elif target == "a folder":
        path.mkdir()
    elif target != "nothing":
        path.symlink_to(path if target == "itself" else target)
    with pytest.raises(DataError, match=path.name):
        READERS[name](path)


def test_odd_values_are_examined_without_warnings(table: Path) -> None:
    for vectors in (np.eye(3) * 1e15, np.eye(3) * 5e-324, np.diag([1e15, 1, 1e-300]), np.full((3, 3), np.inf)):
        np.savez(table, **{**arrays(), "class_vectors": vectors})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert examine(load_tables(table))


def test_archive_called_npy_is_an_error(tmp_path: Path) -> None:
    with open(tmp_path / "features.npy", "wb") as file:
        np.savez(file, X=np.eye(3))
    with pytest.raises(DataError, match="cannot be read"):
        load_features(tmp_path / "features.npy")
