"""Evaluation, against plain loops."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.methods import CVC
from sightunseen.selection.evaluation import evaluate

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
