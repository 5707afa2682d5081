"""Synthetic features: reproducible, with the right splits, and harder with a larger ``private`` offset."""

import signal
from dataclasses import replace

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SightUnseenError
from sightunseen.data.synthetic_features import World, make_world

SMALL = World(n_seen=12, n_unseen=5, n_attributes=8, n_features=20, images_per_class=11, seed=4)


def linear_zero_shot_accuracy(data: ZeroShotDataset) -> float:
    """Accuracy on unseen classes of the nearest class mean, predicted from attributes by least squares."""
    means = np.array([data.train.X[data.train.y == label].mean(axis=0) for label in data.seen])
    seen = np.c_[data.classes.vectors_of(data.seen), np.ones(len(data.seen))]
    unseen = np.c_[data.classes.vectors_of(data.unseen), np.ones(len(data.unseen))]
    predicted = unseen @ np.linalg.lstsq(seen, means, rcond=None)[0]
    distances = ((data.test_unseen.X[:, None] - predicted[None]) ** 2).sum(axis=2)
    return float((data.unseen[distances.argmin(axis=1)] == data.test_unseen.y).mean())


def bits(data: ZeroShotDataset) -> list[bytes]:
    arrays = (data.features, data.classes.vectors, data.train_rows, data.test_seen_rows, data.test_unseen_rows)
    return [array.tobytes() for array in arrays] + [data.labels.astype(str).tobytes()]


def test_the_same_seed_gives_identical_data() -> None:
    assert bits(make_world(SMALL)) == bits(make_world(SMALL))


def test_another_seed_gives_other_data() -> None:
    one, other = bits(make_world(SMALL)), bits(make_world(replace(SMALL, seed=5)))
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_splits_match_the_parameters() -> None:
    data = make_world(SMALL)
    assert data.features.shape == (17 * 11, 20)
    assert (len(data.seen), len(data.unseen)) == (12, 5)
    assert not set(data.seen) & set(data.unseen)
    for split, classes, images in ((data.train, 12, 9), (data.test_seen, 12, 2), (data.test_unseen, 5, 11)):
        counts = np.unique(split.y, return_counts=True)[1]
        assert counts.tolist() == [images] * classes
    rows = np.concatenate([data.train_rows, data.test_seen_rows, data.test_unseen_rows])
    assert sorted(rows) == list(range(17 * 11))


def test_unseen_classes_are_spread_over_the_table() -> None:
    data = make_world(SMALL)
    assert set(data.unseen) != set(data.classes.labels[-5:])


@pytest.mark.parametrize("n_attributes", [5, 8])
def test_attributes_are_distinct_and_never_empty(n_attributes: int) -> None:
    vectors = make_world(replace(SMALL, n_attributes=n_attributes)).classes.vectors
    assert vectors.shape == (17, n_attributes)
    assert set(np.unique(vectors)) == {0.0, 1.0}
    assert len({tuple(vector) for vector in vectors}) == 17
    assert vectors.any(axis=1).all()


def test_smallest_possible_number_of_attributes() -> None:
    vectors = make_world(World(n_seen=5, n_unseen=2, n_attributes=3)).classes.vectors
    assert len({tuple(vector) for vector in vectors}) == 7  # all non-empty combinations of three


def test_features_are_rectified() -> None:
    features = make_world(SMALL).features
    assert features.dtype == np.float32
    assert features.min() == 0
    assert 0.1 < (features == 0).mean() < 0.9


@pytest.mark.parametrize("knob", ["private", "noise"])
def test_a_larger_private_offset_is_harder(knob: str) -> None:
    worlds = [World(n_seen=40, n_unseen=10, n_features=32, n_attributes=12, images_per_class=20, seed=s) for s in range(4)]
    accuracy = [
        np.mean([linear_zero_shot_accuracy(make_world(replace(world, **{knob: amount}))) for world in worlds])
        for amount in (0.0, 2.0, 8.0)
    ]
    assert accuracy[0] > accuracy[1] + 0.05 > accuracy[2] + 0.1


def test_unseen_classes_are_recognised_without_private_offset() -> None:
    world = World(n_seen=40, n_unseen=10, n_features=32, n_attributes=12, images_per_class=20, private=0.0, noise=0.5)
    assert linear_zero_shot_accuracy(make_world(world)) > 0.5  # chance is 0.1


def test_more_classes_than_attribute_combinations_raise() -> None:
    def too_long(*_: object) -> None:
        raise TimeoutError("it goes on for ever")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(SightUnseenError, match="attributes"):
            make_world(World(n_seen=6, n_unseen=2, n_attributes=3))  # there are 7 non-empty combinations
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
