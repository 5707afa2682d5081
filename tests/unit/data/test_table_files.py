"""Table files: all formats give the same data, errors name the fault, and pickles are never loaded."""

import csv
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sightunseen.core.errors import DataError
from sightunseen.data import open_data
from sightunseen.data.table_files import load_classes, load_features, load_tables

X = [[0.5, 1.0, -2.0], [1.5, 0.0, 0.25], [3.0, 2.0, 1.0], [0.125, 8.0, -1.0], [2.5, 2.0, 4.0]]
LABELS = ["zebra", "okapi", "zebra", "okapi", "quagga"]
SPLIT = ["train", "train", "test_seen", "train", "test_unseen"]
PATHS = ["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"]
CLASSES = {"quagga": [0.5, 1.0], "zebra": [1.0, 1.0], "okapi": [0.0, 1.0]}
ATTRIBUTES = ["stripes", "hooves"]

Columns = dict[str, Any]


def image_columns(**changes: Any) -> Columns:
    """Columns of the table of images; None removes one."""
    features = {f"f{k}": [row[k] for row in X] for k in range(3)}
    columns: Columns = {"label": LABELS, "split": SPLIT, "path": PATHS, **features, **changes}
    return {name: column for name, column in columns.items() if column is not None}


def class_columns(**changes: Any) -> Columns:
    vectors = {name: [vector[k] for vector in CLASSES.values()] for k, name in enumerate(ATTRIBUTES)}
    columns: Columns = {"class": list(CLASSES), **vectors, **changes}
    return {name: column for name, column in columns.items() if column is not None}


def write(path: Path, columns: Columns) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table({name: pa.array(list(column)) for name, column in columns.items()}), path)
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


def write_classes(path: Path, classes: dict[Any, list[float]] = CLASSES) -> Path:
    labels, vectors = list(classes), np.array(list(classes.values()))
    if path.suffix == ".json":
        path.write_text(json.dumps(classes), "utf-8")
        return path
    if path.suffix == ".npz":
        return write(path, {"labels": labels, "vectors": vectors, "attribute_names": ATTRIBUTES})
    return write(path, {"class": labels, **dict(zip(ATTRIBUTES, vectors.T.tolist(), strict=True))})


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "classes.json")


# Reading


@pytest.mark.parametrize(
    ("ending", "matrix"), [("npz", "X"), ("npz", None), ("csv", None), ("parquet", None), ("parquet", "features")]
)
def test_all_formats_give_the_same_data_set(tmp_path: Path, classes: Path, ending: str, matrix: str | None) -> None:
    columns = image_columns() if matrix is None else image_columns(f0=None, f1=None, f2=None, **{matrix: X})
    path = write(tmp_path / f"animals.{ending}", columns)
    data = load_tables(path, classes)
    np.testing.assert_array_equal(data.features, X)
    assert data.labels.tolist() == LABELS
    assert data.train_rows.tolist() == [0, 1, 3]
    assert data.test_seen_rows.tolist() == [2]
    assert data.test_unseen_rows.tolist() == [4]
    assert data.image_names.tolist() == PATHS
    assert data.name == "animals"


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "json"])
def test_class_vectors_are_found_by_label_in_every_format(tmp_path: Path, ending: str) -> None:
    table = load_classes(write_classes(tmp_path / f"classes.{ending}"))
    for label, vector in CLASSES.items():
        assert table.vectors_of([label]).tolist() == [vector]
    assert len(table.labels) == 3
    assert table.attribute_names == (None if ending == "json" else ("stripes", "hooves"))


def test_an_npz_may_include_class_vectors(tmp_path: Path) -> None:
    own = {"class_labels": list(CLASSES), "class_vectors": list(CLASSES.values()), "attribute_names": ATTRIBUTES}
    data = load_tables(write(tmp_path / "all.npz", image_columns(X=X, **own)))
    assert data.classes.vectors_of(["zebra"]).tolist() == [CLASSES["zebra"]]
    assert data.classes.attribute_names == ("stripes", "hooves")


@pytest.mark.parametrize("name", ["label", "class", "y"])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_names_of_the_label_column(tmp_path: Path, classes: Path, ending: str, name: str) -> None:
    data = load_tables(write(tmp_path / f"t.{ending}", image_columns(**{"label": None} | {name: LABELS})), classes)
    assert data.labels.tolist() == LABELS
    np.testing.assert_array_equal(data.features, X)


