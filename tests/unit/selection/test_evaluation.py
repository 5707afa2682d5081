"""Evaluation, against plain loops."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.intervals import Counts, bootstrap, interval
from sightunseen.core.metrics import MAIN, harmonic_mean
from sightunseen.methods import CVC, ESZSL
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.search_cv import ZeroShotSearchCV

SETTINGS: dict[str, Any] = {"hidden": 32, "initial_scale": 20.0, "n_steps": 300, "learning_rate": 1e-2, "device": "cpu"}


def without(data: ZeroShotDataset, *parts: str) -> ZeroShotDataset:
    return replace(data, **{f"{part}_rows": np.array([], dtype=np.intp) for part in parts})


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> CVC:
    settings = {**SETTINGS, "n_steps": 100, "seen_penalty": 1.3}
    return CVC(**settings).fit(small_world.train.X, small_world.train.y, small_world.classes)


def uneven(data: ZeroShotDataset) -> ZeroShotDataset:
    """Unbalanced test classes, so that a mean over images differs from a mean over classes."""
    return replace(data, test_seen_rows=data.test_seen_rows[:-3], test_unseen_rows=data.test_unseen_rows[13:])


def loop_scores(model: CVC, X: np.ndarray, labels: list[str]) -> list[list[float]]:
    """sigma cos(w, x) minus the seen penalty of seen classes, one number at a time."""
    rows = model.classifiers_of(labels).astype(float)
    found = []
    for x in X.astype(float):
        cosines = [np.dot(w, x) / np.sqrt(np.dot(w, w) * np.dot(x, x)) for w in rows]
        penalties = [model.seen_penalty if label in model.seen_classes_ else 0.0 for label in labels]
        found.append([model.score_.scale.item() * c - p for c, p in zip(cosines, penalties, strict=True)])
    return found


def loop_accuracy(scores: list[list[float]], y: np.ndarray, labels: list[str], allowed: list[str]) -> dict[str, float]:
    right: dict[str, list[bool]] = {}
    for row, truth in zip(scores, y.tolist(), strict=True):
        best = max((k for k in range(len(labels)) if labels[k] in allowed), key=lambda k: row[k])
        right.setdefault(truth, []).append(labels[best] == truth)
    return {label: sum(each) / len(each) for label, each in right.items()}


def mean(values: dict[str, float]) -> float:
    return 100 * sum(values.values()) / len(values)


def test_evaluation_matches_plain_loops(model: CVC, small_world: ZeroShotDataset) -> None:
    data = uneven(small_world)
    seen, unseen = data.seen.tolist(), data.unseen.tolist()
    labels = seen + unseen
    unseen_scores = loop_scores(model, data.test_unseen.X, labels)
    seen_scores = loop_scores(model, data.test_seen.X, labels)
    zsl = loop_accuracy(unseen_scores, data.test_unseen.y, labels, unseen)
    gzsl_unseen = loop_accuracy(unseen_scores, data.test_unseen.y, labels, labels)
    gzsl_seen = loop_accuracy(seen_scores, data.test_seen.y, labels, labels)
    found = evaluate(model, data)
    assert pytest.approx(mean(zsl), rel=1e-9) == found.T1
    assert pytest.approx(mean(gzsl_unseen), rel=1e-9) == found.U
    assert pytest.approx(mean(gzsl_seen), rel=1e-9) == found.S
    assert pytest.approx(2 * mean(gzsl_unseen) * mean(gzsl_seen) / (mean(gzsl_unseen) + mean(gzsl_seen)), rel=1e-9) == found.H
    assert found.by_class == {"zsl": zsl, "unseen": gzsl_unseen, "seen": gzsl_seen}
    assert found.summary() == {k: round(getattr(found, k), 2) for k in ("T1", "U", "S", "H", "AUSUC")}
    assert 0 < found.U < 100  # neither all nor no predictions are correct


def test_ausuc_matches_a_sweep_of_the_bonus(model: CVC, small_world: ZeroShotDataset) -> None:
    data = uneven(small_world)
    labels = data.seen.tolist() + data.unseen.tolist()
    n_seen = len(data.seen)
    X, y = np.concatenate([data.test_unseen.X, data.test_seen.X]), np.concatenate([data.test_unseen.y, data.test_seen.y])
    scores = model.decision_function(X, labels).astype(float)
    margins = sorted({max(row[:n_seen]) - max(row[n_seen:]) for row in scores.tolist()})
    between = [margins[0] - 1, *((a + b) / 2 for a, b in pairwise(margins)), margins[-1] + 1]
    points = []
    for bonus in between:
        raised = [row[:n_seen] + [value + bonus for value in row[n_seen:]] for row in scores.tolist()]
        by_class = loop_accuracy(raised, y, labels, labels)
        points.append(tuple(mean({k: by_class[k] for k in side.tolist()}) for side in (data.unseen, data.seen)))
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points)) / 100
    assert pytest.approx(area, rel=1e-9) == evaluate(model, data).AUSUC


def test_numbers_without_test_images_are_none(model: CVC, small_world: ZeroShotDataset) -> None:
    everything = evaluate(model, small_world)
    only_unseen, only_seen = (
        evaluate(model, without(small_world, "test_seen")),
        evaluate(model, without(small_world, "test_unseen")),
    )
    assert only_unseen.summary() == {**everything.summary(), "S": None, "H": None, "AUSUC": None}
    assert only_seen.summary() == {"T1": None, "U": None, "S": everything.summary()["S"], "H": None, "AUSUC": None}
    assert set(only_unseen.by_class) == {"zsl", "unseen"}
    assert set(only_seen.by_class) == {"seen"}


def test_fold_is_evaluated_like_a_data_set(small_world: ZeroShotDataset) -> None:
    fold: Fold = small_world.validation_folds(1)[0]
    model = CVC(**SETTINGS).fit(fold.train.X, fold.train.y, fold.classes)
    split = np.full(len(small_world.labels), "unused", dtype=object)
    for name in ("train", "test_seen", "test_unseen"):
        split[getattr(fold, name).rows] = name
    used = split != "unused"
    alone = ZeroShotDataset.from_arrays(small_world.features[used], small_world.labels[used], fold.classes, split[used])
    assert evaluate(model, fold).summary() == evaluate(model, alone).summary()


def test_intervals_are_those_of_the_predictions(model: CVC, small_world: ZeroShotDataset) -> None:
    data = uneven(small_world)
    found = evaluate(model, data)
    predicted = {
        "T1": (data.test_unseen.y, model.predict(data.test_unseen.X, data.unseen)),
        "U": (data.test_unseen.y, model.predict(data.test_unseen.X)),
        "S": (data.test_seen.y, model.predict(data.test_seen.X)),
    }
    for name, labels in predicted.items():
        counts = Counts.of(*labels)
        np.testing.assert_array_equal(found.counts[name].right, counts.right)
        np.testing.assert_array_equal(found.counts[name].images, counts.images)
        expected = interval(counts, bootstrap(counts, seed=7))
        assert found.intervals[name] == pytest.approx(expected, abs=4)  # other draws
        assert found.intervals[name][0] <= getattr(found, name) <= found.intervals[name][1]
    assert found.H is not None
    assert found.intervals["H"][0] < found.H < found.intervals["H"][1]


def test_plain_intervals_are_those_without_seen_penalty(model: CVC, small_world: ZeroShotDataset) -> None:
    plain = CVC(**{**SETTINGS, "n_steps": 100}).fit(small_world.train.X, small_world.train.y, small_world.classes)
    found, expected = evaluate(model, small_world), evaluate(plain, small_world)
    for name in ("U", "S"):
        np.testing.assert_array_equal(found.counts[f"{name}_plain"].right, expected.counts[name].right)
        assert found.counts[name].n_right != found.counts[f"{name}_plain"].n_right
    assert found.results()["H_plain"] == expected.summary()["H"]


def test_h_has_the_width_of_both_sides_if_all_images_of_one_are_right(small_world: ZeroShotDataset) -> None:
    data = replace(small_world, test_seen_rows=small_world.train_rows)
    model = ESZSL(seen_penalty=-1e6).fit(data.train.X, data.train.y, data.classes)  # no unseen class is predicted
    found = evaluate(model, data)
    low, high = found.intervals["U"]
    assert (low, found.U) == (0.0, 0.0)
    assert high > 0
    assert found.intervals["H"] == [0.0, pytest.approx(harmonic_mean(high, found.intervals["S"][1]), abs=0.01)]


def test_features_and_labels_are_evaluated_like_a_data_set(model: CVC, small_world: ZeroShotDataset) -> None:
    data = uneven(small_world)
    X, y = np.concatenate([data.test_seen.X, data.test_unseen.X]), np.concatenate([data.test_seen.y, data.test_unseen.y])
    mixed = np.random.default_rng(0).permutation(len(y))
    found, expected = evaluate(model, X[mixed], y[mixed]), evaluate(model, data)
    assert found.summary() == expected.summary()
    assert found.by_class == expected.by_class
    assert found.intervals == expected.intervals
    unseen, seen = evaluate(model, data.test_unseen.X, data.test_unseen.y), evaluate(model, data.test_seen.X, data.test_seen.y)
    assert unseen.summary() == {**dict.fromkeys(MAIN), "T1": expected.summary()["T1"], "U": expected.summary()["U"]}
    assert seen.summary() == {**dict.fromkeys(MAIN), "S": expected.summary()["S"]}


def test_all_unseen_classes_of_the_model_are_candidates_for_features_and_labels(
    model: CVC, small_world: ZeroShotDataset
) -> None:
    own = small_world.test_unseen.y == small_world.unseen[0]
    found = evaluate(model, small_world.test_unseen.X[own], small_world.test_unseen.y[own])
    assert 100 * np.mean(model.predict(small_world.test_unseen.X[own], "unseen") == small_world.unseen[0]) == found.T1
    np.testing.assert_array_equal(found.unseen_classes, small_world.unseen)


@pytest.mark.parametrize("library", ["pandas", "polars", "list"])
def test_labels_and_features_can_be_frames_and_lists(library: str, small_world: ZeroShotDataset) -> None:
    test, train = small_world.test_unseen, small_world.train
    if library == "list":
        X: Any = test.X.tolist()
        y: Any = test.y.tolist()
        fitted_to: Any = train.X
    else:
        frames = pytest.importorskip(library)
        names = [f"f{k}" for k in range(test.X.shape[1])]
        X, fitted_to = (frames.DataFrame({n: part[:, k] for k, n in enumerate(names)}) for part in (test.X, train.X))
        y = frames.Series(test.y.tolist())
    model, of_arrays = (ESZSL().fit(images, train.y, small_world.classes) for images in (fitted_to, train.X))
    assert evaluate(model, X, y).T1 == evaluate(of_arrays, small_world).T1


def test_pipelines_and_searches_are_evaluated(small_world: ZeroShotDataset) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    images = small_world.train.X, small_world.train.y
    pipeline = make_pipeline(StandardScaler(), ESZSL()).fit(*images, eszsl__classes=small_world.classes)
    scaled = pipeline[:-1].transform(small_world.test_unseen.X)
    expected = evaluate(pipeline[-1], scaled, small_world.test_unseen.y)
    assert evaluate(pipeline, small_world.test_unseen.X, small_world.test_unseen.y).summary() == expected.summary()
    search = ZeroShotSearchCV(ESZSL(), {}, cv=1).fit(*images, small_world.classes)
    assert evaluate(search, small_world).summary() == evaluate(search.best_estimator_, small_world).summary()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("X",), r"labels of the images are missing: got ndarray and no y\. Give evaluate\(model, X, y\)"),
        (("data", "y"), "a data set has labels of its own; got further labels y"),
        (("X", "short"), r"one label per image; got shapes \(80, 24\) and \(3,\)"),
        (("flat", "y"), r"got shapes \(24,\) and \(80,\)"),
        (("X", "unknown"), r"1 of the labels are not classes of the model \(first: 'yeti'\)"),
        (("X", "numbers"), r"1 of the labels are not classes of the model \(first: 0\)"),
        (("X", "missing"), "label in row 2 of y is missing"),
        (("empty", "none"), "got shapes"),
    ],
)
def test_wrong_use_raises_an_error(given: tuple[str, ...], message: str, model: CVC, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    inputs: dict[str, Any] = {
        "X": X,
        "y": y,
        "data": small_world,
        "flat": X[0],
        "short": y[:3],
        "unknown": np.append(y[:-1], "yeti"),
        "numbers": np.zeros(len(y), dtype=int),
        "missing": np.array([y[0], None, *y[2:]], dtype=object),
        "empty": X[:0],
        "none": y[:0],
    }
    with pytest.raises(DataError, match=message):
        evaluate(model, *(inputs[name] for name in given))


def test_only_zero_shot_models_are_evaluated(small_world: ZeroShotDataset) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(SettingsError, match="only a zero-shot model can be evaluated; got KNeighborsClassifier"):
        evaluate(KNeighborsClassifier(), small_world)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        evaluate(ESZSL(), small_world)
