"""Fitting in one pass: arrays, memory maps, files, iterators of blocks and partial fits give the same model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sightunseen.core import dataset, rows
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.rows import Rows
from sightunseen.methods import ESZSL, GFZSL, METHODS, SAE, Foresight, OnePassClassifier

METHODS_HERE = [Foresight, ESZSL, SAE, GFZSL]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FEWEST_ROWS", 1)
    monkeypatch.setattr(rows, "VALUES", 32 * 50)


def assert_same(one: Any, other: Any, data: ZeroShotDataset, tolerance: float = 1e-4) -> None:
    X = data.test_unseen.X
    expected = one.decision_function(X, "all")
    np.testing.assert_allclose(other.decision_function(X, "all"), expected, atol=tolerance * np.abs(expected).max())


def blocks(data: ZeroShotDataset, size: int = 37) -> Iterator[tuple[Any, Any]]:
    for start in range(0, len(data.train), size):
        yield data.train.X[start : start + size], data.train.y[start : start + size]


def test_closed_form_methods_that_need_sums_alone_say_so() -> None:
    assert {name for name in METHODS if issubclass(METHODS[name], OnePassClassifier)} == {"Foresight", "ESZSL", "SAE", "GFZSL"}


@pytest.mark.parametrize("method", METHODS_HERE)
def test_all_ways_to_give_images_fit_the_same_model(
    method: type[OnePassClassifier], small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    whole = method().fit(X, y, classes)
    np.save(tmp_path / "X.npy", X)
    assert_same(whole, method().fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, classes), small_world)

    class Stored(Rows):
        def read(self, start: int, stop: int) -> Any:
            return X[start:stop]

    assert_same(whole, method().fit(Stored(X.shape), y, classes), small_world)
    assert_same(whole, method().fit(blocks(small_world), classes=classes), small_world)
    step = method()
    for part in blocks(small_world, 90):
        step.partial_fit(*part, classes)
    assert_same(whole, step, small_world)


@pytest.mark.parametrize("method", METHODS_HERE)
def test_a_path_is_a_data_set(
    method: type[OnePassClassifier], small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small_world.classes
    values = pa.FixedSizeListArray.from_arrays(pa.array(small_world.train.X.ravel()), small_world.train.X.shape[1])
    whole = pa.table({"label": small_world.train.y, "features": values})
    (tmp_path / "features").mkdir()
    for k in range(3):
        parquet.write_table(
            whole[k * 100 : (k + 1) * 100 if k < 2 else len(whole)], tmp_path / "features" / f"part-{k}.parquet"
        )
    names = [f"attribute {k}" for k in range(table.vectors.shape[1])]
    parquet.write_table(
        pa.table({"class": table.labels, **dict(zip(names, table.vectors.T, strict=True))}), tmp_path / "c.parquet"
    )
    monkeypatch.setattr(dataset, "LOADED_PART", 0)
    model = method().fit(tmp_path / "features", classes=tmp_path / "c.parquet")
    assert_same(method().fit(small_world.train.X, small_world.train.y, model.table_), model, small_world)


def test_partial_fit_accepts_new_classes_and_keeps_the_table(small_world: ZeroShotDataset) -> None:
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    first = y < np.sort(small_world.seen)[6]
    model = Foresight().partial_fit(X[first], y[first], classes)
    assert len(model.seen_classes_) == 6
    model.partial_fit(X[~first], y[~first])
    assert_same(Foresight().fit(X, y, classes), model, small_world)
    assert len(model.fit(X[first], y[first], classes).seen_classes_) == 6  # fit starts anew


def test_partial_fit_goes_on_after_labels_that_are_unknown(small_world: ZeroShotDataset) -> None:
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    half = y < np.sort(small_world.seen)[6]
    model = Foresight().partial_fit(X[half], y[half], classes)
    with pytest.raises(DataError, match="9999"):
        model.partial_fit(X[:5], np.full(5, 9999))
    assert_same(Foresight().fit(X, y, classes), model.partial_fit(X[~half], y[~half]), small_world)


def test_partial_fit_does_not_change_the_feature_scaling(small_world: ZeroShotDataset) -> None:
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    model = ESZSL(feature_scaling="unit").partial_fit(X[:100], y[:100], classes)
    with pytest.raises(SettingsError, match="feature_scaling from 'unit' to 'none'"):
        model.set_params(feature_scaling="none").partial_fit(X[100:], y[100:])
    whole = ESZSL(feature_scaling="unit").fit(X, y, classes)
    assert_same(whole, model.set_params(feature_scaling="unit").partial_fit(X[100:], y[100:]), small_world)


def test_labels_are_needed() -> None:
    class Stored(Rows):
        def read(self, start: int, stop: int) -> Any:
            return np.zeros((stop - start, 4), dtype=np.float32)

    with pytest.raises(DataError, match="10 images but labels of shape"):
        Foresight().fit(Stored((10, 4)), ["a"] * 9)
    with pytest.raises(DataError, match="no blocks"):
        Foresight().fit(iter(()))


def test_memory_of_a_fit_does_not_grow_with_the_number_of_images() -> None:
    import tracemalloc

    def peak(images: int) -> int:
        def made() -> Iterator[tuple[Any, Any]]:
            rng = np.random.default_rng(0)
            for _ in range(images // 2000):
                yield rng.random((2000, 64), dtype=np.float32), rng.integers(10, size=2000)

        tracemalloc.start()
        ESZSL().fit(made())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(4000)  # imports and caches
    assert peak(80_000) < 1.3 * peak(16_000)
