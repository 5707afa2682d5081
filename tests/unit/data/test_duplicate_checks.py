"""Near-duplicates of test images: planted ones are found, similar images and few features are not mistaken for them."""

from dataclasses import replace

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.rows import Rows
from sightunseen.data.doctor import PASS, WARN, Finding, duplicate_checks, examine
from sightunseen.data.doctor.duplicate_checks import OF_SPREAD, check_near_duplicates
from sightunseen.data.synthetic_features import World, make_world


@pytest.fixture(scope="module")
def photos() -> ZeroShotDataset:
    """Features of as many dimensions as those of photos."""
    data = make_world(
        World(n_seen=12, n_unseen=4, n_attributes=10, n_features=128, images_per_class=20, private=0.3, noise=1.0)
    )
    return replace(data, image_names=np.array([f"photo {row}.jpg" for row in range(len(data.labels))]))


def spread(data: ZeroShotDataset) -> float:
    """Root mean square distance of an image from the mean."""
    return float(np.sqrt(np.square(data.features - data.features.mean(axis=0)).sum(axis=1).mean()))


def planted(data: ZeroShotDataset, test: list[int], originals: list[int], distance: float) -> ZeroShotDataset:
    """Make test images near-copies of other images, at a distance in units of the spread."""
    features = np.array(data.features, dtype=np.float64)
    noise = np.random.default_rng(0).normal(size=(len(test), features.shape[1]))
    noise *= distance * spread(data) / np.linalg.norm(noise, axis=1, keepdims=True)
    features[test] = features[originals] + noise
    return replace(data, features=features.astype(np.float32))


def found(data: ZeroShotDataset) -> Finding:
    (finding,) = check_near_duplicates(data)
    return finding


def test_similar_images_of_a_class_are_not_near_duplicates(photos: ZeroShotDataset) -> None:
    assert found(photos).level == PASS
    assert "no test image" in found(photos).what


@pytest.mark.parametrize("n_features", [2, 8, 16, 24])
def test_images_with_few_features_are_not_near_duplicates_by_chance(n_features: int) -> None:
    data = make_world(World(n_seen=12, n_unseen=4, n_attributes=10, n_features=n_features, images_per_class=40))
    assert found(data).level == PASS


@pytest.mark.parametrize("distance", [0.02, 0.1, 0.2])
def test_near_copies_of_training_images_are_found(photos: ZeroShotDataset, distance: float) -> None:
    test, originals = photos.test_unseen_rows[[0, 7, 9]].tolist(), photos.train_rows[[3, 30, 40]].tolist()
    finding = found(planted(photos, test, originals, distance))
    assert finding.level == WARN
    assert "nearly the same as a training image: 3 (" in finding.what
    for row, original in zip(test, originals, strict=True):
        assert f"photo {row}.jpg / photo {original}.jpg" in finding.what
    assert "3 with two labels" in finding.what  # of an unseen and of a seen class
    assert "pairs of" not in finding.what


def test_the_radius_is_a_quarter_of_the_spread(photos: ZeroShotDataset) -> None:
    test, originals = photos.test_unseen_rows[:1].tolist(), photos.train_rows[:1].tolist()
    levels = [found(planted(photos, test, originals, factor * OF_SPREAD)).level for factor in (0.9, 1.1)]
    assert levels == [WARN, PASS]


def test_a_test_image_that_is_in_the_test_set_twice_is_counted_once(photos: ZeroShotDataset) -> None:
    one, other = photos.test_unseen_rows[:2].tolist()
    for distance in (0.0, 0.1):  # an exact copy, too
        finding = found(planted(photos, [one], [other], distance))
        assert finding.level == WARN
        assert f"pairs of nearly the same test images: 1 (photo {one}.jpg / photo {other}.jpg)" in finding.what
        assert "training image" not in finding.what


def test_most_test_images_may_be_near_copies(photos: ZeroShotDataset) -> None:
    """Near-copies do not hide each other: photos that were augmented before they were split."""
    test = photos.test_unseen_rows.tolist()
    finding = found(planted(photos, test, photos.train_rows[: len(test)].tolist(), 0.05))
    assert f"nearly the same as a training image: {len(test)} (" in finding.what


def test_exact_copies_of_training_images_are_left_to_identical_images(photos: ZeroShotDataset) -> None:
    data = planted(photos, photos.test_unseen_rows[:1].tolist(), photos.train_rows[:1].tolist(), 0.0)
    findings = {finding.check: finding.level for finding in examine(data)}
    assert findings["identical-images"] == WARN
    assert findings["near-duplicates"] == PASS


class _InFiles(Rows):
    """Rows as they are read from files."""

    def __init__(self, features: np.ndarray) -> None:
        super().__init__(features.shape, features.dtype)
        self.features = features

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.features[start:stop]


def test_blocks_and_files_give_the_same_finding(photos: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(photos, photos.test_unseen_rows[:3].tolist(), photos.train_rows[5:8].tolist(), 0.1)
    whole = found(data)
    assert found(replace(data, features=_InFiles(data.features))) == whole
    monkeypatch.setattr(duplicate_checks, "VALUES", 1000)  # a few images per block
    assert found(data) == whole


def test_large_data_are_compared_in_part_or_not_at_all(photos: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_checks, "MOST_PAIRS", 10 * len(photos.labels))
    assert "Compared: 10 of 128 test images." in found(photos).what
    monkeypatch.setattr(duplicate_checks, "MOST_IMAGES", 100)
    assert "not compared" in found(photos).what


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1e15])
def test_features_that_cannot_be_compared_pass(photos: ZeroShotDataset, value: float) -> None:
    features = np.full_like(photos.features, value)
    assert found(replace(photos, features=features)).level == PASS
    features = np.array(photos.features)
    features[5] = value  # a single image
    assert found(replace(photos, features=features)).level == PASS


def test_data_without_test_images_pass(photos: ZeroShotDataset) -> None:
    none = np.array([], dtype=np.intp)
    assert found(replace(photos, test_seen_rows=none, test_unseen_rows=none)).level == PASS
    assert found(replace(photos, train_rows=photos.train_rows[:3], test_seen_rows=none)).level == PASS
