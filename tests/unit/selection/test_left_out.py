"""Selection on many class folds in closed form: folds, criterion, held-out images and calibration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightunseen.core import dataset
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import Split, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.rows import Rows
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import Foresight
from sightunseen.selection import left_out
from sightunseen.selection.choice import CRITERIA
from sightunseen.selection.left_out import choose_left_out

GRID = {"noise": [0.1, 1.0], "feature_scaling": ["root", "centred"]}


def with_sizes(data: ZeroShotDataset, sizes: Sequence[int]) -> ZeroShotDataset:
    """The data with this number of training images of each seen class; images are repeated with noise if needed."""
    rng = np.random.default_rng(0)
    X, y, split = [data.features], [data.labels], [np.full(len(data.labels), "test_seen", dtype="<U11")]
    split[0][data.test_unseen_rows] = "test_unseen"
    for label, size in zip(data.seen, sizes, strict=True):
        own = data.train.X[data.train.y == label]
        rows = rng.integers(len(own), size=size)
        X.append(own[rows] + 0.1 * rng.standard_normal((size, own.shape[1])).astype(np.float32))
        y.append(np.full(size, label))
        split.append(np.full(size, "train"))
    return ZeroShotDataset.from_arrays(np.concatenate(X), np.concatenate(y), data.classes, np.concatenate(split))


# -- what is chosen ----------------------------------------------------------------------------------------------------


def test_best_sum_of_t1_and_h_is_chosen(small_world: ZeroShotDataset) -> None:
    choice = choose_left_out(Foresight(), small_world, GRID, n_folds=6)
    tried = choice.report["tried"]
    assert len(tried) == 4
    sums = [entry["points"][0]["T1"] + entry["points"][0]["H_at_best_penalty"] for entry in tried]
    assert [CRITERIA["T1 + H"](entry["points"][0]) for entry in tried] == sums
    best = tried[sums.index(max(sums))]
    (point,) = best["points"]
    assert choice.settings == best["settings"]
    assert choice.seen_penalty == point["best_penalty"]
    assert choice.report["chosen"] == {**best["settings"], "seen_penalty": point["best_penalty"]}
    assert choice.report["validation"] == {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC", "T1_of_folds")}
    assert len(point["H_of_folds"]) == len(choice.report["folds"]) == 6
    assert np.mean(point["H_of_folds"]) == pytest.approx(point["H_at_best_penalty"])
    assert choice.calibration is not None
    assert vars(choice.calibration) == choice.report["calibration"]


def test_measurements_are_those_of_scores_without_the_left_out_classes(small_world: ZeroShotDataset) -> None:
    """Accuracies of a fold by loops over images and penalties."""
    choice = choose_left_out(Foresight(), small_world, {}, n_folds=1)
    (point,) = choice.report["tried"][0]["points"]
    held_classes = small_world.drawn_classes(0)
    train, held = small_world.held_out_images(small_world.seen, left_out.derive_seed(0, "left-out images", 0))
    images = Foresight().training_images(train.X, train.y, [{}], {})
    classes = small_world.classes.only(small_world.seen)
    ((_, _, scores),) = Foresight().left_out_scores(images, classes, held.X, [held_classes], [{}])
    unseen = np.isin(small_world.seen, held_classes)

    def accuracy(labels: Any, penalty: float, allowed: Any) -> float:
        by_class = []
        for label in labels:
            rows = scores[held.y == label] - penalty * ~unseen
            rows[:, ~allowed] = -np.inf
            by_class.append(np.mean(small_world.seen[rows.argmax(axis=1)] == label))
        return float(np.mean(by_class))

    everything = np.ones_like(unseen)
    assert point["T1"] == pytest.approx(100 * accuracy(held_classes, 0.0, unseen))

    def harmonic(penalty: float) -> float:
        u, s = accuracy(held_classes, penalty, everything), accuracy(small_world.seen[~unseen], penalty, everything)
        return 200 * u * s / (u + s) if u + s else 0.0

    assert harmonic(point["best_penalty"]) == pytest.approx(point["H_at_best_penalty"], abs=1e-6)
    spread = np.ptp(scores)
    assert max(map(harmonic, np.linspace(-spread, spread, 300))) <= point["H_at_best_penalty"] + 1e-6


@pytest.mark.parametrize("kind", ["wide", "linear"])
def test_the_right_kernel_is_chosen(kind: str) -> None:
    """Class means are a linear function of the class vectors, or one of their absolute values."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 4))
    means = (vectors if kind == "linear" else np.abs(vectors)) @ rng.normal(size=(4, 12))
    y = np.repeat(np.arange(48), 10)
    X = means[y] + 0.3 * rng.normal(size=(len(y), 12))
    data = ZeroShotDataset.from_arrays(X.astype(np.float32), y, ClassTable(range(60), vectors))
    fixed = Foresight(feature_scaling="standard", semantic_norm=None, noise=0.01)
    assert choose_left_out(fixed, data, {"generator": ["linear", "wide"]}).settings == {"generator": kind}


