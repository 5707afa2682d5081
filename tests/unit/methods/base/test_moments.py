"""Moments by blocks, threads, parts and devices, compared with statistics of all images in double precision."""

from dataclasses import fields
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sightunseen.core import rows
from sightunseen.core.errors import DataError
from sightunseen.core.rows import CollectedRows, Rows
from sightunseen.methods.base import moments, passes
from sightunseen.methods.base.accumulation import Accumulator, encoded
from sightunseen.methods.base.feature_scaling import ONE_VIEW, TWO_VIEWS, FeatureScaling
from sightunseen.methods.base.moments import Moments, normalisations_of, scaled_scatter
from sightunseen.methods.base.passes import accumulated, mapping_parts, parts_of

RNG = np.random.default_rng(0)
Y = RNG.permutation(np.repeat([f"class {k:02}" for k in range(12)], 60))
X = (RNG.normal(size=(720, 20)) + 3 * RNG.normal(size=(12, 20))[np.unique(Y, return_inverse=True)[1]] + 2).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FEWEST_ROWS", 1)
    monkeypatch.setattr(rows, "VALUES", 20 * 50)


def reference(kind: str, X: Any, y: Any) -> tuple[Any, Any, Any]:
    """Class means, counts and within-class covariances of scaled images, class by class in double precision."""
    scaling = FeatureScaling.learned(kind, X, y)
    scaled = scaling(X).astype(np.float64)
    labels = np.unique(y)
    means = np.stack([scaled[y == label].mean(axis=0) for label in labels])
    around = scaled - means[np.searchsorted(labels, y)]
    views = np.split(around, scaling.views, axis=1)
    return means, np.array([(y == label).sum() for label in labels]), [view.T @ view / len(X) for view in views]


