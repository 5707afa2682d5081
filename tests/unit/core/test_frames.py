"""Conversion of tensors, series and DataFrames, and frames for users."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightunseen.core.errors import DataError
from sightunseen.core.frames import as_array, as_features, as_targets, frame_kind, frame_of, index_of, is_missing, make_frame

TABLE = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
FRAMES = {"pandas": pd.DataFrame(TABLE), "polars": pl.DataFrame(TABLE), "Arrow": pa.table(TABLE)}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_are_recognised_and_kept(library: str) -> None:
    frame = FRAMES[library]
    assert frame_of(frame).columns == ["a", "b"]
    assert as_features(frame) is frame


@pytest.mark.parametrize(
    "other", [None, 3, "text", [1], (1,), {"a": 1}, np.eye(2), torch.eye(2), object()], ids=lambda one: type(one).__name__
)
def test_other_objects_are_no_frames(other: Any) -> None:
    assert frame_of(other) is None


@pytest.mark.parametrize(
    "values",
    [
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16),
        pd.Series([[1.0, 2.0], [3.0, 4.0]]),
        pl.Series([[1.0, 2.0], [3.0, 4.0]]),
        pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float64, 2)),
        pd.Series([np.array([1.0, 2.0]), np.array([3.0, 4.0])]),
        [[1.0, 2.0], [3.0, 4.0]],
        FRAMES["pandas"].T,
    ],
    ids=lambda values: f"{type(values).__module__}.{type(values).__name__} {getattr(values, 'dtype', '')}",
)
def test_arrays_of_other_libraries(values: Any) -> None:
    np.testing.assert_array_equal(as_array(values, "features"), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "values", [torch.eye(2).to_sparse(), [[1.0], [1.0, 2.0]], pd.Series([[1.0], [1.0, 2.0]])], ids=["sparse", "list", "series"]
)
def test_values_without_conversion_are_an_error(values: Any) -> None:
    with pytest.raises(DataError, match="features cannot be converted"):
        as_array(values, "features")


@pytest.mark.parametrize("dtype", ["int8", "float32", "Int64", "Float32", "bool", "boolean", "object"])
def test_columns_of_numbers_are_features(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.Series([0, 1], dtype=dtype)})
    assert as_features(frame) is frame


@pytest.mark.parametrize("column", [["x", "y"], pd.Categorical(["x", "y"]), pd.to_datetime(["2026-01-01", "2026-01-02"])])
def test_columns_of_other_types_are_named(column: Any) -> None:
    with pytest.raises(DataError, match=r"found 'when'\. Drop"):
        as_features(pd.DataFrame({"a": [1, 2], "when": column}))


def test_many_columns_of_other_types_are_counted() -> None:
    with pytest.raises(DataError, match="'0', '1', '2' and 7 more"):
        as_features(pl.DataFrame({str(k): ["x"] for k in range(10)}))


@settings(deadline=None)
@given(labels=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5), min_size=1))
def test_texts_are_the_same_in_every_form(labels: list[str]) -> None:
    for form in (labels, tuple(labels), np.array(labels, dtype=object), pd.Series(labels), pl.Series(labels), pa.array(labels)):
        found = as_targets(form)
        assert found.tolist() == labels
        assert found.dtype.kind == "U"


@settings(deadline=None)
@given(labels=st.lists(st.integers(-(2**60), 2**60), min_size=1))
def test_numbers_are_the_same_in_every_form(labels: list[int]) -> None:
    for form in (labels, np.array(labels), pd.Series(labels), pl.Series(labels), torch.tensor(labels)):
        found = as_targets(form)
        assert found.tolist() == labels
        assert found.dtype.kind == "i"


def test_no_labels_stay_none() -> None:
    assert as_targets(None) is None


@pytest.mark.parametrize("value", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_missing_values(value: Any) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", "nan", False, float("inf"), np.zeros(2)], ids=repr)
def test_other_values_are_not_missing(value: Any) -> None:
    assert not is_missing(value)


def test_made_frames() -> None:
    columns = {"class": np.array(["owl", "emu"]), "probability": np.array([0.5, 1.0]), "seen": np.array([True, False])}
    index = pd.Index(["a.jpg", "b.jpg"])
    pandas, polars = make_frame(columns, "pandas", index), make_frame(columns, "polars", index)
    assert (
        pandas.to_dict("list") == polars.to_dict(as_series=False) == {name: column.tolist() for name, column in columns.items()}
    )
    assert pandas.index.equals(index)
    assert polars.schema == {"class": pl.String, "probability": pl.Float64, "seen": pl.Boolean}


def test_library_and_index_of_an_input() -> None:
    assert [frame_kind(X) for X in (FRAMES["pandas"], FRAMES["polars"], pl.Series([1]), FRAMES["Arrow"], np.eye(2))] == [
        *("pandas", "polars", "polars", "pandas", "pandas"),
    ]
    assert index_of(FRAMES["pandas"]).tolist() == [0, 1]
    assert index_of(FRAMES["polars"]) is None


def test_arrays_need_neither_pandas_nor_polars() -> None:
    lines = (
        "import sys; sys.modules['pandas'] = sys.modules['polars'] = None  # importing them fails",
        "from sightunseen.methods import ESZSL",
        "model = ESZSL().fit([[1, 0], [0, 1]] * 3, ['cat', 'dog'] * 3, {'cat': [1, 0], 'dog': [0, 1], 'fox': [1, 1]})",
        "print(model.add_classes({'owl': [-1, 1]}).predict([[1, 0]]))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['cat']"