def test_values_that_classify_at_random_are_not_chosen(small_world: ZeroShotDataset) -> None:
    assert choose_left_out(Foresight(), small_world, {"noise": [1e6, 0.3]}).settings == {"noise": 0.3}


def test_empty_grid_chooses_penalty_and_calibration_only(small_world: ZeroShotDataset) -> None:
    choice = choose_left_out(Foresight(), small_world, {}, n_folds=2)
    assert choice.settings == {}
    assert set(choice.parameters) == {"seen_penalty"}
    assert choice.stop_after is None
    assert choice.calibration is not None
    assert choice.calibration.temperature > 0


# -- folds and images --------------------------------------------------------------------------------------------------


def test_choice_depends_on_the_seed_alone(small_world: ZeroShotDataset) -> None:
    one, again, other = (choose_left_out(Foresight(), small_world, GRID, n_folds=5, seed=seed) for seed in (3, 3, 4))
    assert one == again
    assert one.report["tried"] != other.report["tried"]


def test_test_rows_and_vectors_of_unseen_classes_are_not_used(small_world: ZeroShotDataset) -> None:
    features = small_world.features.copy()
    features[np.concatenate([small_world.test_seen_rows, small_world.test_unseen_rows])] = np.nan
    rng = np.random.default_rng(0)
    vectors = small_world.classes.vectors_of(small_world.classes.labels).copy()
    rows = np.isin(small_world.classes.labels, small_world.unseen)
    vectors[rows] = rng.normal(size=vectors[rows].shape)
    changed = replace(small_world, features=features, classes=ClassTable(small_world.classes.labels, vectors))
    one, other = (choose_left_out(Foresight(), data, GRID, n_folds=4) for data in (small_world, changed))
    assert one == other


@pytest.mark.parametrize(("n_seen", "n_unseen", "left", "folds"), [(12, 4, 3, 40), (36, 12, 9, 23), (60, 20, 15, 16)])
def test_default_folds_leave_out_two_hundred_classes(n_seen: int, n_unseen: int, left: int, folds: int) -> None:
    """At least 16 folds, at most 40."""
    data = make_world(World(n_seen=n_seen, n_unseen=n_unseen, n_attributes=10, n_features=8, images_per_class=4))
    report = choose_left_out(Foresight(feature_scaling="centred"), data, {}).report
    assert report["folds"] == [{"training_classes": n_seen - left, "validation_classes": left}] * folds


def test_more_folds_keep_the_first_ones(small_world: ZeroShotDataset) -> None:
    few, many = (choose_left_out(Foresight(), small_world, {}, n_folds=n).report["tried"][0]["points"][0] for n in (3, 7))
    assert few["H_of_folds"] == many["H_of_folds"][:3]


def test_classes_of_a_single_image_raise_an_error(small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="every class has a single image"):
        choose_left_out(Foresight(), with_sizes(small_world, [1] * 12), {})


def test_too_few_classes_raise_an_error(small_world: ZeroShotDataset) -> None:
    kept = np.isin(small_world.labels[small_world.train_rows], small_world.seen[:3])
    with pytest.raises(DataError, match="at least 4 seen classes"):
        choose_left_out(Foresight(), replace(small_world, train_rows=small_world.train_rows[kept]), {})


