"""Temperature scaling and open-set rejection, against grids, simulated labels, plain loops and scikit-learn."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from sightunseen import ZeroShotSearchCV
from sightunseen.analysis.answers import ask
from sightunseen.core import calibration
from sightunseen.core.calibration import (
    NONE,
    Calibration,
    Threshold,
    best_temperature,
    best_threshold,
    calibrate,
)
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import class_weights
from sightunseen.core.model_files import read_model, write_model
from sightunseen.methods import ALE, CVC, ESZSL, load_model
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.prediction import ranked
from sightunseen.selection.evaluation import evaluate

QUICK: dict[str, Any] = {"hidden": 16, "n_steps": 60, "learning_rate": 1e-2, "device": "cpu"}
SOME = Calibration(temperature=0.37, none_below=0.2, ECE=1.0, ECE_before=9.0, AUROC=70.0, none_accuracy=65.0, known_kept=80.0)


def drawn(images: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n, c) and labels (n,) drawn from their softmax, so that temperature 1 is exactly calibrated."""
    rng = np.random.default_rng(seed)
    scores = 2 * rng.standard_normal((images, classes))
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return scores, (chances.cumsum(axis=1) > rng.random((images, 1))).argmax(axis=1)


def loss(scores: np.ndarray, y: np.ndarray, temperature: float) -> float:
    """Mean over classes of the mean negative log likelihood of their images, in plain loops."""
    by_class: dict[int, list[float]] = {}
    for row, label in zip(scores.tolist(), y.tolist(), strict=True):
        total = sum(math.exp((score - max(row)) / temperature) for score in row)
        by_class.setdefault(label, []).append(math.log(total) - (row[label] - max(row)) / temperature)
    return sum(sum(found) / len(found) for found in by_class.values()) / len(by_class)


# -- temperature ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_no_temperature_of_a_grid_has_a_smaller_loss(scale: float) -> None:
    scores, y = drawn(80, 5)
    y[:30] = 0  # unbalanced classes and some wrong labels
    found = best_temperature(scale * scores, y, class_weights(y))
    grid = scale * np.geomspace(0.05, 50, 300)
    best = min(grid, key=lambda temperature: loss(scale * scores, y, temperature))
    assert found == pytest.approx(best, rel=0.03)
    assert loss(scale * scores, y, found) <= loss(scale * scores, y, best) + 1e-6


@pytest.mark.parametrize("factor", [1.0, 3.0, 0.1])
def test_temperature_recovers_the_factor_of_scaled_log_probabilities(factor: float) -> None:
    scores, y = drawn(20_000, 8)
    assert best_temperature(factor * scores, y, class_weights(y)) == pytest.approx(factor, rel=0.05)


def test_temperature_weights_all_classes_equally() -> None:
    scores, y = drawn(300, 4)
    rows = np.concatenate([np.arange(300), *[np.flatnonzero(y == 2)] * 5])
    once, often = (best_temperature(scores[r], y[r], class_weights(y[r])) for r in (np.arange(300), rows))
    assert often == pytest.approx(once, rel=2e-3)
    assert abs(best_temperature(scores[rows], y[rows], np.full(len(rows), 1 / len(rows))) - once) > 0.01


def test_temperature_is_finite_for_perfect_wrong_and_constant_scores() -> None:
    y = np.arange(4)
    assert 0 < best_temperature(np.eye(4), y, class_weights(y)) < 0.1
    assert np.isfinite(best_temperature(-np.eye(4), y, class_weights(y)))
    assert best_temperature(np.zeros((4, 4)), y, class_weights(y)) == 1.0


def test_calibration_reduces_the_error_of_an_overconfident_model() -> None:
    scores, y = drawn(2000, 6)
    found = calibrate(6 * scores, y, np.arange(6), np.array([4, 5]))
    assert found.temperature == pytest.approx(6, rel=0.1)
    assert found.ECE_before > 15
    assert found.ECE < 5


def test_calibration_subsamples_large_sets_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, y = drawn(90, 4)
    monkeypatch.setattr(calibration, "MOST_IMAGES", 30)
    labels, unseen = np.arange(4), np.array([2, 3])
    assert calibrate(scores, y, labels, unseen) == calibrate(scores[::3], y[::3], labels, unseen)


