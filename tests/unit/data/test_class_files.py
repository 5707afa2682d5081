"""Files of classes: names, attributes and descriptions are the same in every format."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sightunseen.core.errors import DataError
from sightunseen.data.class_files import read_class_file
from sightunseen.data.table_files import load_classes
from sightunseen.semantics.describe import ClassDescriptions

NAN = float("nan")
CLASSES = ["zebra", "okapi", "tapir"]
STRIPES = [1.0, 0.5, 0.0]
TEXTS = ['a horse, "striped"', "a brown animal\nwith striped legs", "käse"]

Columns = dict[str, list[Any]]


def write(path: Path, columns: Columns) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)
    elif path.suffix == ".json":
        path.write_text(
            json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]), "utf-8"
        )
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


@pytest.fixture(params=["csv", "parquet", "json"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"classes.{request.param}"


def check(found: ClassDescriptions, **expected: Any) -> None:
    """Check names, attributes, values and descriptions."""
    assert found.labels == tuple(expected.get("labels", CLASSES))
    assert found.attribute_names == expected.get("attribute_names")
    assert found.descriptions == expected.get("descriptions")
    if "values" in expected:
        np.testing.assert_array_equal(found.values, expected["values"])  # NaN equals NaN
    else:
        assert found.values is None


def test_numeric_columns_are_attributes_and_text_is_the_description(path: Path) -> None:
    write(path, {"class": CLASSES, "stripes": STRIPES, "description": TEXTS, "legs": [4, 4, 4]})
    values = [[1.0, 4.0], [0.5, 4.0], [0.0, 4.0]]
    check(read_class_file(path), attribute_names=("stripes", "legs"), values=values, descriptions=tuple(TEXTS))


@pytest.mark.parametrize("name", ["description", "text"])
def test_descriptions_alone(path: Path, name: str) -> None:
    check(read_class_file(write(path, {"class": CLASSES, name: TEXTS})), descriptions=tuple(TEXTS))


def test_names_alone(path: Path) -> None:
    check(read_class_file(write(path, {"label": CLASSES})))


def test_an_attribute_may_be_called_text(path: Path) -> None:
    found = read_class_file(write(path, {"class": CLASSES, "text": [1, 0, 1], "description": TEXTS}))
    check(found, attribute_names=("text",), values=[[1.0], [0.0], [1.0]], descriptions=tuple(TEXTS))


def test_booleans_become_one_and_zero(path: Path) -> None:
    found = read_class_file(write(path, {"class": CLASSES, "striped": [True, True, False]}))
    check(found, attribute_names=("striped",), values=[[1.0], [1.0], [0.0]])


def test_a_missing_value_is_nan_and_a_missing_description_none(path: Path) -> None:
    found = read_class_file(
        write(path, {"class": CLASSES, "stripes": [1.0, None, 0.0], "description": ["a horse", None, "  "]})
    )
    check(found, attribute_names=("stripes",), values=[[1.0], [NAN], [0.0]], descriptions=("a horse", None, None))


def test_an_empty_description_column_is_ignored(path: Path) -> None:
    found = read_class_file(write(path, {"class": CLASSES, "stripes": STRIPES, "description": [None] * 3}))
    check(found, attribute_names=("stripes",), values=[[1.0], [0.5], [0.0]])


@pytest.mark.parametrize("content", ["class;legs\ncat;4,5\n", "class\tlegs\ncat\t4,5\n", "class,legs\nqu\xe9,4\n"])
def test_remedy_for_other_separators_and_encodings(tmp_path: Path, content: str) -> None:
    (tmp_path / "classes.csv").write_text(content, "latin-1")
    with pytest.raises(DataError, match=r"Save it with commas between the columns, in UTF-8\."):
        read_class_file(tmp_path / "classes.csv")


def test_descriptions_with_line_breaks(tmp_path: Path) -> None:
    """The file is longer than the blocks that pyarrow reads."""
    texts = [f"line {k}\n" * 100_000 + "end" for k in range(3)]
    path = write(tmp_path / "c.csv", {"class": CLASSES, "description": texts})
    check(read_class_file(path), descriptions=tuple(texts))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"zebra": [1, 4], "okapi": [0.5, None]}, {"values": [[1.0, 4.0], [0.5, NAN]]}),
        ({"zebra": "a horse", "okapi": "brown"}, {"descriptions": ("a horse", "brown")}),
        (
            {"zebra": {"stripes": 1, "description": "a horse"}, "okapi": {"legs": 4}},
            {"attribute_names": ("stripes", "legs"), "values": [[1.0, NAN], [NAN, 4.0]], "descriptions": ("a horse", None)},
        ),
        (
            {"zebra": {"stripes": 1}, "okapi": "brown"},
            {"attribute_names": ("stripes",), "values": [[1.0], [NAN]], "descriptions": (None, "brown")},
        ),
        ([{"class": "zebra", "description": "a horse"}, {"class": "okapi"}], {"descriptions": ("a horse", None)}),
        ([{"class": "zebra"}, {"class": "okapi"}], {}),
        ({"zebra": {}, "okapi": {}}, {}),
    ],
)
def test_json_forms(tmp_path: Path, content: Any, expected: dict[str, Any]) -> None:
    (tmp_path / "c.json").write_text(json.dumps(content))
    check(read_class_file(tmp_path / "c.json"), labels=["zebra", "okapi"], **expected)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": CLASSES, "stripes": STRIPES}, "has no column 'class'"),
        ({"class": CLASSES, "home": TEXTS, "stripes": STRIPES}, r"must be numeric.*'description'; found home"),
        ({"class": CLASSES, "description": TEXTS, "text": TEXTS}, "found text"),
        ({"class": ["zebra", "", "tapir"], "stripes": STRIPES}, "a class without a name: row 2"),
        ({"class": [], "stripes": []}, "no class"),
    ],
    ids=["no class column", "other text", "two texts", "no name", "empty"],
)
def test_invalid_columns_are_named(path: Path, columns: Columns, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_class_file(write(path, columns))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": [1, 2], "b": "text"}, r"must hold \{label: \[numbers\]\}.*found \[1, 2\]"),
        ({"a": []}, "found an empty list"),
        ([{"class": "a", "text": 3}, {"class": "b", "text": "x"}], "'text' must be text for every class; found 3"),
        ("a", "must hold"),
    ],
)
def test_invalid_json_is_named(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        read_class_file(tmp_path / "c.json")


def test_an_npz_is_not_a_class_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", labels=CLASSES)
    with pytest.raises(DataError, match=r"Give a \.csv"):
        read_class_file(tmp_path / "c.npz")


# -- with the real encoder ------------------------------------------------------------------------------------------------


def test_descriptions_and_names_are_encoded(path: Path) -> None:
    """The vectors of two fruits are more similar than those of a fruit and milk."""
    texts = ["a sweet yellow fruit", "a sour yellow fruit", "a cardboard box of milk", "a citrus fruit"]
    write(path, {"class": ["banana", "lemon", "whole-milk", "lime"], "description": texts})
    for semantics in ("auto", "text", "names"):
        table = load_classes(path, semantics)
        assert table.use == ("names" if semantics == "names" else "text") + ":all-MiniLM-L6-v2"
        banana, lemon, milk, lime = table.vectors
        assert min(lime @ lemon, lime @ banana) > lime @ milk


def test_attributes_are_used_by_default_and_other_kinds_are_available(path: Path) -> None:
    write(path, {"class": CLASSES, "stripes": STRIPES, "description": TEXTS})
    table = load_classes(path)
    assert table.use == "attributes"
    assert table.vectors.tolist() == [[1.0], [0.5], [0.0]]
    assert {kind: array.shape[1] for kind, array in table.semantics.items()} == {
        "attributes": 1,
        "text:all-MiniLM-L6-v2": 384,
        "names:all-MiniLM-L6-v2": 384,
        "both:all-MiniLM-L6-v2": 385,
    }


# -- a column of lists -------------------------------------------------------------------------------------------------


def write_lists(path: Path, vectors: Any, kind: Any, **others: list[Any]) -> Path:
    columns = {"class": pa.array(CLASSES), "embedding": pa.array(vectors, kind)}
    parquet.write_table(pa.table(columns | {name: pa.array(column) for name, column in others.items()}), path)
    return path


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.float64()), pa.list_(pa.int16())],
    ids=str,
)
def test_column_of_lists_holds_class_vectors(tmp_path: Path, kind: Any) -> None:
    vectors = [[1, 2], [3, 4], [5, 6]]
    check(read_class_file(write_lists(tmp_path / "c.parquet", vectors, kind)), values=vectors)
    found = read_class_file(write_lists(tmp_path / "c.parquet", vectors, kind, description=TEXTS))
    check(found, values=vectors, descriptions=tuple(TEXTS))
    assert found.values is not None
    assert found.values.dtype == np.float64


def test_missing_value_in_a_list_is_missing(tmp_path: Path) -> None:
    path = write_lists(tmp_path / "c.parquet", [[1.0, None], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64()))
    check(read_class_file(path), values=[[1, NAN], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("vectors", "kind", "others", "expected"),
    [
        ([[1.0], [1.0, 2.0], [3.0]], pa.float64(), {}, "one length; found lengths 1, 2"),
        ([[1.0], None, [3.0]], pa.float64(), {}, "row 2 is not a list of numbers"),
        ([[1.0], ["x"], [3.0]], pa.string(), {}, "row 1 is not a list of numbers"),
        ([[], [], []], pa.float64(), {}, "must have 1 to"),
        ([[1.0], [2.0], [3.0]], pa.float64(), {"legs": [4, 4, 4]}, "Keep either of them"),
        ([[1.0], [2e15], [3.0]], pa.float64(), {}, "largest magnitude"),
    ],
    ids=["lengths", "null", "text", "empty", "both", "large"],
)
def test_wrong_column_of_lists_raises_an_error(
    tmp_path: Path, vectors: Any, kind: Any, others: dict[str, list[Any]], expected: str
) -> None:
    if kind == pa.string():
        vectors = [[str(value) for value in row] for row in vectors]
    path = write_lists(tmp_path / "c.parquet", vectors, pa.list_(kind), **others)
    with pytest.raises(DataError, match=expected):
        read_class_file(path)


@pytest.mark.parametrize("kind", [pa.float32(), pa.int8(), pa.bool_(), pa.uint64()], ids=str)
def test_numeric_columns_of_any_type_are_attributes(tmp_path: Path, kind: Any) -> None:
    columns = {"class": pa.array(CLASSES), "legs": pa.array([1, 0, 1]).cast(kind), "tail": pa.array([1, None, 0]).cast(kind)}
    parquet.write_table(pa.table(columns), tmp_path / "c.parquet")
    check(
        read_class_file(tmp_path / "c.parquet"),
        attribute_names=("legs", "tail"),
        values=[[1, 1], [0, NAN], [1, 0]],
    )
