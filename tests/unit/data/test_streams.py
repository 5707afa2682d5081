"""Parquet files read in blocks: the rows equal the loaded table, in any order, with limited memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from sightunseen.core.errors import DataError
from sightunseen.data import streams
from sightunseen.data.table_files import load_features, open_features

ROWS = 1000
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
NAMES = [f"photo {k}.jpg" for k in range(ROWS)]


def as_lists() -> dict[str, Any]:
    return {"path": NAMES, "label": ["a"] * ROWS, "features": list(X)}


def as_fixed_lists() -> dict[str, Any]:
    return {"path": NAMES, "features": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), 3)}


def as_columns() -> dict[str, Any]:
    return {"x": X[:, 0], "label": ["a"] * ROWS, "y": X[:, 1], "z": X[:, 2]}


@pytest.fixture(params=[as_lists, as_fixed_lists, as_columns])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(streams, "ROWS", 64)
    parquet.write_table(pyarrow.table(request.param()), tmp_path / "features.parquet", row_group_size=300)
    return tmp_path / "features.parquet"


def test_streamed_rows_equal_the_loaded_table(path: Path) -> None:
    features, names = open_features(path)
    whole, their_names = load_features(path)
    np.testing.assert_array_equal(whole, X)
    assert features.shape == (ROWS, 3)
    assert len(features) == ROWS
    assert (names is None) == (their_names is None)
    for start in range(0, ROWS, 130):
        np.testing.assert_array_equal(features[start : start + 130], X[start : start + 130])
        if names is not None:
            assert names[start : start + 130].tolist() == NAMES[start : start + 130]


def test_slices_in_any_order(path: Path) -> None:
    features, _ = open_features(path)
    for part in (slice(0, 5), slice(0, 5), slice(990, 2000), slice(400, 700), slice(3, 3), slice(0, ROWS), slice(ROWS, ROWS)):
        np.testing.assert_array_equal(features[part], X[part])
    with pytest.raises(IndexError, match="in order, with step 1; got step 2"):
        features[::2]


def test_memory_is_limited_to_the_requested_rows(path: Path) -> None:
    features, _ = open_features(path)
    for start in range(0, ROWS, 100):
        features[start : start + 100]
        assert len(features._block) <= 100 + 64


def test_formats_other_than_parquet_are_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    assert isinstance(open_features(tmp_path / "x.npy")[0], np.memmap)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"path": NAMES, "colour": ["red"] * ROWS}, "every feature must be a number, but colour holds text"),
        ({"path": NAMES}, "holds no features"),
        ({"features": [[1.0]] * 999 + [[1.0, 2.0]]}, r"must have one length; found \[1, 2\]"),
        ({"features": [[1.0]] * 4096 + [[1.0, 2.0]] * 9}, r"must be of one length; found \(1,\) and \(2,\)"),
    ],
)
def test_an_unreadable_file_is_named(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table(table), tmp_path / "features.parquet")
    with pytest.raises(DataError, match=message):
        open_features(tmp_path / "features.parquet")[0][:5000]


def test_empty_and_damaged_files_raise(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"x": pyarrow.array([], pyarrow.float32())}), tmp_path / "empty.parquet")
    assert len(open_features(tmp_path / "empty.parquet")[0]) == 0
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(DataError, match=r"broken\.parquet cannot be read"):
        open_features(tmp_path / "broken.parquet")
    with pytest.raises(DataError, match="there is no file"):
        open_features(tmp_path / "missing.parquet")