# -- open-set rejection --------------------------------------------------------------------------------------------------


def cases(scores: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> list[tuple[bool, float, float]]:
    """Per image and half: whether its class is a candidate, its best score and its weight, in plain loops."""
    found = []
    for left_out in (set(unseen[::2].tolist()), set(unseen[1::2].tolist())):
        for row, label in zip(scores.tolist(), y.tolist(), strict=True):
            best = max(score for column, score in enumerate(row) if column not in left_out)
            found.append((label not in left_out, best, 1 / float((y == label).sum())))
    return found


@pytest.mark.parametrize("unseen", [[3, 5], [1, 2, 4], [0, 1, 2, 3, 4, 5]], ids=["two", "three", "all"])
def test_threshold_and_auroc_match_plain_loops_and_scikit_learn(unseen: list[int]) -> None:
    scores, y = drawn(120, 6)
    scores[:10] = np.round(scores[:10])  # some ties
    chosen = best_threshold(scores, y, np.arange(6), np.array(unseen))
    threshold, area, accuracy = chosen.none_below, chosen.AUROC, chosen.none_accuracy
    found = cases(scores, y, np.array(unseen))
    known, best, weights = (np.array(column) for column in zip(*found, strict=True))
    pairs = over = 0.0
    for is_known, score, weight in found:
        for other_known, other, other_weight in found:
            if is_known and not other_known:
                pairs += weight * other_weight
                over += weight * other_weight * ((score > other) + 0.5 * (score == other))
    assert area == pytest.approx(100 * over / pairs)
    assert area == pytest.approx(100 * roc_auc_score(known, best, sample_weight=weights))

    def balanced(cut: float) -> float:
        return float(balanced_accuracy_score(known, best >= cut, sample_weight=weights))

    assert threshold is not None
    assert accuracy == pytest.approx(100 * balanced(threshold))

    def kept(cut: float) -> float:
        weighed = sum(weight for is_known, score, weight in found if is_known and score >= cut)
        return weighed / sum(weight for is_known, _, weight in found if is_known)

    assert chosen.known_kept == pytest.approx(100 * kept(threshold))
    assert accuracy == pytest.approx(100 * max(balanced(cut) for cut in np.unique(best) if kept(cut) >= 0.95))


def test_no_image_is_rejected_without_two_validation_classes() -> None:
    scores, y = drawn(50, 3)
    for labels, unseen in ((y, [2]), (y, []), (np.zeros(50, dtype=int), [1, 2])):
        assert best_threshold(scores, labels, np.arange(3), np.array(unseen, dtype=int)) == Threshold()
    never = replace(SOME, none_below=None)
    assert not never.is_none(scores).any()


def test_uninformative_scores_give_no_threshold() -> None:
    scores, y = drawn(60, 4)
    found = best_threshold(np.zeros_like(scores), y, np.arange(4), np.array([2, 3]))
    assert found == Threshold(AUROC=pytest.approx(50))


def test_calibration_works_with_two_classes_and_a_single_candidate() -> None:
    scores, y = drawn(40, 2)
    found = calibrate(scores, y, np.arange(2), np.array([0, 1]))
    assert found.AUROC is not None
    alone = np.array([[0.1], [0.2], [0.3]])
    assert SOME.is_none(alone).tolist() == [True, False, False]
    np.testing.assert_array_equal(calibration.probabilities(alone, 0.5), np.ones((3, 1)))


# -- models --------------------------------------------------------------------------------------------------------------


def fitted(data: ZeroShotDataset, given: Calibration | None = SOME, **settings: Any) -> ESZSL:
    model = ESZSL(**settings).fit(data.train.X, data.train.y, data.classes)
    model.calibration_ = given
    return model


@pytest.mark.parametrize("method", [ESZSL(), CVC(**QUICK)], ids=["closed form", "trained"])
def test_calibration_of_the_search_is_optimal_on_the_fold(small_world: ZeroShotDataset, method: Any) -> None:
    search = ZeroShotSearchCV(clone(method), {}, cv=1)
    model = search.fit(small_world.train.X, small_world.train.y, small_world.classes).best_estimator_
    found = model.calibration_
    (fold,) = ZeroShotDataset.from_arrays(small_world.train.X, small_world.train.y, small_world.classes).validation_folds(
        1, seed=0
    )
    stop = {"stop_after": model.n_steps_} if isinstance(model, CVC) else {}
    again = clone(method).set_params(seen_penalty=model.seen_penalty).fit(fold.train.X, fold.train.y, fold.classes, **stop)
    scored = evaluate(again, fold).scored
    columns = np.searchsorted(scored.candidates, scored.truth)
    scores = scored.sample.astype(float)  # of all images: there are few
    at_best = loss(scores, columns, found.temperature)
    for factor in (0.9, 0.97, 1.03, 1.1):
        assert loss(scores, columns, factor * found.temperature) > at_best
    again.calibration_ = found
    assert abs(evaluate(again, fold).ECE - found.ECE) < 0.1
    again.calibration_ = None
    assert abs(evaluate(again, fold).ECE - found.ECE_before) < 0.1
    np.testing.assert_array_equal(model.seen_classes_, small_world.seen)  # refitted on all images


def test_calibration_is_averaged_over_folds(small_world: ZeroShotDataset) -> None:
    data = small_world.train.X, small_world.train.y, small_world.classes
    model = ZeroShotSearchCV(ESZSL(), {}, cv=2).fit(*data).best_estimator_
    found = []
    for fold in ZeroShotDataset.from_arrays(*data).validation_folds(2, seed=0):
        scored = evaluate(ESZSL().fit(fold.train.X, fold.train.y, fold.classes), fold)
        seen = np.isin(scored.scored.candidates, fold.seen)
        scores = scored.scored.sample - np.float32(scored.curve.best_bonus()) * seen
        found.append(calibrate(scores, scored.scored.truth, scored.scored.candidates, fold.unseen))
    for name, value in asdict(model.calibration_).items():
        assert value == pytest.approx(np.mean([asdict(one)[name] for one in found]), rel=1e-4), name


def test_too_few_classes_to_calibrate_on_raise_an_error() -> None:
    table = ClassTable(["a", "b", "c"], np.eye(3))
    with pytest.raises(DataError, match="at least 4 seen classes"):
        ZeroShotSearchCV(ESZSL()).fit(np.eye(6), list("aabbcc"), table)


def test_calibration_changes_confidence_and_never_predictions(small_world: ZeroShotDataset) -> None:
    plain, X = fitted(small_world, None), small_world.test_unseen.X
    model = fitted(small_world)
    for candidates in ("all", "unseen", small_world.unseen[:1]):
        np.testing.assert_array_equal(plain.predict(X, candidates), model.predict(X, candidates))
        scores = model.decision_function(X, candidates)
        np.testing.assert_array_equal(scores, plain.decision_function(X, candidates))
        expected = np.exp(scores.astype(float) / 0.37)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X, candidates), expected, rtol=1e-4)
    assert np.abs(plain.predict_proba(X) - model.predict_proba(X)).max() > 0.01