@pytest.mark.parametrize(
    "sizes", [[1] * 8 + [20] * 4, [1, 1, 1, 2] * 3, [3] * 6 + [300] * 6], ids=["single images", "pairs", "factor 100"]
)
def test_unequal_classes(sizes: list[int], small_world: ZeroShotDataset) -> None:
    choice = choose_left_out(Foresight(), with_sizes(small_world, sizes), GRID)
    for entry in choice.report["tried"]:
        numbers = [value for name, value in entry["points"][0].items() if not name.endswith("_of_folds")]
        assert np.isfinite(numbers).all()
        assert len(entry["points"][0]["H_of_folds"]) == len(choice.report["folds"]) <= 40
    assert choice.calibration is not None
    assert choice.report["validation"]["T1"] > 25


def test_folds_without_held_out_images_on_one_side_are_skipped(small_world: ZeroShotDataset) -> None:
    """Two classes have several images: a fold is used if it leaves out exactly one of them."""
    data = with_sizes(small_world, [20, 20] + [1] * 10)
    usable = sum(np.isin(small_world.seen[:2], data.drawn_classes(k)).sum() == 1 for k in range(40))
    assert len(choose_left_out(Foresight(), data, {}).report["folds"]) == usable < 40


def test_calibration_uses_the_first_folds_with_images(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_sizes(small_world, [20, 20] + [1] * 10)

    def usable(k: int, seed: int) -> bool:
        return bool(np.isin(small_world.seen[:2], data.drawn_classes(k, seed)).sum() == 1)

    seed = next(seed for seed in range(100) if not usable(0, seed) and not usable(1, seed))
    monkeypatch.setattr(left_out, "CALIBRATED_FOLDS", 2)
    assert choose_left_out(Foresight(), data, {}, seed=seed).calibration is not None


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_images_are_capped_per_class(most: int) -> None:
    labels = np.array(list("bacabbbabcbbaz"))
    rows = np.array([13, 1, 0, 2, 4, 5, 12, 6, 8, 10, 11])
    capped = left_out._capped(Split(np.arange(14)[:, None], labels, rows), most)
    expected = [row for k, row in enumerate(rows) if (labels[rows[:k]] == labels[row]).sum() < most]
    assert capped.rows.tolist() == expected


def test_number_of_scored_images_is_limited(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = []

    class Counting(Foresight):
        def left_out_scores(self, images: Any, classes: Any, X_test: Any, *others: Any) -> Any:
            scored.append((int(images.moments["root"].counts.sum()), len(X_test)))
            return super().left_out_scores(images, classes, X_test, *others)

    data = with_sizes(small_world, [100] * 12)
    for most, expected in ((2000, 12 * 20), (120, 12 * 10), (12, 12 * 5)):
        monkeypatch.setattr(left_out, "MOST_IMAGES", most)
        scored.clear()
        choose_left_out(Counting(), data, {}, n_folds=2)
        assert {images for _, images in scored} == {expected}
        assert {train for train, _ in scored} == {12 * 100 - expected}  # images that are scored are not trained on


def test_many_seen_classes_are_sampled(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out, "MOST_CLASSES", 8)
    shared: dict[str, Any] = {}
    choice = choose_left_out(Foresight(), small_world, GRID, n_folds=3, shared=shared)
    assert {sum(sizes.values()) for sizes in choice.report["folds"]} == {8}
    assert len(shared["moments"]["root"].labels) == len(small_world.seen)  # the covariance is that of all classes


def test_images_on_disk_give_the_same_choice(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    first_rows: list[int] = []

    class OnDisk(Rows):
        def read(self, start: int, stop: int) -> Any:
            first_rows.append(start)
            return small_world.features[start:stop]

    monkeypatch.setattr(dataset, "LOADED_PART", 0)
    on_disk = replace(small_world, features=OnDisk(small_world.features.shape))
    one, other = (choose_left_out(Foresight(), data, GRID, n_folds=4) for data in (small_world, on_disk))
    assert one.report == other.report
    assert len(first_rows) == 2  # first rows for the origin, then moments and held-out images together