@pytest.mark.parametrize("name", ["path", "name", "image"])
def test_names_of_the_image_name_column(tmp_path: Path, classes: Path, name: str) -> None:
    data = load_tables(write(tmp_path / "t.csv", image_columns(**{"path": None} | {name: PATHS})), classes)
    assert data.image_names.tolist() == PATHS


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_without_a_split_column_all_images_are_training_images(tmp_path: Path, classes: Path, ending: str) -> None:
    columns = image_columns(label=["zebra", "okapi", "zebra", "okapi", "zebra"], split=None, path=None)
    data = load_tables(write(tmp_path / f"t.{ending}", columns), classes)
    assert data.train_rows.tolist() == [0, 1, 2, 3, 4]
    assert data.unseen.tolist() == ["quagga"]
    assert data.image_names is None


@pytest.mark.parametrize("labels", [["7", "12"], ["007", "012"], ["true", "false"], ["2024-01-02", "2024-03-04"]])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_image_labels_are_equal_text_in_every_format(tmp_path: Path, ending: str, labels: list[str]) -> None:
    table = write_classes(tmp_path / "c.json", {labels[0]: [1.0, 2.0], labels[1]: [3.0, 5.0]})
    data = load_tables(write(tmp_path / f"t.{ending}", {"label": labels, "f0": [1.0, 2.0]}), table)
    assert data.labels.tolist() == labels


@pytest.mark.parametrize("labels", [["7", "12"], ["007", "012"], ["true", "false"], ["2024-01-02", "2024-03-04"]])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "json"])
def test_class_labels_are_equal_text_in_every_format(tmp_path: Path, ending: str, labels: list[str]) -> None:
    table = load_classes(write_classes(tmp_path / f"c.{ending}", {labels[0]: [1.0, 2.0], labels[1]: [3.0, 5.0]}))
    assert table.labels.tolist() == labels


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_numeric_labels_become_text(tmp_path: Path, ending: str) -> None:
    features = write(tmp_path / f"t.{ending}", {"label": [7, 12], "f0": [1.0, 2.0]})
    data = load_tables(features, write_classes(tmp_path / "c.json", {"7": [1.0, 2.0], "12": [3.0, 5.0]}))
    assert data.labels.tolist() == ["7", "12"]


def test_categorical_labels_become_text(tmp_path: Path, classes: Path) -> None:
    columns = {"label": pa.array(LABELS).dictionary_encode(), "split": pa.array(SPLIT).dictionary_encode()}
    parquet.write_table(pa.table(columns | {"f0": [1, 2, 3, 4, 5]}), tmp_path / "t.parquet")
    data = load_tables(tmp_path / "t.parquet", classes)
    assert data.labels.tolist() == LABELS
    assert data.test_unseen_rows.tolist() == [4]


def test_y_is_a_feature_if_there_is_a_label_column(tmp_path: Path, classes: Path) -> None:
    columns = {"label": LABELS, "x": [row[0] for row in X], "y": [row[1] for row in X]}
    data = load_tables(write(tmp_path / "t.csv", columns), classes)
    assert data.features.tolist() == [row[:2] for row in X]


def test_a_missing_feature_value_is_nan(tmp_path: Path, classes: Path) -> None:
    data = load_tables(write(tmp_path / "t.csv", image_columns(f1=[1, "", 2, 3, 4])), classes)
    assert np.isnan(data.features).tolist() == [[False, k == 1, False] for k in range(5)]


def test_sources_and_options_are_recorded(tmp_path: Path, classes: Path) -> None:
    path = write(tmp_path / "t.csv", image_columns())
    data = load_tables(path, classes)
    for file in (path, classes):
        (source,) = [key for key in data.sources if key.endswith(file.name)]
        assert data.sources[source] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert data.options["features"] == "t.csv"


def test_two_files_of_the_same_name_keep_both_fingerprints(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "classes").mkdir()
    files = [write(tmp_path / "images" / "t.csv", image_columns()), write_classes(tmp_path / "classes" / "t.csv")]
    data = load_tables(*files)
    assert set(data.sources.values()) == {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# Features for prediction


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_load_features_needs_no_labels(tmp_path: Path, ending: str) -> None:
    features, names = load_features(write(tmp_path / f"t.{ending}", image_columns(label=None, split=None)))
    np.testing.assert_array_equal(features, X)
    assert names.tolist() == PATHS


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "npy"])
def test_load_features_without_names(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    if ending == "npy":
        np.save(path, np.array(X))
    else:
        write(path, image_columns(label=None, split=None, path=None))
    features, names = load_features(path)
    np.testing.assert_array_equal(features, X)
    assert names is None


def test_an_npy_is_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array(X))
    assert isinstance(load_features(tmp_path / "t.npy")[0], np.memmap)