def assert_same_bits(one: dict[str, Moments], other: dict[str, Moments]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        for field in fields(Moments):
            np.testing.assert_array_equal(getattr(one[name], field.name), getattr(other[name], field.name))


@pytest.mark.parametrize("exact", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("kind", [*ONE_VIEW, TWO_VIEWS])
def test_scatter_is_that_of_all_images(kind: str, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "EXACT_VALUES", 1 << 22 if exact else 0)
    scaling, scatter = scaled_scatter(accumulated(X, Y, normalisations_of(kind)), kind)
    means, counts, covariances = reference(kind, X, Y)
    expected = FeatureScaling.learned(kind, X, Y)
    for name in ("shift", "factor"):
        if getattr(expected, name) is not None:
            np.testing.assert_allclose(getattr(scaling, name), getattr(expected, name), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(scatter.counts, counts)
    np.testing.assert_allclose(scatter.means, means, atol=2e-6 * np.abs(means).max())
    for found, wanted in zip(scatter.covariances, covariances, strict=True):
        np.testing.assert_allclose(found, wanted, atol=5e-6 * np.abs(wanted).max())


def test_second_moment_follows_from_the_scatter() -> None:
    _, scatter = scaled_scatter(accumulated(X, Y, ["none"]), "none")
    expected = X.astype(float).T @ X.astype(float)
    np.testing.assert_allclose(scatter.second_moment(), expected, atol=1e-7 * np.abs(expected).max())


def test_squares_by_class() -> None:
    sums = accumulated(X, Y, ["none"], by_class=True)["none"]
    scaling = sums.scaling("standard")
    scaled = FeatureScaling.learned("standard", X)(X).astype(float)
    for k, label in enumerate(np.unique(Y)):
        own = scaled[label == Y]
        np.testing.assert_allclose(sums.squares(scaling)[k], ((own - own.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-4)


def test_subtracted_images_are_as_if_never_seen() -> None:
    left = np.arange(0, 720, 7)
    (whole,) = accumulated(X, Y, ["unit"]).values()
    rest = whole - Moments.of(X[left], Y[left], "unit", whole.origin)
    expected = accumulated(np.delete(X, left, axis=0), np.delete(Y, left), ["unit"], origins={"unit": whole.origin})["unit"]
    np.testing.assert_array_equal(rest.counts, expected.counts)
    np.testing.assert_allclose(rest.sums, expected.sums, atol=1e-9)
    np.testing.assert_allclose(rest.square, expected.square, atol=1e-9)


def test_a_class_that_only_one_of_two_has_is_added() -> None:
    first, second = (accumulated(X[mask], Y[mask], ["unit"])["unit"] for mask in (Y < "class 05", Y >= "class 05"))
    second = accumulated(X[Y >= "class 05"], Y[Y >= "class 05"], ["unit"], origins={"unit": first.origin})["unit"]
    both, whole = first + second, accumulated(X, Y, ["unit"], origins={"unit": first.origin})["unit"]
    assert both.labels.tolist() == np.unique(Y).tolist()
    np.testing.assert_allclose(both.sums, whole.sums, atol=1e-9)
    np.testing.assert_allclose(both.square, whole.square, atol=1e-9)


def test_single_images_have_no_covariance() -> None:
    _, scatter = scaled_scatter(accumulated(X[:40], np.arange(40), ["root"]), "root")
    assert not scatter.covariances[0].any()


def test_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_threads(threads: int) -> dict[str, Moments]:
        with Accumulator(["root", "none"]) as sums:
            sums._pool._max_workers = sums.n_threads = threads
            for part in np.split(np.arange(len(X)), 9):
                sums.add(X[part], Y[part])
            return sums.total()

    assert_same_bits(with_threads(1), with_threads(4))


def test_parts_computed_elsewhere_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    here = accumulated(X, Y, ["root", "unit"])
    parts = parts_of(X)
    assert len(parts) > 3
    with mapping_parts(lambda work, items: (work(item) for item in items)):
        assert_same_bits(accumulated(X, Y, ["root", "unit"]), here)
        collecting = CollectedRows(X, np.array([5, 300, 719]))
        assert_same_bits(accumulated(collecting, Y, ["root", "unit"]), here)
    np.testing.assert_array_equal(collecting.collected(collecting.rows), X[[5, 300, 719]])


@pytest.mark.parametrize("shape", [(1, 20), (49, 20), (51, 20), (100_000, 20), (10_000_000, 20)])
def test_parts_are_at_most_64_and_cover_all_rows(shape: tuple[int, int]) -> None:
    parts = parts_of(np.broadcast_to(np.float32(0), shape))
    assert len(parts) <= 64
    assert parts[0].start == 0
    assert parts[-1].stop == shape[0]
    assert all(one.stop == other.start and one.stop % 50 == 0 for one, other in pairwise(parts))


def test_row_with_nan_is_named_with_its_file() -> None:
    class Damaged(Rows):
        def read(self, start: int, stop: int) -> Any:
            block = X[start:stop].copy()
            if start <= 314 < stop:
                block[314 - start, 7] = np.nan
            return block

        def where(self, row: int) -> str:
            return f"part-3.parquet, row {row + 1 - 300}"

    with pytest.raises(DataError, match=r"^part-3\.parquet, row 15 has NaN or infinite features"):
        accumulated(Damaged(X.shape), Y, ["root"])


@pytest.mark.parametrize("y", [["b", "a", "b"], [5, 2, 5], [-1, 3, -1], [10**9, 4, 10**9]])
def test_labels_are_encoded_like_unique(y: list[Any]) -> None:
    labels, targets = encoded(np.array(y))
    expected = np.unique(y, return_inverse=True)
    assert labels.tolist() == expected[0].tolist()
    assert targets.tolist() == expected[1].tolist()


@pytest.mark.gpu
def test_gpu_accepts_blocks_that_are_larger_than_the_first() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    from sightunseen.methods.base.cuda_accumulation import CudaAccumulator

    with CudaAccumulator(["unit"]) as accumulator:
        for rows in np.split(np.arange(len(X)), [2]):
            accumulator.add(X[rows], Y[rows])
        found = accumulator.total()["unit"]
    expected = accumulated(X, Y, ["unit"])["unit"]
    assert found.labels.tolist() == expected.labels.tolist()
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.sums, expected.sums, atol=1e-5 * np.abs(expected.sums).max())


def test_blocks_for_a_gpu_are_cut_to_the_size_of_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from sightunseen.methods.base import cuda_accumulation

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    accumulator = cuda_accumulation.CudaAccumulator(["unit"])
    accumulator._sums["unit"] = None  # type: ignore[assignment]
    accumulator._buffers = [SimpleNamespace(targets=np.empty(4))]  # type: ignore[list-item]
    parts: list[tuple[list[int], list[int]]] = []
    monkeypatch.setattr(accumulator, "_add", lambda X, y: parts.append((X.ravel().tolist(), y.tolist())))
    accumulator.add(np.arange(6)[:, None], np.arange(6) + 10)
    assert parts == [([0, 1, 2, 3], [10, 11, 12, 13]), ([4, 5], [14, 15])]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [*ONE_VIEW, TWO_VIEWS])
def test_gpu_computes_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    monkeypatch.setattr(passes, "CUDA_BLOCKS", 3)
    found = accumulated(X, Y, normalisations_of(kind), device="cuda")
    expected = accumulated(X, Y, normalisations_of(kind))
    for name, one in found.items():
        assert one.labels.tolist() == expected[name].labels.tolist()
        np.testing.assert_array_equal(one.counts, expected[name].counts)
        np.testing.assert_allclose(one.sums, expected[name].sums, atol=1e-5 * np.abs(expected[name].sums).max())
        np.testing.assert_allclose(one.square, expected[name].square, atol=1e-4 * np.abs(expected[name].square).max())
