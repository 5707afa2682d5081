"""Classes as Python objects: every form gives the same class table, or an error that says what to do."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

from sightunseen import ClassTable, as_class_table
from sightunseen.core.errors import DataError
from sightunseen.data.class_inputs import as_new_classes

LABELS = ["zebra", "okapi", "tapir"]
NAMES = ["stripes", "legs"]
VECTORS = np.array([[1.0, 4.0], [0.5, 4.0], [0.0, 4.5]])
TEXTS = ["a striped horse", "a brown animal with striped legs", "an animal with a short trunk"]
COLUMNS = {name: VECTORS[:, k] for k, name in enumerate(NAMES)}
ENCODER = "all-MiniLM-L6-v2"

NAMED = {
    "mapping of attributes": {label: dict(zip(NAMES, VECTORS[k].tolist(), strict=True)) for k, label in enumerate(LABELS)},
    "pandas, index": pd.DataFrame(VECTORS, index=LABELS, columns=NAMES),
    "pandas, column class": pd.DataFrame({**COLUMNS, "class": LABELS}),
    "pandas, column name": pd.DataFrame({"name": LABELS, **COLUMNS}, index=[7, 8, 9]),
    "pandas, categorical label": pd.DataFrame({"label": pd.Categorical(LABELS), **COLUMNS}),
    "pandas, first column": pd.DataFrame({"species": LABELS, **COLUMNS}),
    "pandas, nullable numbers": pd.DataFrame(COLUMNS, index=LABELS).convert_dtypes(),
    "polars, column class": pl.DataFrame({**COLUMNS, "class": LABELS}),
    "polars, first column": pl.DataFrame({"species": LABELS, **COLUMNS}),
    "Arrow": pa.table({"class": LABELS, **COLUMNS}),
}
UNNAMED = {
    "class table": ClassTable(LABELS, VECTORS),
    "mapping of arrays": dict(zip(LABELS, VECTORS, strict=True)),
    "mapping of lists": dict(zip(LABELS, VECTORS.tolist(), strict=True)),
    "mapping of tensors": dict(zip(LABELS, torch.tensor(VECTORS, requires_grad=True), strict=True)),
    "mapping of series": {label: pd.Series(row, index=NAMES) for label, row in zip(LABELS, VECTORS, strict=True)},
    "pandas of an array": pd.DataFrame(VECTORS, index=LABELS),
    "pandas series of vectors": pd.Series(VECTORS.tolist(), index=LABELS),
    "pandas, column of lists": pd.DataFrame({"class": LABELS, "vector": VECTORS.tolist()}),
    "polars, column of lists": pl.DataFrame({"class": LABELS, "vector": VECTORS.tolist()}),
    "pair with an array": (LABELS, VECTORS),
    "pair with a list": (tuple(LABELS), VECTORS.tolist()),
    "pair with a tensor": (np.array(LABELS), torch.tensor(VECTORS)),
    "pair with series": (pl.Series(LABELS), VECTORS),
}
DESCRIBED = {
    "mapping": dict(zip(LABELS, TEXTS, strict=True)),
    "pair": (LABELS, TEXTS),
    "pandas series": pd.Series(TEXTS, index=LABELS),
    "pandas": pd.DataFrame({"description": TEXTS}, index=LABELS),
    "pandas, text before the label": pd.DataFrame({"description": TEXTS, "class": LABELS}),
    "polars": pl.DataFrame({"class": LABELS, "text": TEXTS}),
    "mapping of mappings": {label: {"description": text} for label, text in zip(LABELS, TEXTS, strict=True)},
}


def assert_same(found: ClassTable, names: list[str] | None) -> None:
    assert found.labels.tolist() == LABELS
    assert found.use == "attributes"
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert found.attribute_names == (None if names is None else tuple(names))


@pytest.mark.parametrize("form", NAMED)
def test_forms_with_names_of_attributes(form: str) -> None:
    assert_same(as_class_table(NAMED[form]), NAMES)


@pytest.mark.parametrize("form", UNNAMED)
def test_forms_without_names_of_attributes(form: str) -> None:
    assert_same(as_class_table(UNNAMED[form]), None)


@pytest.mark.parametrize("form", [*NAMED, *UNNAMED])
def test_forms_of_new_classes(form: str) -> None:
    names = NAMES if form in NAMED else None
    known = ClassTable(["horse", "owl"], [[0.0, 4.0], [0.0, 2.0]], names)
    found = as_new_classes({**NAMED, **UNNAMED}[form], known)
    assert found.labels.tolist() == LABELS
    np.testing.assert_array_equal(found.vectors, VECTORS)


@pytest.mark.parametrize("form", DESCRIBED)
def test_texts_are_encoded_and_the_encoder_is_named(form: str) -> None:
    found = as_class_table(DESCRIBED[form])
    assert found.labels.tolist() == LABELS
    assert found.use == f"text:{ENCODER}"
    assert found.texts == dict(zip(LABELS, TEXTS, strict=True))
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(found.vectors, as_class_table(DESCRIBED["mapping"]).vectors)
    known = as_class_table({"owl": "a bird of the night"})
    np.testing.assert_array_equal(as_new_classes(DESCRIBED[form], known).vectors, found.vectors)


def test_list_of_names_is_encoded() -> None:
    found = as_class_table(LABELS)
    assert (found.labels.tolist(), found.use) == (LABELS, f"names:{ENCODER}")


def test_attributes_are_used_before_descriptions_and_semantics_chooses() -> None:
    frame = pd.DataFrame({**COLUMNS, "description": TEXTS}, index=LABELS)
    assert_same(as_class_table(frame), NAMES)
    assert as_class_table(frame, semantics="text").use == f"text:{ENCODER}"
    both = as_class_table(frame, semantics="both")
    assert both.use == f"both:{ENCODER}"
    np.testing.assert_array_equal(both.vectors[:, :2], VECTORS)


@pytest.mark.parametrize("label", [int, np.int32, float, bool])
def test_labels_keep_their_type(label: type) -> None:
    labels = [label(k) for k in range(2)]
    plain = np.array(labels).tolist()
    for form in (
        dict(zip(labels, VECTORS[:2], strict=True)),
        pd.DataFrame(VECTORS[:2], columns=NAMES, index=labels),
        pl.DataFrame({"class": plain, "stripes": [1.0, 0.5], "legs": [4.0, 4.0]}),
        (labels, VECTORS[:2]),
        {name: {"legs": 4.0} for name in labels},
    ):
        found = as_class_table(form, y=labels).labels
        assert found.tolist() == plain
        assert found.dtype.kind == np.array(labels).dtype.kind


def test_missing_attribute_is_the_mean_with_a_warning() -> None:
    for form in (
        pd.DataFrame({"legs": [4.0, np.nan, 2.0], "tail": 1.0}, index=LABELS),
        pl.DataFrame({"class": LABELS, "legs": [4, None, 2], "tail": [True, True, True]}),
        {"zebra": {"legs": 4, "tail": 1}, "okapi": {"tail": 1}, "tapir": {"legs": 2, "tail": 1}},
    ):
        with pytest.warns(UserWarning, match="filled with the mean"):
            found = as_class_table(form)
        assert found.vectors.tolist() == [[4, 1], [3, 1], [2, 1]]


def test_class_without_description_is_described_by_its_name() -> None:
    for form in ({"zebra": "a striped horse", "okapi": None}, pd.Series({"zebra": "a striped horse", "okapi": np.nan})):
        with pytest.warns(UserWarning, match="first: 'okapi'"):
            assert as_class_table(form).texts == {"zebra": "a striped horse"}


def test_path_of_a_class_file(tmp_path: Path) -> None:
    pd.DataFrame({"class": LABELS, **COLUMNS}).to_csv(tmp_path / "classes.csv", index=False)
    assert_same(as_class_table(tmp_path / "classes.csv"), NAMES)
    assert_same(as_class_table(str(tmp_path / "classes.csv")), NAMES)


# -- an array in class order -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist, torch.tensor, tuple])
def test_array_has_the_order_of_sorted_labels(convert: Any) -> None:
    found = as_class_table(convert(VECTORS), y=["zebra", "okapi", "tapir", "okapi"])
    assert found.labels.tolist() == ["okapi", "tapir", "zebra"]
    np.testing.assert_array_equal(found.vectors, VECTORS)


def test_array_has_a_row_for_each_number_from_zero() -> None:
    found = as_class_table(VECTORS, y=[0, 2, 2])
    assert found.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("y", [["zebra", "okapi"], [1, 2], [0, 5], [-1, 0], [0.0, 1.0]], ids=repr)
def test_array_of_unknown_order_is_an_error(y: list[Any]) -> None:
    with pytest.raises(DataError, match=r"3 rows, but y has 2 labels.*Give a pair \(labels, array\)"):
        as_class_table(VECTORS, y=y)


def test_array_of_new_classes_is_an_error() -> None:
    with pytest.raises(DataError, match="does not say which classes its rows are"):
        as_new_classes(VECTORS, ClassTable(["owl"], [[0.0, 2.0]]))


# -- refused -----------------------------------------------------------------------------------------------------------

REFUSED = {
    "set": (set(LABELS), "got set"),
    "number": (3, "got int"),
    "generator": ((row for row in VECTORS), "got generator"),
    "list of numbers": ([1.0, 2.0], r"got an array of shape \(2,\)"),
    "empty list": ([], r"got an array of shape \(0,\)"),
    "three dimensions": (np.zeros((2, 2, 2)), r"got an array of shape \(2, 2, 2\)"),
    "rows of several lengths": ([[1.0], [1.0, 2.0]], "cannot be converted"),
    "empty mapping": ({}, "empty"),
    "empty frame": (pd.DataFrame({"class": [], "legs": []}), "no class"),
    "numbers in a mapping": ({"zebra": 1.0, "owl": 2.0}, "'zebra' must have a vector"),
    "matrix in a mapping": ({"zebra": VECTORS}, "'zebra' must have a vector"),
    "vectors of several lengths": ({"zebra": [1.0], "owl": [1.0, 2.0]}, "one length"),
    "vector with text": ({"zebra": [1.0, "a"]}, "must be a table of numbers"),
    "texts and vectors": ({"zebra": "striped", "owl": [1.0]}, "one way; found a text for 'zebra' and a vector for 'owl'"),
    "attributes and texts": ({"zebra": {"legs": 4}, "owl": "a bird"}, "one way"),
    "lazy frame": (pl.LazyFrame({"class": LABELS}), r"\.collect\(\)"),
    "frame without labels": (pl.DataFrame(COLUMNS), "no column with the labels.*It has stripes, legs"),
    "frame with text": (pd.DataFrame({"class": LABELS, "colour": TEXTS}), "found colour"),
    "repeated column": (pd.DataFrame([["zebra", 1, 2]], columns=["class", "legs", "legs"]), "more than once"),
    "repeated label": (pd.DataFrame({"legs": [1, 2]}, index=["owl", "owl"]), "repeated: 'owl'"),
    "missing label": (pl.DataFrame({"class": ["owl", None], "legs": [1, 2]}), "without a name: row 2"),
    "two levels of index": (pd.DataFrame({"legs": [4]}, index=pd.MultiIndex.from_tuples([("a", "b")])), "expected a text"),
    "text and numbers as labels": ({"zebra": [1.0], 3: [1.0]}, "all text or all numbers"),
    "pair of other lengths": ((LABELS, VECTORS[:2]), "3 labels and 2 descriptions"),
    "missing file": ("no-such-file.csv", "no file"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_other_input_is_an_error_of_one_short_message(form: str) -> None:
    classes, message = REFUSED[form]
    with pytest.raises(DataError, match=message) as caught:
        as_class_table(classes)
    assert len(str(caught.value)) <= 500


@pytest.mark.parametrize(("classes", "y"), [(dict(zip(LABELS, VECTORS, strict=True)), [0, 1]), ({0: [1.0]}, ["zebra"])])
def test_labels_of_different_types_are_an_error(classes: Any, y: list[Any]) -> None:
    with pytest.raises(DataError, match="Use one type for both"):
        as_class_table(classes, y=y)


# -- properties --------------------------------------------------------------------------------------------------------

LETTERS = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
NAMES_OF_CLASSES = st.lists(st.text(LETTERS, min_size=1, max_size=8), min_size=1, max_size=6, unique=True)
NUMBERS_OF_CLASSES = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6, unique=True)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), labels=NAMES_OF_CLASSES | NUMBERS_OF_CLASSES)
def test_all_forms_agree(data: st.DataObject, labels: list[Any]) -> None:
    shape = (len(labels), data.draw(st.integers(1, 4)))
    vectors = data.draw(numpy_st.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6)))
    columns = {f"attribute {k}": column for k, column in enumerate(vectors.T)}
    for form in (
        dict(zip(labels, vectors, strict=True)),
        (labels, vectors),
        pd.DataFrame(columns, index=pd.Index(labels, name="animal")),
        pl.DataFrame({"class": labels, **columns}),
        {label: dict(zip(columns, row, strict=True)) for label, row in zip(labels, vectors.tolist(), strict=True)},
    ):
        found = as_class_table(form, y=labels)
        assert found.labels.tolist() == labels
        np.testing.assert_array_equal(found.vectors, vectors)


KEYS = st.integers() | st.text(max_size=5)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(classes=ODD, y=st.lists(st.integers(0, 3) | st.text(max_size=3), min_size=1, max_size=4))
def test_any_object_is_a_class_table_or_a_data_error(classes: Any, y: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome: Any = as_class_table(classes, y=y)
        except DataError as error:
            outcome = error
    assert isinstance(outcome, ClassTable) or len(str(outcome)) <= 500
