"""Properties that hold for any data: bounds, invariance to order, folds without leaks, file round trips."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.metrics import accuracy_by_class, harmonic_mean, per_class_accuracy
from sightunseen.core.model_files import ModelFiles, read_model, write_model
from sightunseen.core.records import RunRecord
from sightunseen.core.seen_unseen import SeenUnseenCurve, seen_unseen_curve
from sightunseen.training.episodes import ClassImages, distinct_below, draw_classes, draw_images

ROUNDING = 1e-9
some = settings(max_examples=60, deadline=None, derandomize=True)
few = settings(max_examples=30, deadline=None, derandomize=True)

seeds = st.integers(0, 2**32 - 1)
fractions = st.floats(0, 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


@st.composite
def answers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    pairs = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=30))
    return np.array(pairs)[:, 0], np.array(pairs)[:, 1]


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, labels, candidates and the seen classes; seen and unseen classes both have images."""
    n_seen, n_unseen = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    candidates = np.array(draw(st.permutations(range(n_seen + n_unseen))))
    others = draw(st.lists(st.sampled_from(candidates.tolist()), max_size=15))
    y = np.array([candidates[0], candidates[-1], *others])
    scores = draw(arrays(np.float64, (len(y), len(candidates)), elements=st.integers(-8, 8).map(lambda k: k / 4)))
    return scores, y, candidates, candidates[:n_seen]


@st.composite
def datasets(draw: st.DrawFn) -> ZeroShotDataset:
    """4 to 9 seen classes of 1 to 8 training images, some with test images; 0 to 4 unseen classes; rows shuffled."""
    n_seen, n_unseen = draw(st.integers(4, 9)), draw(st.integers(0, 4))
    images: list[tuple[int, str]] = []
    for label in range(n_seen):
        images += [(label, "train")] * draw(st.integers(1, 8)) + [(label, "test_seen")] * draw(st.integers(0, 3))
    for label in range(n_seen, n_seen + n_unseen):
        images += [(label, "test_unseen")] * draw(st.integers(0, 3))
    mixed = [images[k] for k in np.random.default_rng(draw(seeds)).permutation(len(images))]
    labels, words = zip(*mixed, strict=True)
    table = ClassTable(np.arange(n_seen + n_unseen)[::-1], np.eye(n_seen + n_unseen))
    listed: tuple[Any, ...] = ()
    if draw(st.booleans()):
        held = draw(st.integers(1, n_seen - 1))
        listed = ((np.arange(held, n_seen), np.arange(held)),)
    return ZeroShotDataset.from_arrays(np.arange(len(mixed))[:, None], labels, table, words, validation=listed)


@some
@given(answers())
def test_per_class_accuracy_is_between_the_worst_and_the_best_class(given_answers: tuple[np.ndarray, np.ndarray]) -> None:
    by_class = accuracy_by_class(*given_answers)
    assert set(by_class) == set(given_answers[0].tolist())
    assert 0 <= min(by_class.values()) <= per_class_accuracy(*given_answers) + ROUNDING
    assert per_class_accuracy(*given_answers) - ROUNDING <= max(by_class.values()) <= 1


