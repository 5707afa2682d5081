"""Drawing tasks: distinct classes, distinct images of the right class, and all of them equally likely."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.stats import chisquare

from sightunseen.tasks import ClassImages, draw_batches, draw_distinct, draw_tasks

UNLIKELY = 1e-3  # the seeds are fixed, so a test that passes once passes always


def assert_uniform(outcomes: list[object], n_possible: int) -> None:
    """Every one of the possible outcomes comes about equally often."""
    _, counts = np.unique(np.array(outcomes), return_counts=True, axis=0)
    assert len(counts) == n_possible
    assert chisquare(counts).pvalue > UNLIKELY


def labels(*counts: int, seed: int = 0) -> np.ndarray:
    """This many images of class 'a', 'b', ..., mixed."""
    return np.random.default_rng(seed).permutation(np.repeat(list("abcdefghij")[: len(counts)], counts))


def test_images_are_grouped_by_label_in_sorted_order() -> None:
    y = np.array(["b", "c", "a", "b", "a", "b"])
    images = ClassImages.of(y)
    grouped = [images.rows[s : s + n].tolist() for s, n in zip(images.start, images.count, strict=True)]
    assert grouped == [[2, 4], [0, 3, 5], [1]]


@pytest.mark.parametrize("classes_per_task", [1, 3, 5])
def test_a_task_has_distinct_classes_and_distinct_images_of_them(classes_per_task: int) -> None:
    y = labels(4, 5, 6, 20, 9)
    classes, rows = draw_tasks(ClassImages.of(y), 300, classes_per_task, 4, np.random.default_rng(0))
    assert classes.shape == (300, classes_per_task)
    assert rows.shape == (300, classes_per_task, 4)
    for task_classes, task_rows in zip(classes, rows, strict=True):
        assert len(set(task_classes.tolist())) == classes_per_task
        assert len(set(task_rows.ravel().tolist())) == classes_per_task * 4
        assert (y[task_rows] == np.array(list("abcde"))[task_classes][:, None]).all()


def test_a_class_with_fewer_images_than_asked_for_repeats_its_own_and_only_its_own() -> None:
    y = labels(2, 8, 1)
    classes, rows = draw_tasks(ClassImages.of(y), 200, 3, 4, np.random.default_rng(0))
    assert (y[rows] == np.array(list("abc"))[classes][..., None]).all()
    distinct = {label: {len(set(r.tolist())) for r in rows[classes == place]} for place, label in enumerate("abc")}
    assert distinct == {"a": {1, 2}, "b": {4}, "c": {1}}


def test_every_set_of_classes_is_equally_likely() -> None:
    classes, _ = draw_tasks(ClassImages.of(labels(1, 9, 2, 5, 3, 7)), 20_000, 3, 1, np.random.default_rng(1))
    assert_uniform(np.sort(classes, axis=1).tolist(), math.comb(6, 3))


def test_every_set_of_images_of_a_class_is_equally_likely() -> None:
    classes, rows = draw_tasks(ClassImages.of(labels(5, 7)), 20_000, 1, 2, np.random.default_rng(2))
    for place, count in enumerate((5, 7)):
        assert_uniform(np.sort(rows[classes == place], axis=1).tolist(), math.comb(count, 2))


def test_images_are_drawn_apart_from_the_classes_they_are_drawn_with() -> None:
    """The pair of an image of one class and an image of the other is uniform, too."""
    classes, rows = draw_tasks(ClassImages.of(labels(4, 3)), 12_000, 2, 1, np.random.default_rng(3))
    in_order = np.take_along_axis(rows[..., 0], np.argsort(classes, axis=1), axis=1)
    assert_uniform(in_order.tolist(), 4 * 3)


@pytest.mark.parametrize(("count", "size"), [(4, 3), (5, 2), (6, 1), (7, 5)])
def test_distinct_numbers_below_a_count_are_a_uniform_subset(count: int, size: int) -> None:
    drawn = draw_distinct(np.full(15_000, count), size, np.random.default_rng(count))
    assert_uniform(np.sort(drawn, axis=1).tolist(), math.comb(count, size))
    assert {tuple(row) for row in np.sort(drawn, axis=1).tolist()} == set(itertools.combinations(range(count), size))


def test_too_small_a_count_is_drawn_from_with_replacement_uniformly() -> None:
    drawn = draw_distinct(np.full(16_000, 2), 3, np.random.default_rng(4))
    assert_uniform(drawn.tolist(), 2**3)


def test_counts_of_any_shape_are_drawn_from_each_on_its_own() -> None:
    count = np.array([[1, 2, 3], [4, 50, 600]])
    drawn = draw_distinct(np.broadcast_to(count, (500, 2, 3)), 3, np.random.default_rng(5))
    assert drawn.shape == (500, 2, 3, 3)
    assert (drawn >= 0).all()
    assert (drawn < count[..., None]).all()
    distinct = np.array([len(set(row)) for row in drawn.reshape(-1, 3).tolist()]).reshape(500, 2, 3)
    assert (distinct[:, count >= 3] == 3).all()


def test_batches_are_drawn_from_all_images_equally() -> None:
    rows = draw_batches(7, 2000, 5, np.random.default_rng(6))
    assert rows.shape == (2000, 5)
    assert_uniform(rows.ravel().tolist(), 7)


def test_the_same_seed_draws_the_same_tasks_and_another_one_others() -> None:
    images = ClassImages.of(labels(6, 6, 6, 6))
    once, again, other = (draw_tasks(images, 20, 2, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once[0], again[0])
    np.testing.assert_array_equal(once[1], again[1])
    assert (once[1] != other[1]).any()


def test_small_classes_are_counted_in_a_warning() -> None:
    with pytest.warns(UserWarning, match="^2 of 5 classes have fewer than 3 images; .* with replacement"):
        ClassImages.of(labels(1, 3, 2, 9, 4)).warn_of_small_classes(3)


def test_without_small_classes_there_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassImages.of(labels(3, 3, 9)).warn_of_small_classes(3)
