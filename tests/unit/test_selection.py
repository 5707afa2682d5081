"""Choosing honestly and the authors' way, whole runs and their records, and evaluation against plain loops."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sightunseen.data.worlds import World, make_world
from sightunseen.dataset import Fold, ZeroShotDataset
from sightunseen.errors import DataError, SettingsError, SightUnseenError
from sightunseen.evaluation import evaluate
from sightunseen.methods import ESZSL, Foresight, ZeroShotClassifier
from sightunseen.methods.cvc import CVC
from sightunseen.protocols import run_adaptation, run_training
from sightunseen.records import RunRecord
from sightunseen.selection import Fixed, OnTestData, OnValidationClasses
from sightunseen.training import Hook, Training, loop
from sightunseen.trials import Choice

SETTINGS: dict[str, Any] = {"hidden": 32, "initial_scale": 20.0, "n_tasks": 300, "learning_rate": 1e-2, "device": "cpu"}
GRID = {"learning_rate": [1e-8, 1e-2], "initial_scale": [10.0, 20.0]}
ADAPTATION = {"rounds": 2, "tasks_per_round": 20}


def scrambled(data: ZeroShotDataset) -> ZeroShotDataset:
    """The same training images; noise for test images, their labels shuffled."""
    rng = np.random.default_rng(0)
    features, labels = data.features.copy(), data.labels.copy()
    for rows in (data.test_seen_rows, data.test_unseen_rows):
        features[rows] = 100 * rng.standard_normal((len(rows), features.shape[1]))
        labels[rows] = rng.permutation(labels[rows])
    return replace(data, features=features, labels=labels)


def choose(model: ZeroShotClassifier, data: ZeroShotDataset, grid: Any = None, n_folds: int = 1, points: int = 10) -> Choice:
    """On validation classes."""
    return OnValidationClasses(n_folds, points).choose([model], data, grid)[0]


def without(data: ZeroShotDataset, *parts: str) -> ZeroShotDataset:
    return replace(data, **{f"{part}_rows": np.array([], dtype=np.intp) for part in parts})


def assert_same_weights(one: CVC, other: CVC) -> None:
    np.testing.assert_array_equal(one.classifiers_of("all"), other.classifiers_of("all"))
    assert one.score_.scale.item() == other.score_.scale.item()


# -- honest selection ---------------------------------------------------------------------------------------------------


def test_test_images_have_no_say_in_an_honest_choice(small_world: ZeroShotDataset) -> None:
    one, other = (
        choose(CVC(**SETTINGS), data, {"initial_scale": [5.0, 20.0]}, n_folds=2, points=3)
        for data in (small_world, scrambled(small_world))
    )
    assert one == other
    assert len(one.report["folds"]) == 2


def test_test_images_have_no_say_in_honest_training(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    one, other = (run_training(CVC(**SETTINGS), data, tmp_path, points=3) for data in (small_world, scrambled(small_world)))
    assert_same_weights(one, other)
    assert one.get_params() == other.get_params()
    assert one.record_.selection == other.record_.selection
    assert one.record_.results != other.record_.results


def test_test_images_have_no_say_in_an_honest_choice_of_adaptation(small_world: ZeroShotDataset) -> None:
    model = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    one, other = (
        OnValidationClasses().choose_adaptation(model, data, ADAPTATION, {"threshold": [1.1, 1.5]})
        for data in (small_world, scrambled(small_world))
    )
    assert one == other


def test_the_best_entry_of_the_grid_is_chosen(small_world: ZeroShotDataset) -> None:
    choice = choose(CVC(**SETTINGS), small_world, GRID, points=3)
    tried = choice.report["tried"]
    wanted = [{"learning_rate": r, "initial_scale": s} for r in GRID["learning_rate"] for s in GRID["initial_scale"]]
    assert sorted(map(str, (sorted(e["settings"].items()) for e in tried))) == sorted(str(sorted(w.items())) for w in wanted)
    best = (-1.0, None, None)
    for entry in tried:
        assert [point["tasks"] for point in entry["points"]] == [100, 200, 300]
        for point in entry["points"]:
            if point["H_at_best_penalty"] > best[0]:
                best = (point["H_at_best_penalty"], entry, point)
    _, entry, point = best
    assert (choice.settings, choice.seen_penalty) == (entry["settings"], point["best_penalty"])
    assert choice.stop_after == point["tasks"]
    assert choice.report["chosen"] == {**choice.settings, "tasks": choice.stop_after, "seen_penalty": choice.seen_penalty}
    assert choice.settings["learning_rate"] == 1e-2  # the other one hardly learns


@pytest.mark.parametrize("tasks", [100, 300])
def test_a_point_of_the_curve_is_what_training_to_it_gives(tasks: int, small_world: ZeroShotDataset) -> None:
    """T1 and H that selection reports, against a model trained to that point on the fold and evaluated there."""
    choice = choose(CVC(**SETTINGS, seen_penalty=0.3), small_world, points=3)
    (point,) = (p for p in choice.report["tried"][0]["points"] if p["tasks"] == tasks)
    (fold,) = small_world.validation_folds(1, seed=0)
    model = CVC(**SETTINGS, seen_penalty=0.3).fit(fold.train.X, fold.train.y, fold.classes, stop_after=tasks)
    plain = evaluate(model, fold)
    assert plain.summary() == {name: point[name] for name in ("T1", "U", "S", "H", "AUSUC")}
    at_best = evaluate(model.set_params(seen_penalty=point["best_penalty"]), fold)
    assert at_best.summary()["H"] == point["H_at_best_penalty"]
    for penalty in np.linspace(-20, 20, 81):
        assert evaluate(model.set_params(seen_penalty=penalty), fold).H <= at_best.H + 1e-9


def test_two_folds_are_averaged(small_world: ZeroShotDataset) -> None:
    both = choose(CVC(**SETTINGS), small_world, n_folds=2, points=1).report["tried"][0]["points"][-1]
    results = []
    for fold in small_world.validation_folds(2, seed=0):
        results.append(evaluate(CVC(**SETTINGS).fit(fold.train.X, fold.train.y, fold.classes), fold))
    for name in ("T1", "U", "S", "H", "AUSUC"):
        assert both[name] == pytest.approx((getattr(results[0], name) + getattr(results[1], name)) / 2, abs=0.005)


def test_the_final_model_is_trained_on_all_seen_classes_as_chosen(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, grid={"initial_scale": [10.0, 20.0]}, points=3)
    chosen = dict(model.record_.selection["chosen"])
    tasks = chosen.pop("tasks")
    again = CVC(**SETTINGS).set_params(**chosen)
    again.fit(small_world.train.X, small_world.train.y, small_world.classes, stop_after=tasks)
    assert_same_weights(model, again)
    assert model.get_params() == again.get_params()
    assert model.record_.protocol == "honest"
    assert model.record_.selection["by"] == "H on validation classes"


def test_the_adaptation_with_the_best_h_is_chosen(small_world: ZeroShotDataset) -> None:
    model = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    grid = {"learning_rate": [1e-9, 2e-3], "best_per_class": [2, 5]}
    choice = OnValidationClasses().choose_adaptation(model, small_world, ADAPTATION, grid)
    tried = choice.report["tried"]
    assert len(tried) == 4
    best = tried[0]
    for entry in tried[1:]:
        best = entry if entry["points"][0]["H_at_best_penalty"] > best["points"][0]["H_at_best_penalty"] else best
    (point,) = best["points"]
    assert (choice.settings, choice.seen_penalty) == (best["settings"], point["best_penalty"])
    (fold,) = small_world.validation_folds(1, seed=0)
    start = clone(model).fit(fold.train.X, fold.train.y, fold.classes)
    adapted = start.adapt(fold.test_unseen.X, fold.unseen, **ADAPTATION, **best["settings"])
    found = evaluate(adapted, fold).summary()
    assert found == {name: point[name] for name in found}
    adapted.set_params(seen_penalty=choice.seen_penalty)
    assert evaluate(adapted, fold).summary()["H"] == point["H_at_best_penalty"]


class Lengths(Hook):
    """Notes how many tasks each stage runs for."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self.lengths = lengths

    def on_end(self, training: Training) -> None:
        self.lengths[training.stage] = training.tasks_done


