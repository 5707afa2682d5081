"""Data sets, their splits, and class folds that never contain a test image."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import Fold, ZeroShotDataset, apart
from sightunseen.core.errors import DataError


def dataset(n_seen: int = 12, n_unseen: int = 4, images: int = 10, **others: Any) -> ZeroShotDataset:
    """``images`` training and 2 test images per seen class, 3 per unseen class, shuffled; the feature is the row number."""
    seen, unseen = [f"s{k:02d}" for k in range(n_seen)], [f"u{k:02d}" for k in range(n_unseen)]
    parts = [(seen, "train", images), (seen, "test_seen", 2), (unseen, "test_unseen", 3)]
    images_of = [(label, word) for labels, word, count in parts for label in labels for _ in range(count)]
    mixed = np.random.default_rng(0).permutation(np.array(images_of))
    table = ClassTable(seen + unseen, np.random.default_rng(1).random((n_seen + n_unseen, 3)))
    return ZeroShotDataset.from_arrays(np.arange(len(mixed))[:, None], mixed[:, 0], table, mixed[:, 1], **others)


def rows_of(fold: Fold) -> list[list[int]]:
    return [split.rows.tolist() for split in (fold.train, fold.test_seen, fold.test_unseen)]


def test_split_assigns_every_image() -> None:
    X = np.arange(8.0).reshape(4, 2)
    table = ClassTable(["b", "a", "c"], np.eye(3))
    data = ZeroShotDataset.from_arrays(X, ["a", "c", "a", "b"], table, ["test_seen", "test_unseen", "train", "train"])
    np.testing.assert_array_equal(data.train.X, X[[2, 3]])
    assert data.train.y.tolist() == ["a", "b"]
    np.testing.assert_array_equal(data.test_seen.X, X[[0]])
    np.testing.assert_array_equal(data.test_unseen.X, X[[1]])
    assert [len(split) for split in (data.train, data.test_seen, data.test_unseen)] == [2, 1, 1]
    assert data.seen.tolist() == ["a", "b"]
    assert data.unseen.tolist() == ["c"]


def test_without_split_all_images_are_training_images() -> None:
    data = ZeroShotDataset.from_arrays(np.eye(3), ["d", "b", "d"], ClassTable(list("dcba"), np.eye(4)))
    assert data.train.y.tolist() == ["d", "b", "d"]
    assert len(data.test_seen) == len(data.test_unseen) == 0
    assert data.seen.tolist() == ["b", "d"]
    assert data.unseen.tolist() == ["a", "c"]


def test_classes_without_images_are_not_unseen_if_there_are_unseen_test_images() -> None:
    data = ZeroShotDataset.from_arrays(np.eye(2), ["a", "b"], ClassTable(list("abc"), np.eye(3)), ["train", "test_unseen"])
    assert data.unseen.tolist() == ["b"]


def test_using_changes_the_semantics_only() -> None:
    table = ClassTable(["a", "b"], {"attributes": np.eye(2), "words": [[5.0], [6.0]]})
    data = ZeroShotDataset.from_arrays(np.eye(2), ["a", "b"], table)
    words = data.using("words")
    np.testing.assert_array_equal(words.classes.vectors_of(["b"]), [[6.0]])
    np.testing.assert_array_equal(words.train.X, data.train.X)
    assert data.classes.use == "attributes"


def test_memory_mapped_features_are_read_at_first_use(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((3, 2)))
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r+")
    data = ZeroShotDataset.from_arrays(on_disk, ["a", "b", "a"], ClassTable(["a", "b"], np.eye(2)))
    split = data.train
    on_disk[:] = [[1, 2], [3, 4], [5, 6]]
    np.testing.assert_array_equal(split.X, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("X", "y", "split", "message"),
    [
        (np.eye(2), ["a", "b"], ["train", "test"], r"train, test_seen or test_unseen .* found \['test'\]"),
        (np.eye(2), ["a", "b"], ["train"], "2 labels but 1 entries in split"),
        (np.eye(3), ["a", "b"], None, "3 feature rows but 2 labels"),
        (np.ones(2), ["a", "b"], None, r"one row per image; got shape \(2,\)"),
        (np.ones((2, 2, 2)), ["a", "b"], None, r"one row per image; got shape \(2, 2, 2\)"),
    ],
    ids=["unknown word", "short split", "more images than labels", "flat features", "features in three dimensions"],
)
def test_inconsistent_arrays_raise_an_error(X, y, split, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ZeroShotDataset.from_arrays(X, y, ClassTable(["a", "b"], np.eye(2)), split)


@pytest.mark.parametrize("n_folds", [1, 5])
def test_folds_use_every_training_image_and_no_test_image(n_folds: int) -> None:
    data = dataset()
    folds = data.validation_folds(n_folds)
    assert len(folds) == n_folds
    for fold in folds:
        rows = np.concatenate(rows_of(fold))
        assert sorted(rows.tolist()) == sorted(data.train_rows.tolist())


def test_training_and_validation_classes_of_a_fold_are_disjoint_seen_classes() -> None:
    data = dataset()
    for fold in data.validation_folds(5):
        assert set(fold.seen).isdisjoint(fold.unseen)
        assert set(fold.seen) | set(fold.unseen) == set(data.seen) == set(fold.classes.labels)
        assert set(fold.test_seen.y) == set(fold.seen)
        np.testing.assert_array_equal(fold.classes.vectors_of(fold.unseen), data.classes.vectors_of(fold.unseen))


def test_images_of_a_fold_keep_their_labels_and_features() -> None:
    data = dataset()
    for split in (
        fold_split for fold in data.validation_folds(2) for fold_split in (fold.train, fold.test_seen, fold.test_unseen)
    ):
        np.testing.assert_array_equal(split.X[:, 0], split.rows)
        np.testing.assert_array_equal(split.y, data.labels[split.rows])


@pytest.mark.parametrize(
    ("n_seen", "n_unseen", "held"), [(12, 4, 3), (40, 10, 8), (4, 1, 2), (5, 50, 3)], ids=lambda value: str(value)
)
def test_ratio_of_validation_classes_is_that_of_unseen_classes(n_seen: int, n_unseen: int, held: int) -> None:
    """A quarter and a fifth, and at least two classes on either side."""
    (fold,) = dataset(n_seen, n_unseen, images=2).validation_folds()
    assert len(fold.unseen) == held


@pytest.mark.parametrize(("images", "held"), [(1, 0), (2, 1), (5, 1), (10, 2), (50, 10)])
def test_a_fifth_of_the_images_of_each_class_is_held_out(images: int, held: int) -> None:
    (fold,) = dataset(images=images).validation_folds()
    for label in fold.seen:
        assert (fold.test_seen.y == label).sum() == held
        assert (fold.train.y == label).sum() == images - held


def test_folds_depend_on_the_seed_alone() -> None:
    data = dataset()
    once, again, other = data.validation_folds(3, seed=7), data.validation_folds(3, seed=7), data.validation_folds(3, seed=8)
    assert [rows_of(fold) for fold in once] == [rows_of(fold) for fold in again]
    assert all(rows_of(left) != rows_of(right) for left, right in zip(once, other, strict=True))


def test_further_folds_do_not_change_the_first_ones() -> None:
    data = dataset()
    few, many = data.validation_folds(2), data.validation_folds(6)
    assert len({tuple(fold.unseen) for fold in many}) > 1
    assert [rows_of(fold) for fold in few] == [rows_of(fold) for fold in many[:2]]


def test_listed_folds_come_first() -> None:
    data = dataset()
    listed = ((data.seen[4:], data.seen[:4]), (data.seen[:-5], data.seen[-5:]))
    folds = dataset(validation=listed).validation_folds(4, seed=3)
    for fold, (train, held) in zip(folds, listed, strict=False):
        assert fold.seen.tolist() == train.tolist()
        assert fold.unseen.tolist() == held.tolist()
    assert [len(fold.unseen) for fold in folds[2:]] == [3, 3]
    assert len(dataset(validation=listed).validation_folds(1)) == 1


def test_listed_folds_ignore_classes_without_training_images() -> None:
    data = dataset()
    (fold,) = dataset(validation=((data.seen[4:], np.append(data.seen[:4], data.unseen)),)).validation_folds()
    assert fold.unseen.tolist() == data.seen[:4].tolist()
    assert set(np.concatenate(rows_of(fold))) == set(data.train_rows)
    assert set(fold.classes.labels) == set(data.seen)


def test_held_out_images_of_a_listed_fold_depend_on_the_seed() -> None:
    seen = dataset().seen
    data = dataset(validation=((seen[4:], seen[:4]),))
    (one,), (other,) = data.validation_folds(seed=0), data.validation_folds(seed=1)
    assert one.test_unseen.rows.tolist() == other.test_unseen.rows.tolist()
    assert one.test_seen.rows.tolist() != other.test_seen.rows.tolist()


def test_overlapping_listed_fold_raises_an_error() -> None:
    seen = dataset().seen
    with pytest.raises(DataError, match=str(seen[3])):
        dataset(validation=((seen[3:], seen[:4]),)).validation_folds()


@pytest.mark.parametrize("n_seen", [1, 3])
def test_too_few_seen_classes_for_a_fold_raise_an_error(n_seen: int) -> None:
    with pytest.raises(DataError, match=f"at least 4 seen classes .* arrays has {n_seen}.*--select none"):
        dataset(n_seen=n_seen).validation_folds()


def test_drawn_classes_are_the_validation_classes_of_folds() -> None:
    data = dataset()
    for k, fold in enumerate(data.validation_folds(4, seed=5)):
        drawn = data.drawn_classes(k, seed=5)
        np.testing.assert_array_equal(drawn, fold.unseen)
        assert drawn.tolist() == sorted(set(drawn.tolist()) & set(data.seen.tolist()))
    assert len({tuple(data.drawn_classes(k)) for k in range(20)}) > 10
    assert set(np.concatenate([data.drawn_classes(k) for k in range(40)])) == set(data.seen)  # each class has its turn


def test_drawn_classes_ignore_listed_folds() -> None:
    seen = dataset().seen
    listed = dataset(validation=((seen[4:], seen[:4]),))
    np.testing.assert_array_equal(listed.drawn_classes(0), dataset().drawn_classes(0))


@pytest.mark.parametrize(("images", "held"), [(1, 0), (2, 1), (3, 1), (10, 2), (50, 10)])
def test_held_out_images_are_a_fifth_of_the_training_images_of_some_classes(images: int, held: int) -> None:
    data = dataset(images=images)
    classes = data.seen[2:7]
    train, held_out = data.held_out_images(classes, seed=1)
    for label in classes:
        assert (held_out.y == label).sum() == held
        assert (train.y == label).sum() == images - held
    together = np.concatenate([train.rows, held_out.rows])
    assert sorted(together) == [row for row in data.train_rows if data.labels[row] in classes]


def test_held_out_images_depend_on_the_seed_alone() -> None:
    data = dataset()
    one, again, other = (data.held_out_images(data.seen, seed)[1].rows.tolist() for seed in (0, 0, 1))
    assert one == again != other


@pytest.mark.parametrize("of", ["the test images", "a fold"])
def test_held_out_unseen_images_are_disjoint_and_other_splits_stay(of: str) -> None:
    data = dataset() if of == "the test images" else dataset().validation_folds()[0]
    to, on = apart(data, 0.25, seed=3)
    rows = [part.test_unseen.rows for part in (to, on)]
    assert sorted(np.concatenate(rows)) == sorted(data.test_unseen.rows)
    assert len(rows[1]) == round(0.25 * len(data.test_unseen))
    for part in (to, on):
        assert part.train.rows.tolist() == data.train.rows.tolist()
        assert part.test_seen.rows.tolist() == data.test_seen.rows.tolist()
    assert apart(data, 0.25, seed=3)[1].test_unseen.rows.tolist() == rows[1].tolist()
    assert apart(data, 0.25, seed=4)[1].test_unseen.rows.tolist() != rows[1].tolist()


@pytest.mark.parametrize("of", ["the test images", "a fold"])
def test_unseen_classes_without_a_held_out_image_remain_candidates(of: str) -> None:
    data = dataset() if of == "the test images" else dataset(images=2).validation_folds()[0]
    size = 1 / len(data.test_unseen)
    to, on = apart(data, size)
    assert len(on.test_unseen) == 1 < len(data.unseen)
    assert on.unseen.tolist() == to.unseen.tolist() == data.unseen.tolist()


def test_hold_out_of_zero_returns_the_data_twice() -> None:
    data = dataset()
    assert apart(data, 0.0) == (data, data)


@pytest.mark.parametrize("part", [1.0, 2.0, -0.5, 1e-6])
def test_holding_out_all_images_or_none_raises_an_error(part: float) -> None:
    with pytest.raises(DataError, match="leaves no image to adapt to or none to evaluate on"):
        apart(dataset(), part)