@some
@given(answers(), seeds)
def test_accuracy_does_not_depend_on_the_order_of_images_or_the_names_of_classes(
    given_answers: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    y_true, y_pred = given_answers
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(len(y_true)), rng.permutation(list("abcdef"))
    expected = per_class_accuracy(y_true, y_pred)
    assert per_class_accuracy(names[y_true][order], names[y_pred][order]) == pytest.approx(expected, abs=ROUNDING)


@some
@given(answers(), st.integers(2, 5))
def test_more_copies_of_a_class_do_not_change_per_class_accuracy(
    given_answers: tuple[np.ndarray, np.ndarray], copies: int
) -> None:
    y_true, y_pred = given_answers
    times = np.where(y_true == y_true[0], copies, 1)
    more = per_class_accuracy(np.repeat(y_true, times), np.repeat(y_pred, times))
    assert more == pytest.approx(per_class_accuracy(y_true, y_pred), abs=ROUNDING)


@some
@given(fractions, fractions)
def test_harmonic_mean_is_between_minimum_and_arithmetic_mean(unseen: float, seen: float) -> None:
    h = harmonic_mean(unseen, seen)
    assert min(unseen, seen) - ROUNDING <= h <= (unseen + seen) / 2 + ROUNDING
    assert h == harmonic_mean(seen, unseen)


@some
@given(scored())
def test_unseen_accuracy_rises_and_seen_accuracy_falls_along_the_curve(images) -> None:
    curve = seen_unseen_curve(*images)
    assert (np.diff(curve.bonus) > 0).all()
    assert (np.diff(curve.unseen) >= 0).all()
    assert (np.diff(curve.seen) <= 0).all()
    assert curve.unseen[0] == 0
    assert curve.seen[-1] == pytest.approx(0, abs=ROUNDING)
    assert curve.unseen[-1] <= 1 + ROUNDING
    assert curve.seen[0] <= 1 + ROUNDING


@some
@given(scored())
def test_area_is_bounded_by_the_ends_of_the_curve(images) -> None:
    curve = seen_unseen_curve(*images)
    assert -ROUNDING <= curve.area <= curve.unseen[-1] * curve.seen[0] + ROUNDING


@some
@given(scored(), st.integers(-8, 8))
def test_constant_on_seen_scores_shifts_the_curve(images, quarters: int) -> None:
    scores, y, candidates, seen = images
    moved = seen_unseen_curve(scores + quarters / 4 * np.isin(candidates, seen), y, candidates, seen)
    curve = seen_unseen_curve(*images)
    np.testing.assert_array_equal(moved.bonus[1:], curve.bonus[1:] + quarters / 4)
    np.testing.assert_allclose([moved.unseen, moved.seen], [curve.unseen, curve.seen], atol=ROUNDING)


@some
@given(scored())
def test_no_point_of_the_curve_beats_the_best_bonus(images) -> None:
    curve = seen_unseen_curve(*images)
    highest = max(harmonic_mean(u, s) for u, s in zip(curve.unseen, curve.seen, strict=True))
    assert harmonic_mean(*curve.at(curve.best_bonus())) == pytest.approx(highest, abs=ROUNDING)


@some
@given(scored(), seeds)
def test_the_curve_does_not_depend_on_the_order_of_images(images, seed: int) -> None:
    scores, y, candidates, seen = images
    order = np.random.default_rng(seed).permutation(len(y))
    curves: list[SeenUnseenCurve] = [seen_unseen_curve(scores[o], y[o], candidates, seen) for o in (np.arange(len(y)), order)]
    np.testing.assert_array_equal(curves[0].bonus, curves[1].bonus)
    np.testing.assert_allclose(
        [curves[0].unseen, curves[0].seen, np.full_like(curves[0].seen, curves[0].area)],
        [curves[1].unseen, curves[1].seen, np.full_like(curves[0].seen, curves[1].area)],
        atol=ROUNDING,
    )


@some
@given(datasets(), st.integers(1, 3), seeds)
def test_folds_are_disjoint_and_use_training_images_only(data: ZeroShotDataset, n_folds: int, seed: int) -> None:
    for fold in data.validation_folds(n_folds, seed):
        parts = [fold.train.rows, fold.test_seen.rows, fold.test_unseen.rows]
        rows = np.concatenate(parts).tolist()
        assert len(set(rows)) == len(rows)
        assert set(rows) == set(data.train_rows.tolist())
        assert set(fold.test_unseen.y).isdisjoint({*fold.train.y, *fold.test_seen.y})
        assert set(fold.test_seen.y) <= set(fold.train.y)
        assert len(fold.unseen) >= 1
        assert set(fold.classes.labels) == {*fold.seen, *fold.unseen}


@some
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(1, 8), st.integers(1, 6), st.integers(0, 10**15), seeds)
def test_episodes_have_distinct_classes_and_images_if_there_are_enough(
    counts: list[int], classes_per_episode: int, images_per_class: int, first: int, seed: int
) -> None:
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    m = min(classes_per_episode, len(counts))
    images = ClassImages.of(torch.from_numpy(y))
    drawn_classes = draw_classes(len(counts), first, 5, m, seed, torch.device("cpu"))
    classes, rows = drawn_classes.numpy(), draw_images(images, drawn_classes, first, images_per_class, seed).numpy()
    assert rows.shape == (5, m, images_per_class)
    np.testing.assert_array_equal(y[rows], np.repeat(classes[..., None], images_per_class, axis=2))
    assert (np.diff(np.sort(classes, axis=1), axis=1) > 0).all()
    for label, drawn in zip(classes.ravel(), rows.reshape(-1, images_per_class), strict=True):
        assert len(set(drawn.tolist())) == images_per_class or counts[label] < images_per_class


