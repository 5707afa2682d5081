"""Random class splits: which classes and images are drawn."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.benchmark.draws import Draw, class_numbers, draw_split
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.synthetic_features import World, make_world


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=40, n_unseen=10, n_attributes=6, n_features=4, images_per_class=60))


def counts(data: ZeroShotDataset, rows: np.ndarray) -> dict[Any, int]:
    values, numbers = np.unique(data.labels[rows], return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))


@pytest.mark.parametrize(("wanted", "sizes"), [(8, (8, 5)), (12, (12, 6)), (20, (20, 10)), (40, (40, 10)), ("all", (40, 10))])
def test_numbers_of_classes(world: ZeroShotDataset, wanted: int | str, sizes: tuple[int, int]) -> None:
    drawn = draw_split(world, wanted, 0)
    assert (len(drawn.seen), len(drawn.unseen)) == sizes == class_numbers(world, wanted)


def test_the_classes_that_are_left_limit_the_unseen_classes(world: ZeroShotDataset) -> None:
    assert class_numbers(world, 48) == (48, 2)
    for wanted, left in ((49, 1), (50, 0), (60, 0)):
        with pytest.raises(DataError, match=f"{wanted} seen classes leave {left} of the 50"):
            class_numbers(world, wanted)


def test_seen_and_unseen_classes_are_disjoint_and_the_table_has_no_other(world: ZeroShotDataset) -> None:
    drawn = draw_split(world, 12, 3, 20)
    assert not set(drawn.seen) & set(drawn.unseen)
    assert set(drawn.classes.labels) == {*drawn.seen, *drawn.unseen}
    np.testing.assert_array_equal(drawn.classes.vectors, world.classes.vectors_of(drawn.classes.labels))


def test_classes_come_from_both_sides_of_the_published_split(world: ZeroShotDataset) -> None:
    drawn = [draw_split(world, "all", seed) for seed in range(5)]
    assert any(set(one.unseen) & set(world.seen) for one in drawn)
    assert any(set(one.seen) & set(world.unseen) for one in drawn)


@pytest.mark.parametrize("unequal", [1, 20])
def test_no_image_is_in_two_splits(world: ZeroShotDataset, unequal: float) -> None:
    drawn = draw_split(world, 20, 1, unequal)
    parts = [drawn.train_rows, drawn.test_seen_rows, drawn.test_unseen_rows]
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows)
    assert set(world.labels[drawn.test_seen_rows]) == set(drawn.seen)
    assert set(world.labels[drawn.test_unseen_rows]) == set(drawn.unseen)


def test_equal_classes_keep_all_images_and_a_fifth_of_seen_ones_are_test_images(world: ZeroShotDataset) -> None:
    drawn = draw_split(world, 8, 0)
    assert set(counts(drawn, drawn.train_rows).values()) == {48}
    assert set(counts(drawn, drawn.test_seen_rows).values()) == {12}
    assert set(counts(drawn, drawn.test_unseen_rows).values()) == {60}


def test_unequal_classes_keep_log_uniform_shares(world: ZeroShotDataset) -> None:
    kept = []
    for seed in range(20):
        drawn = draw_split(world, 40, seed, 20)
        rows = np.concatenate([drawn.train_rows, drawn.test_seen_rows, drawn.test_unseen_rows])
        kept += counts(drawn, rows).values()
    assert min(kept) == 3  # 60 / 20
    assert 55 < max(kept) <= 60
    # Of a log-uniform distribution on [1/20, 1], the median is the geometric mean of its ends.
    assert np.median(kept) == pytest.approx(60 / np.sqrt(20), rel=0.1)


def test_small_classes_keep_three_images_or_all() -> None:
    world = make_world(World(n_seen=8, n_unseen=4, n_attributes=4, n_features=3, images_per_class=4))
    for seed in range(5):
        drawn = draw_split(world, 6, seed, 1000)
        assert set(counts(drawn, drawn.test_unseen_rows).values()) == {3}
        assert set(counts(drawn, drawn.test_seen_rows).values()) == {1}
        assert set(counts(drawn, drawn.train_rows).values()) == {2}


def test_a_class_of_one_image_is_trained_on() -> None:
    world = make_world(World(n_seen=8, n_unseen=4, n_attributes=4, n_features=3, images_per_class=5))
    first = np.unique(world.labels[world.train_rows], return_index=True)[1]
    rows = world.train_rows[first]
    single = replace(world, train_rows=rows, test_seen_rows=rows[:0])
    drawn = draw_split(single, "all", 0)
    assert len(drawn.seen) == 8


def test_a_draw_is_deterministic_and_differs_between_seeds_and_sizes(world: ZeroShotDataset) -> None:
    first, again = draw_split(world, 12, 0, 20), draw_split(world, 12, 0, 20)
    for name in ("train_rows", "test_seen_rows", "test_unseen_rows"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert set(first.seen) != set(draw_split(world, 12, 1, 20).seen)
    assert set(draw_split(world, 40, 0).seen) != set(draw_split(world, "all", 0).seen)


def test_unequal_sizes_do_not_change_the_classes(world: ZeroShotDataset) -> None:
    equal, unequal = draw_split(world, 12, 0), draw_split(world, 12, 0, 20)
    assert equal.seen.tolist() == unequal.seen.tolist()
    assert equal.unseen.tolist() == unequal.unseen.tolist()


def test_features_are_shared_and_listed_folds_are_left_out(world: ZeroShotDataset) -> None:
    listed = replace(world, validation=((world.seen[:30], world.seen[30:]),), listed_train=world.train_rows)
    drawn = draw_split(listed, 12, 0)
    assert drawn.features is world.features
    assert drawn.labels is world.labels
    assert drawn.validation == ()
    assert drawn.listed_train is None
    (fold,) = drawn.validation_folds(1)
    assert {*fold.seen, *fold.unseen} == set(drawn.seen)
    assert drawn.describe()["options"].items() >= {"seen_classes": "12", "draw": "0", "unequal": "1"}.items()


def test_images_without_a_split_are_not_drawn(world: ZeroShotDataset) -> None:
    fewer = replace(world, test_seen_rows=world.test_seen_rows[:0])
    drawn = draw_split(fewer, "all", 0)
    rows = np.concatenate([drawn.train_rows, drawn.test_seen_rows, drawn.test_unseen_rows])
    assert not np.isin(rows, world.test_seen_rows).any()


@pytest.mark.parametrize("values", [(1, 1), (0, 1), (True, 1), (8.0, 1), ("many", 1), (8, 0.5), (8, "20"), (8, float("inf"))])
def test_invalid_draws_are_errors(values: tuple[Any, Any]) -> None:
    with pytest.raises(SettingsError, match="of the plan must be"):
        Draw(*values)


def test_real_splits_have_the_published_sizes(benchmark_folder: Path) -> None:
    from sightunseen.data import open_data

    data = open_data(benchmark_folder / "AWA1", "bow512", "att_splits_trainval_fixed")
    drawn = draw_split(data, "all", 0)
    assert (len(drawn.seen), len(drawn.unseen)) == (40, 10)
    sizes = [len(drawn.train), len(drawn.test_seen), len(drawn.test_unseen)]
    assert sum(sizes) == len(data.labels)