@pytest.mark.parametrize("saved", [False, True])
def test_adaptation_is_chosen_on_models_trained_as_long_as_the_one_adapted(
    saved: bool, small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = Choice({}, None, 100, {"by": "this test", "chosen": {"tasks": 100}})
    monkeypatch.setattr(OnValidationClasses, "choose", lambda *_, **__: [early])
    model = run_training(CVC(**SETTINGS), small_world, tmp_path)
    if saved:
        model.save(tmp_path / "model")
        model = CVC.load(tmp_path / "model")
    lengths: dict[str, int] = {}
    grid = {"threshold": [1.1]}
    OnValidationClasses().choose_adaptation(model, small_world, ADAPTATION, grid, hooks=[Lengths(lengths)])
    assert lengths == {"validation, fold 1 of 1": 100, "rehearsal 1 of 1, fold 1 of 1": 40}


def test_too_few_classes_to_hold_some_out_is_said(small_world: ZeroShotDataset) -> None:
    kept = np.isin(small_world.labels[small_world.train_rows], small_world.seen[:3])
    few = replace(small_world, train_rows=small_world.train_rows[kept])
    with pytest.raises(DataError, match="at least 4 seen classes"):
        choose(CVC(**SETTINGS), few)


def test_classes_of_a_single_image_cannot_be_chosen_on_and_it_says_so(small_world: ZeroShotDataset) -> None:
    """No image is left to hold out, so there is no S and no H on validation classes."""
    _, first = np.unique(small_world.labels[small_world.train_rows], return_index=True)
    single = replace(small_world, train_rows=small_world.train_rows[first])
    with pytest.raises(SightUnseenError, match="image"):
        choose(CVC(**SETTINGS), single)


# -- nothing chosen -----------------------------------------------------------------------------------------------------


def test_fixed_settings_are_taken_as_they_are(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    choice = Fixed().choose([CVC()], small_world)[0]
    assert (choice.settings, choice.seen_penalty, choice.stop_after) == ({}, None, None)
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, select=False)
    plain = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert_same_weights(model, plain)
    assert model.get_params() == plain.get_params()
    assert "those given" in model.record_.selection["by"]


@pytest.mark.parametrize("run", [run_training, run_adaptation])
def test_an_unknown_protocol_is_refused(run: Any, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="honest, paper; got 'dishonest'"):
        run(CVC(**SETTINGS), small_world, tmp_path, protocol="dishonest")


# -- the authors' way ---------------------------------------------------------------------------------------------------


def test_the_paper_protocol_keeps_the_best_h_on_test_and_says_so(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    settings = {**SETTINGS, "n_tasks": 600, "schedule": "constant"}
    model = run_training(CVC(**settings), small_world, tmp_path, protocol="paper", points=6)
    record = model.record_
    assert record.protocol == "paper"
    assert "TEST" in record.selection["by"]
    curve = record.selection["tried"]
    assert [point["tasks"] for point in curve] == [100, 200, 300, 400, 500, 600]
    best = max(point["H"] for point in curve)
    assert record.selection["chosen"]["H"] == record.results["H"] == best
    assert curve[-1]["H"] < best  # else keeping the last model, or the one of the best T1, would pass as well
    assert max(curve, key=lambda point: point["T1"])["H"] < best
    tasks = record.selection["chosen"]["tasks"]
    again = CVC(**settings).fit(small_world.train.X, small_world.train.y, small_world.classes, stop_after=tasks)
    assert_same_weights(model, again)


def test_adapting_by_the_paper_protocol_keeps_the_best_round_and_says_so(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, select=False)
    # Steps so long that H goes up and down; a seed with which it ends below its best.
    settings = {"rounds": 5, "tasks_per_round": 20, "learning_rate": 0.1, "seed": 1}
    adapted = run_adaptation(model, small_world, tmp_path, settings=settings, protocol="paper")
    record = adapted.record_
    assert (record.protocol, record.kind, len(record.history)) == ("paper", "adapt", 5)
    curve = record.selection["tried"]
    assert [point["tasks"] for point in curve] == [20, 40, 60, 80, 100]
    best = max(point["H"] for point in curve)
    assert record.results["H"] == record.selection["chosen"]["H"] == best
    assert curve[-1]["H"] < best
    assert max(curve, key=lambda point: point["T1"])["H"] < best
    assert record.results == evaluate(adapted, small_world).summary()
    assert record.parent["protocol"] == "honest"


def test_adapting_does_not_change_how_long_a_model_was_trained(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    """``n_tasks_`` is what a later choice of adaptation trains its fold models for."""
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, select=False)
    for protocol in ("honest", "paper"):
        adapted = run_adaptation(model, small_world, tmp_path / protocol, settings=ADAPTATION, protocol=protocol)
        assert adapted.n_tasks_ == model.n_tasks_ == 300, protocol


def test_a_model_once_chosen_on_test_data_stays_so_after_adapting(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, protocol="paper", points=2)
    adapted = run_adaptation(model, small_world, tmp_path, settings=ADAPTATION)
    assert adapted.record_.protocol == "paper"
    assert adapted.record_.parent["selection"] == model.record_.selection


def test_choosing_on_test_data_needs_seen_and_unseen_test_images(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SightUnseenError, match="test"):
        run_training(CVC(**SETTINGS), without(small_world, "test_seen"), tmp_path, protocol="paper", points=3)


# -- records ------------------------------------------------------------------------------------------------------------


def test_the_record_holds_what_evaluate_says(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, points=3)
    adapted = run_adaptation(model, small_world, tmp_path, settings=ADAPTATION)
    for made in (model, adapted):
        assert made.record_.results == evaluate(made, small_world).summary()
        assert made.record_.data["images"] == {
            "train": len(small_world.train_rows),
            "test_seen": len(small_world.test_seen_rows),
            "test_unseen": len(small_world.test_unseen_rows),
        }
        assert RunRecord.from_json(made.record_.to_json()).to_json() == made.record_.to_json()
    assert adapted.record_.settings["adaptation"]["rounds"] == 2
    assert [entry["round"] for entry in adapted.record_.history] == [1, 2]
    assert adapted.record_.parent["results"] == model.record_.results


def test_a_record_is_saved_with_its_model(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = run_training(CVC(**SETTINGS), small_world, tmp_path, select=False)
    model.save(tmp_path / "model")
    assert CVC.load(tmp_path / "model").record_.to_json() == model.record_.to_json()


def test_data_without_test_images_give_an_empty_result(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    data = without(small_world, "test_seen", "test_unseen")
    model = run_training(CVC(**SETTINGS), data, tmp_path, points=1)
    assert model.record_.results == {}
    np.testing.assert_array_equal(model.unseen_classes_, small_world.unseen)
    with pytest.raises(DataError, match="no test images"):
        evaluate(model, data)
    adapted = run_adaptation(model, data, tmp_path, unlabelled=small_world.test_unseen.X, settings=ADAPTATION)
    assert adapted.record_.results == {}
    assert "pool_accuracy" not in adapted.record_.history[0]


def test_adapting_without_unlabelled_images_says_what_to_give(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    data = without(small_world, "test_unseen")
    model = run_training(CVC(**SETTINGS), data, tmp_path, select=False)
    with pytest.raises(DataError, match="unlabelled"):
        run_adaptation(model, data, tmp_path, settings=ADAPTATION)


# -- evaluation ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> CVC:
    settings = {**SETTINGS, "n_tasks": 100, "seen_penalty": 1.3}
    return CVC(**settings).fit(small_world.train.X, small_world.train.y, small_world.classes)


def uneven(data: ZeroShotDataset) -> ZeroShotDataset:
    """Classes with different numbers of test images, so that a mean over images is not one over classes."""
    return replace(data, test_seen_rows=data.test_seen_rows[:-3], test_unseen_rows=data.test_unseen_rows[13:])


def literal_scores(model: CVC, X: np.ndarray, labels: list[str]) -> list[list[float]]:
    """Sigma cos(w, x), less the penalty for seen classes, one number at a time."""
    rows = model.classifiers_of(labels).astype(float)
    found = []
    for x in X.astype(float):
        cosines = [np.dot(w, x) / np.sqrt(np.dot(w, w) * np.dot(x, x)) for w in rows]
        penalties = [model.seen_penalty if label in model.seen_classes_ else 0.0 for label in labels]
        found.append([model.score_.scale.item() * c - p for c, p in zip(cosines, penalties, strict=True)])
    return found


def literal_accuracy(scores: list[list[float]], y: np.ndarray, labels: list[str], allowed: list[str]) -> dict[str, float]:
    right: dict[str, list[bool]] = {}
    for row, truth in zip(scores, y.tolist(), strict=True):
        best = max((k for k in range(len(labels)) if labels[k] in allowed), key=lambda k: row[k])
        right.setdefault(truth, []).append(labels[best] == truth)
    return {label: sum(each) / len(each) for label, each in right.items()}


def mean(values: dict[str, float]) -> float:
    return 100 * sum(values.values()) / len(values)


def test_evaluation_is_what_plain_loops_find(model: CVC, small_world: ZeroShotDataset) -> None:
    data = uneven(small_world)
    seen, unseen = data.seen.tolist(), data.unseen.tolist()
    labels = seen + unseen
    unseen_scores = literal_scores(model, data.test_unseen.X, labels)
    seen_scores = literal_scores(model, data.test_seen.X, labels)
    zsl = literal_accuracy(unseen_scores, data.test_unseen.y, labels, unseen)
    gzsl_unseen = literal_accuracy(unseen_scores, data.test_unseen.y, labels, labels)
    gzsl_seen = literal_accuracy(seen_scores, data.test_seen.y, labels, labels)
    found = evaluate(model, data)
    assert pytest.approx(mean(zsl), rel=1e-9) == found.T1
    assert pytest.approx(mean(gzsl_unseen), rel=1e-9) == found.U
    assert pytest.approx(mean(gzsl_seen), rel=1e-9) == found.S
    assert pytest.approx(2 * mean(gzsl_unseen) * mean(gzsl_seen) / (mean(gzsl_unseen) + mean(gzsl_seen)), rel=1e-9) == found.H
    assert found.by_class == {"zsl": zsl, "unseen": gzsl_unseen, "seen": gzsl_seen}
    assert found.summary() == {k: round(getattr(found, k), 2) for k in ("T1", "U", "S", "H", "AUSUC")}
    assert 0 < found.U < 100  # a test that every prediction passes, or none, would show little


def test_ausuc_is_the_area_that_a_sweep_of_the_bonus_finds(model: CVC, small_world: ZeroShotDataset) -> None:
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
        by_class = literal_accuracy(raised, y, labels, labels)
        points.append(tuple(mean({k: by_class[k] for k in side.tolist()}) for side in (data.unseen, data.seen)))
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points)) / 100
    assert pytest.approx(area, rel=1e-9) == evaluate(model, data).AUSUC


def test_what_the_data_cannot_tell_is_none(model: CVC, small_world: ZeroShotDataset) -> None:
    everything = evaluate(model, small_world)
    only_unseen, only_seen = (
        evaluate(model, without(small_world, "test_seen")),
        evaluate(model, without(small_world, "test_unseen")),
    )
    assert only_unseen.summary() == {**everything.summary(), "S": None, "H": None, "AUSUC": None}
    assert only_seen.summary() == {"T1": None, "U": None, "S": everything.summary()["S"], "H": None, "AUSUC": None}
    assert set(only_unseen.by_class) == {"zsl", "unseen"}
    assert set(only_seen.by_class) == {"seen"}


def test_a_fold_is_evaluated_like_a_data_set_of_its_own(small_world: ZeroShotDataset) -> None:
    fold: Fold = small_world.validation_folds(1)[0]
    model = CVC(**SETTINGS).fit(fold.train.X, fold.train.y, fold.classes)
    split = np.full(len(small_world.labels), "unused", dtype=object)
    for name in ("train", "test_seen", "test_unseen"):
        split[getattr(fold, name).rows] = name
    used = split != "unused"
    alone = ZeroShotDataset.from_arrays(small_world.features[used], small_world.labels[used], fold.classes, split[used])
    assert evaluate(model, fold).summary() == evaluate(model, alone).summary()


@pytest.mark.parametrize("n_folds", [1, 2])
def test_points_of_measurement_do_not_depend_on_what_is_trained_beside(
    n_folds: int, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "most_at_once", lambda _objective: 4)
    grid = {"n_tasks": [300, 250, 120]}  # shorter runs end within a chunk of the longer ones
    tried = choose(CVC(**SETTINGS), small_world, grid, n_folds, 3).report["tried"]
    assert [[point["tasks"] for point in entry["points"]] for entry in tried] == [[100, 200, 300], [100, 200, 250], [100, 120]]


# -- methods that are not trained step by step, and the oracle --------------------------------------------------------------


def test_a_closed_form_is_chosen_by_the_h_that_plain_loops_find(small_world: ZeroShotDataset) -> None:
    grid = {"feature_penalty": [1e-3, 1.0, 1e6], "semantic_penalty": [0.1, 10.0]}
    model = ESZSL(feature_scaling="standard")
    choice = choose(model, small_world, grid)
    fold = small_world.validation_folds(1, seed=0)[0]
    best = {}
    for feature_penalty in grid["feature_penalty"]:
        for semantic_penalty in grid["semantic_penalty"]:
            settings = {"feature_penalty": feature_penalty, "semantic_penalty": semantic_penalty}
            fitted = clone(model).set_params(**settings).fit(fold.train.X, fold.train.y, fold.classes)
            curve = evaluate(fitted, fold).curve
            h = max(2 * u * s / (u + s) if u + s else 0.0 for u, s in zip(curve.unseen, curve.seen, strict=True))
            best[feature_penalty, semantic_penalty] = round(100 * h, 2)
    chosen = choice.settings["feature_penalty"], choice.settings["semantic_penalty"]
    assert best[chosen] == max(best.values())
    assert choice.report["validation"]["H_at_best_penalty"] == best[chosen]
    assert choice.stop_after is None


def test_test_images_have_no_say_in_the_choice_for_a_closed_form(small_world: ZeroShotDataset) -> None:
    grid = {"feature_penalty": [0.1, 1.0, 10.0]}
    one, other = (choose(ESZSL(), data, grid, n_folds=2) for data in (small_world, scrambled(small_world)))
    assert one == other


def test_the_oracle_takes_the_best_h_on_test_and_says_so(small_world: ZeroShotDataset) -> None:
    grid = {"feature_penalty": [1e-3, 1.0, 1e6]}
    choice = OnTestData().choose([ESZSL()], small_world, grid)[0]
    results = {
        penalty: evaluate(
            ESZSL(feature_penalty=penalty).fit(small_world.train.X, small_world.train.y, small_world.classes), small_world
        ).summary()["H"]
        for penalty in grid["feature_penalty"]
    }
    assert results[choice.settings["feature_penalty"]] == max(results.values())
    assert "TEST" in choice.report["by"]
    assert choice.seen_penalty is None


def test_the_oracle_chooses_the_number_of_tasks_of_a_trained_method(small_world: ZeroShotDataset) -> None:
    choice = OnTestData(points=3).choose([CVC(**SETTINGS)], small_world)[0]
    points = choice.report["tried"][0]["points"]
    assert [point["tasks"] for point in points] == [100, 200, 300]
    assert choice.stop_after == max(points, key=lambda point: point["H"])["tasks"]


# -- folds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_seen", "n_unseen", "folds"), [(12, 4, 5), (60, 20, 4), (200, 66, 1)])
def test_a_quick_method_is_chosen_on_about_fifty_validation_classes_in_at_most_five_folds(
    n_seen: int, n_unseen: int, folds: int
) -> None:
    data = make_world(World(n_seen=n_seen, n_unseen=n_unseen, n_attributes=10, n_features=8, images_per_class=4))
    chosen = OnValidationClasses(None).choose([Foresight()], data)[0].report
    assert len(chosen["folds"]) == folds
    classes = sum(fold["validation_classes"] for fold in chosen["folds"])
    assert classes >= 50 or folds == 5


def test_other_methods_and_those_told_so_have_as_many_folds_as_they_are_told(small_world: ZeroShotDataset) -> None:
    told = [(ESZSL(), None, 1), (Foresight(), 2, 2), (ESZSL(), 2, 2)]
    for model, n_folds, expected in told:
        chosen = OnValidationClasses(n_folds).choose([model], small_world)[0].report
        assert len(chosen["folds"]) == expected