@pytest.mark.parametrize("array", [1.0, [1.0, 2.0], [["a", "b"]]], ids=["a number", "a row", "texts"])
def test_an_npy_that_is_not_a_numeric_table_raises(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "t.npy", np.array(array))
    with pytest.raises(DataError, match=r"t\.npy"):
        load_features(tmp_path / "t.npy")


# open_data


@pytest.mark.parametrize("class_ending", ["npz", "csv", "parquet", "json"])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_open_data_opens_a_folder_of_tables(tmp_path: Path, ending: str, class_ending: str) -> None:
    write(tmp_path / f"features.{ending}", image_columns())
    write_classes(tmp_path / f"classes.{class_ending}")
    data = open_data(tmp_path)
    np.testing.assert_array_equal(data.features, X)
    assert data.classes.vectors_of(["okapi"]).tolist() == [CLASSES["okapi"]]


def test_open_data_with_another_class_file(tmp_path: Path) -> None:
    write(tmp_path / "features.csv", image_columns())
    write_classes(tmp_path / "classes.csv")
    other = write_classes(tmp_path / "other.json", {label: [*vector, 9.0] for label, vector in CLASSES.items()})
    assert open_data(tmp_path, classes=other).classes.vectors_of(["zebra"]).tolist() == [[1.0, 1.0, 9.0]]


def test_open_data_opens_a_table(tmp_path: Path, classes: Path) -> None:
    assert open_data(write(tmp_path / "t.csv", image_columns()), classes=classes).labels.tolist() == LABELS


def test_open_data_opens_a_benchmark_folder(birds: Any, tmp_path: Path) -> None:
    data = open_data(birds.write(tmp_path / "BIRDS"), semantics="original_att")
    np.testing.assert_array_equal(data.classes.vectors, birds.vectors["original_att"])


def test_a_folder_without_tables_raises(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds neither .*_splits\.mat nor a features\.npz, features\.parquet or features\.csv"
    ):
        open_data(tmp_path)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file or folder .*nowhere"):
        open_data(tmp_path / "nowhere")


# Errors


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, r"has no column 'label'.*it has split, path, f0"),
        ({"f0": None, "f1": None, "f2": None}, r"holds no features.*it has label, split, path"),
        ({"split": ["train", "train", "test", "train", "val"]}, r"train, test_seen or test_unseen.*'test', 'val'"),
    ],
    ids=["no label", "no features", "unknown split"],
)
def test_invalid_columns_are_named(tmp_path: Path, classes: Path, ending: str, changes: Columns, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_tables(write(tmp_path / f"t.{ending}", image_columns(**changes)), classes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ones((4, 3))}, "4 feature rows but 5 labels"),
        ({"split": SPLIT[:-1]}, "5 labels but 4 entries in split"),
        ({"X": np.ones(5)}, r"'X' must be a table of numbers.*\(5,\)"),
    ],
)
def test_arrays_of_different_lengths_raise(tmp_path: Path, classes: Path, changes: Columns, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_tables(write(tmp_path / "t.npz", image_columns(**{"X": X} | changes)), classes)


def test_feature_lists_of_different_lengths_raise(tmp_path: Path, classes: Path) -> None:
    columns = {"label": LABELS, "features": [[1.0, 2.0]] * 4 + [[1.0]]}
    with pytest.raises(DataError, match=r"t\.parquet.*features"):
        load_tables(write(tmp_path / "t.parquet", columns), classes)


def test_a_text_column_among_the_features_raises(tmp_path: Path, classes: Path) -> None:
    with pytest.raises(DataError, match="f1"):
        load_tables(write(tmp_path / "t.csv", image_columns(f1=[1, 2, "oops", 3, 4])), classes)


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_a_table_without_class_vectors_raises(tmp_path: Path, ending: str) -> None:
    with pytest.raises(DataError, match=r"holds no class vectors.*--classes"):
        load_tables(write(tmp_path / f"t.{ending}", image_columns()))


@pytest.mark.parametrize("read", [load_tables, load_features, load_classes])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_a_missing_file_is_named(tmp_path: Path, read: Any, ending: str) -> None:
    with pytest.raises(DataError, match=rf"there is no file .*nowhere\.{ending}"):
        read(tmp_path / f"nowhere.{ending}")


@pytest.mark.parametrize("read", [load_tables, load_features, load_classes])
def test_an_unknown_ending_is_named_with_the_supported_ones(tmp_path: Path, read: Any) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"t\.xlsx must end in \.npz, \.csv or \.parquet .*; got '\.xlsx'"):
        read(tmp_path / "t.xlsx")


