"""Rows of files: slices, index arrays, selections, joined files and rows that are collected while they are read."""

from typing import Any

import numpy as np
import pytest

from sightunseen.core import memory, rows
from sightunseen.core.errors import DataError
from sightunseen.core.rows import CollectedRows, JoinedRows, Rows, SelectedRows, block_rows, selected_blocks

TABLE = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)


class Stored(Rows):
    """A table that notes which rows are read."""

    def __init__(self, table: Any = TABLE) -> None:
        super().__init__(table.shape, table.dtype)
        self.table, self.reads = table, []

    def read(self, start: int, stop: int) -> Any:
        self.reads.append((start, stop))
        return self.table[start:stop]

    def where(self, row: int) -> str:
        return f"table.bin, row {row + 1}"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FEWEST_ROWS", 1)
    monkeypatch.setattr(rows, "VALUES", 3 * 64)


def test_indexing_is_that_of_an_array() -> None:
    stored = Stored()
    for wanted in (slice(5, 90), slice(990, 2000), slice(7, 7), np.array([900, 3, 3, 500]), np.arange(1000) % 7 == 0, 17, -1):
        np.testing.assert_array_equal(stored[wanted], TABLE[wanted])
    np.testing.assert_array_equal(np.asarray(stored), TABLE)
    assert (stored.ndim, len(stored), stored.nbytes) == (2, 1000, TABLE.nbytes)


def test_steps_are_refused() -> None:
    with pytest.raises(IndexError, match="step 2"):
        Stored()[::2]


def test_index_arrays_are_read_in_one_ascending_pass() -> None:
    stored = Stored()
    wanted = np.random.default_rng(1).permutation(1000)[:400]
    np.testing.assert_array_equal(stored[wanted], TABLE[wanted])
    starts = [start for start, _ in stored.reads]
    assert starts == sorted(starts)
    assert max(stop - start for start, stop in stored.reads) <= 64


def test_blocks_without_wanted_rows_are_not_read() -> None:
    stored = Stored()
    found = list(selected_blocks(stored, np.array([3, 4, 5, 700, 702])))
    assert [indices.tolist() for indices, _ in found] == [[3, 4, 5], [700, 702]]
    assert stored.reads == [(3, 6), (700, 703)]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), TABLE[[3, 4, 5, 700, 702]])


def test_tables_larger_than_memory_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 100)
    with pytest.raises(DataError, match=r"^table\.bin needs"):
        np.asarray(Stored())


def test_selected_rows_are_a_table() -> None:
    wanted = np.array([900, 3, 500, 3])
    selected = SelectedRows(Stored(), wanted)
    np.testing.assert_array_equal(selected[1:], TABLE[wanted[1:]])
    np.testing.assert_array_equal(np.asarray(selected), TABLE[wanted])
    assert selected.where(2) == "table.bin, row 501"


@pytest.mark.parametrize("sizes", [[1000], [400, 600], [1, 0, 998, 1]])
def test_joined_files_are_one_table(sizes: list[int]) -> None:
    parts = np.split(TABLE, np.cumsum(sizes)[:-1])
    joined = JoinedRows(
        [Stored(part) if k % 2 else part for k, part in enumerate(parts)], [f"{k}.npy" for k in range(len(sizes))]
    )
    for wanted in (slice(0, 1000), slice(399, 402), slice(400, 400), slice(999, 1000), np.array([999, 0, 400])):
        np.testing.assert_array_equal(joined[wanted], TABLE[wanted])
    assert joined.where(999) == f"{len(sizes) - 1}.npy, row {sizes[-1]}"


def test_rows_are_collected_while_they_are_read() -> None:
    stored = Stored()
    collecting = CollectedRows(stored, np.array([3, 64, 999]))
    for start in range(0, 1000, 100):
        collecting[start : start + 100]
    reads = len(stored.reads)
    np.testing.assert_array_equal(collecting.collected(np.array([64, 999])), TABLE[[64, 999]])
    assert len(stored.reads) == reads


def test_rows_that_were_not_read_are_read_when_needed() -> None:
    collecting = CollectedRows(TABLE, np.array([3, 64, 999]))
    np.testing.assert_array_equal(collecting.collected(np.array([3])), TABLE[[3]])
    elsewhere = CollectedRows(Stored(), np.array([3, 64, 999]))
    elsewhere.keep(0, 500, -TABLE[[3, 64]])
    elsewhere.keep(500, 1000, -TABLE[[999]])
    np.testing.assert_array_equal(elsewhere.collected(elsewhere.rows), -TABLE[[3, 64, 999]])


def test_blocks_depend_on_the_width_alone() -> None:
    assert block_rows((10, 2048)) == block_rows((10**9, 2048))