@some
@given(arrays(np.int64, array_shapes(max_dims=3, max_side=4), elements=st.integers(1, 2**31)), st.integers(1, 6), st.data())
def test_numbers_drawn_below_a_count_are_below_it_and_distinct(count: np.ndarray, size: int, data: st.DataObject) -> None:
    # Any random numbers, also the smallest, the largest and equal ones.
    extremes = st.sampled_from([0, 1, 2**62, 2**63 - 1]) | st.integers(0, 2**63 - 1)
    numbers = data.draw(arrays(np.int64, (*count.shape, size), elements=extremes))
    drawn = distinct_below(torch.from_numpy(count), torch.from_numpy(numbers)).numpy()
    assert drawn.shape == (*count.shape, size)
    assert ((drawn >= 0) & (drawn < count[..., None])).all()
    distinct = (np.diff(np.sort(drawn, axis=-1), axis=-1) > 0).all(axis=-1)
    assert distinct[count >= size].all()


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    mappings = {name: draw(json_objects) for name in ("settings", "data", "selection", "results", "seeds")}
    listed = {name: tuple(draw(st.lists(json_objects, max_size=2))) for name in ("findings", "history")}
    return RunRecord(
        kind=draw(st.text(max_size=5)),
        method=draw(st.text(max_size=5)),
        seed=draw(st.integers()),
        protocol=draw(st.sampled_from(["honest", "paper"])),
        parent=draw(st.none() | json_objects),
        engine=draw(st.text(max_size=5)),
        wall_seconds=draw(st.floats(0, 1e9)),
        intervals=draw(st.dictionaries(st.text(max_size=5), st.lists(st.floats(0, 100), min_size=2, max_size=2), max_size=2)),
        verdict=tuple(draw(st.lists(st.text(max_size=9), max_size=2))),
        **mappings,
        **listed,
    )


@some
@given(records())
def test_run_record_json_round_trip(record: RunRecord) -> None:
    text = record.to_json()
    assert RunRecord.from_json(text) == record
    assert RunRecord.from_json(text).to_json() == text
    assert json.loads(text)["settings"] == record.settings


@some
@given(st.lists(st.text(max_size=6), min_size=1, max_size=8, unique_by=lambda text: text.rstrip("\0")), st.data())
def test_vectors_do_not_depend_on_row_order_or_only(labels: list[str], data: st.DataObject) -> None:
    vectors = np.random.default_rng(data.draw(seeds)).normal(size=(len(labels), 2))
    vector_of = dict(zip(labels, vectors, strict=True))
    order = data.draw(st.permutations(labels))
    chosen = data.draw(st.lists(st.sampled_from(labels), min_size=1, unique=True))
    table = ClassTable(order, [vector_of[label] for label in order])
    np.testing.assert_array_equal(table.vectors_of(labels), vectors)
    np.testing.assert_array_equal(table.only(chosen).vectors, [vector_of[label] for label in chosen])
    np.testing.assert_array_equal(table.only(chosen).vectors_of(chosen[::-1]), [vector_of[label] for label in chosen[::-1]])


@few
@given(
    json_objects,
    st.dictionaries(
        st.text(min_size=1, max_size=6).filter(lambda name: name != "__metadata__"),
        st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.bool_]).flatmap(
            lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
        ),
        max_size=3,
    ),
    st.none() | records(),
)
def test_model_folder_round_trip(
    content: dict[str, Any], arrays_by_name: dict[str, np.ndarray], record: RunRecord | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_model(path, ModelFiles("CVC", content, arrays_by_name, record))
        found = read_model(path)
    assert (found.method, found.content, found.record) == ("CVC", content, record)
    assert found.arrays.keys() == arrays_by_name.keys()
    for name, array in arrays_by_name.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