def test_refitting_drops_the_calibration_and_adding_or_removing_classes_keeps_it(small_world: ZeroShotDataset) -> None:
    model = fitted(small_world)
    assert model.add_classes({"new": small_world.classes.vectors[0]}).calibration_ == SOME
    assert model.remove_classes(["new"]).calibration_ == SOME
    assert clone(model).calibration_ is None
    assert model.fit(small_world.train.X, small_world.train.y, small_world.classes).calibration_ is None


@pytest.mark.parametrize("method", [ALE(n_steps=50), CVC(**QUICK)], ids=["ALE", "CVC"])
def test_an_adapted_model_has_no_calibration_of_its_parent(small_world: ZeroShotDataset, method: Any) -> None:
    model = clone(method).fit(small_world.train.X, small_world.train.y, small_world.classes)
    model.calibration_ = SOME
    assert model.adapt(small_world.test_unseen.X).calibration_ is None
    assert model.calibration_ == SOME


def test_calibration_is_saved_with_the_model_and_optional_in_older_folders(
    small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    model = fitted(small_world)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.calibration_ == SOME
    np.testing.assert_array_equal(again.predict_proba(small_world.test_seen.X), model.predict_proba(small_world.test_seen.X))
    files = read_model(tmp_path / "model")
    older = {name: value for name, value in files.content.items() if name != "calibration"}
    write_model(tmp_path / "older", replace(files, content=older))
    assert load_model(tmp_path / "older").calibration_ is None


def test_seen_penalty_does_not_change_rejection_among_seen_classes_alone(small_world: ZeroShotDataset) -> None:
    X, seen = small_world.test_seen.X, small_world.seen
    plain = fitted(small_world)
    expected = plain.is_none(plain.decision_function(X, seen), seen)
    assert 0 < expected.sum() < len(X)
    for penalty in (5.0, -5.0):
        model = fitted(small_world, seen_penalty=penalty)
        np.testing.assert_array_equal(model.is_none(model.decision_function(X, seen), seen), expected)
        both = np.append(seen, small_world.unseen[0])
        scores = model.decision_function(X, both)
        np.testing.assert_array_equal(model.is_none(scores, both), scores.max(axis=1) < 0.2)
    assert not fitted(small_world, None).is_none(scores, both).any()


def test_no_class_can_be_called_none_of_these(small_world: ZeroShotDataset) -> None:
    model = fitted(small_world)
    with pytest.raises(DataError, match="no class can be called 'none of these'"):
        model.add_classes({NONE: small_world.classes.vectors[0]})
    assert NONE not in model.table_
    with pytest.raises(DataError, match="Rename the class"):
        ESZSL().fit(np.eye(2), ["a", NONE], ClassTable(["a", NONE], np.eye(2)))


# -- pipeline ------------------------------------------------------------------------------------------------------------


def test_training_calibrates_the_model_and_records_it(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(TrainingSpecification(method=ESZSL, search={}), small_world, tmp_path)
    assert model.calibration_ is not None
    assert model.record_.selection["calibration"] == asdict(model.calibration_)
    json.dumps(model.record_.selection, allow_nan=False)
    assert train(TrainingSpecification(method=ESZSL, select="none"), small_world, tmp_path).calibration_ is None


def test_adaptation_is_calibrated_by_its_rehearsal(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(TrainingSpecification(method=CVC, parameters=QUICK, search={}), small_world, tmp_path)
    settings = {"rounds": 1, "steps_per_round": 10}
    adapted = adapt(AdaptationSpecification(parameters=settings, search={}), model, small_world, tmp_path)
    assert adapted.calibration_ == Calibration(**adapted.record_.selection["calibration"])
    assert adapted.calibration_ != model.calibration_
    plain = adapt(AdaptationSpecification(parameters=settings, select="none"), model, small_world, tmp_path)
    assert plain.calibration_ is None


# -- consistency of interfaces -------------------------------------------------------------------------------------------


def test_all_interfaces_give_the_same_probabilities(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from sightunseen.export.onnx_files import export_onnx

    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    model = fitted(small_world, seen_penalty=0.1)
    median = float(np.median(model.decision_function(X).max(axis=1)))
    model.calibration_ = replace(SOME, none_below=median)
    labels, expected = model.classes_, model.predict_proba(X)

    np.testing.assert_array_equal(ask(model, X).confidence, expected.max(axis=1))
    is_none = model.is_none(model.decision_function(X), labels)
    assert is_none.mean() == pytest.approx(0.5, abs=0.05)
    (batch,) = ranked(model, [(X, np.arange(len(X)).astype(str))], top=1)
    np.testing.assert_array_equal(batch["class"] == NONE, is_none)
    np.testing.assert_array_equal(batch["confidence"], np.where(is_none, 1 - expected.max(axis=1), expected.max(axis=1)))

    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    given = {
        "features": X.astype(np.float32),
        "class_vectors": model.table_.vectors_of(labels).astype(np.float32),
        "seen_indices": model.seen_indices(labels),
    }
    scores, found = session.run(["scores", "probabilities"], given)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    metadata = session.get_modelmeta().custom_metadata_map
    assert (json.loads(metadata["temperature"]), json.loads(metadata["none_below"])) == (0.37, median)
    far = np.abs(scores.max(axis=1) - median) > 1e-5  # rounding decides for the image with the median score
    np.testing.assert_array_equal((scores.max(axis=1) < median)[far], is_none[far])