@pytest.mark.parametrize("content", [b"", b"\x00garbage\xff\n\x01,\x02\n"], ids=["empty", "garbage"])
@pytest.mark.parametrize(
    ("read", "ending"),
    [
        (load_tables, "npz"),
        (load_tables, "csv"),
        (load_tables, "parquet"),
        (load_features, "npy"),
        (load_classes, "npz"),
        (load_classes, "csv"),
        (load_classes, "json"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, read: Any, ending: str, content: bytes) -> None:
    (tmp_path / f"t.{ending}").write_bytes(content)
    with pytest.raises(DataError, match=rf"t\.{ending}"):
        read(tmp_path / f"t.{ending}")


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_truncated_file_is_named(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"t.{ending}", image_columns())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=rf"t\.{ending} cannot be read .*Write it again"):
        load_tables(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": None}, r"has no column 'class'.*it has stripes, hooves"),
        ({"home": ["steppe", "plains", "forest"]}, r"every column beside 'class' must be numeric.*home"),
        ({"class": ["zebra", "okapi", "zebra"]}, "labels of a class table must be unique; repeated: 'zebra'"),
    ],
    ids=["no class", "text", "repeated"],
)
def test_an_invalid_class_table_is_named(tmp_path: Path, ending: str, changes: Columns, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_classes(write(tmp_path / f"c.{ending}", class_columns(**changes)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": ["a"]}, r"c\.npz must hold 'labels' and 'vectors'; it has labels"),
        ({"labels": ["a", "b"], "vectors": np.ones((3, 2))}, r"one row for each of the 2 labels; got shape \(3, 2\)"),
        ({"labels": ["a", "a"], "vectors": np.ones((2, 2))}, "labels of a class table must be unique; repeated: 'a'"),
        ({"labels": ["a"], "vectors": [["x"]]}, "must be a table of numbers"),
        ({"labels": ["a"], "vectors": [[1.0]], "attribute_names": ["p", "q"]}, "1 dimensions but 2 attribute names"),
    ],
)
def test_an_invalid_npz_of_classes_is_named(tmp_path: Path, arrays: Columns, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_classes(write(tmp_path / "c.npz", arrays))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", r"c\.json must hold \{label: \[numbers\]\}"),
        ('{"a": [1, 2]', r"c\.json cannot be read"),
        ("{}", "no classes given"),
        ('{"a": [1, 2], "b": [1]}', r"one length; found lengths \[1, 2\]"),
        ('{"a": 1, "b": 2}', r"c\.json must hold \{label: \[numbers\]\}.*found 1"),
        ('{"a": ["x"], "b": ["y"]}', "number"),
        ('{"a": {"stripes": "x"}, "b": {"stripes": "y"}}', "number"),
    ],
)
def test_an_invalid_json_of_classes_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(DataError, match=message):
        load_classes(tmp_path / "c.json")


# Pickles


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return open, (str(self.trace), "w")


def with_trap(path: Path, entry: str, trace: Path) -> Path:
    trap = np.array([Trap(trace)] * 5, dtype=object)
    if entry == "the file":
        path.write_bytes(pickle.dumps(Trap(trace)))
    elif path.suffix == ".npy":
        np.save(path, trap, allow_pickle=True)
    else:
        columns = image_columns(X=X, labels=LABELS[1::3], vectors=np.eye(2))
        np.savez(path, **columns | {entry: trap})
    return path


@pytest.mark.parametrize(
    ("read", "name", "entry"),
    [
        (load_tables, "t.npz", "X"),
        (load_tables, "t.npz", "label"),
        (load_tables, "t.npz", "split"),
        (load_tables, "t.npz", "unused"),
        (load_tables, "t.npz", "the file"),
        (load_features, "t.npz", "X"),
        (load_features, "t.npy", "X"),
        (load_features, "t.npy", "the file"),
        (load_classes, "t.npz", "vectors"),
        (load_classes, "t.npz", "labels"),
    ],
)
def test_pickles_are_never_loaded(tmp_path: Path, read: Any, name: str, entry: str) -> None:
    trace = tmp_path / "trace"
    path = with_trap(tmp_path / name, entry, trace)
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        read(path)
    assert not trace.exists()


def test_the_pickle_runs_code_where_pickles_are_loaded(tmp_path: Path) -> None:
    path = with_trap(tmp_path / "t.npy", "X", tmp_path / "trace")
    for file in np.load(path, allow_pickle=True):
        file.close()
    assert (tmp_path / "trace").exists()
