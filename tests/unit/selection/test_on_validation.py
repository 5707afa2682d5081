"""Selection on validation classes, against plain loops."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SightUnseenError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CVC, ESZSL, Foresight, ZeroShotClassifier
from sightunseen.pipeline import TrainingSpecification, train
from sightunseen.selection.choice import Choice
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.left_out import choose_left_out
from sightunseen.selection.on_validation import choose_adaptation_on_validation, choose_on_validation
from sightunseen.training import Hook, Training, engines

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"hidden": 32, "initial_scale": 20.0, "n_steps": 300, "learning_rate": 1e-2, "device": "cpu"}
GRID = {"learning_rate": [1e-8, 1e-2], "initial_scale": [10.0, 20.0]}
ADAPTATION = {"rounds": 2, "steps_per_round": 20}


def scrambled(data: ZeroShotDataset) -> ZeroShotDataset:
    """The same training images; test images replaced by noise, their labels shuffled."""
    rng = np.random.default_rng(0)
    features, labels = data.features.copy(), data.labels.copy()
    for rows in (data.test_seen_rows, data.test_unseen_rows):
        features[rows] = 100 * rng.standard_normal((len(rows), features.shape[1]))
        labels[rows] = rng.permutation(labels[rows])
    return replace(data, features=features, labels=labels)


def choose(model: ZeroShotClassifier, data: ZeroShotDataset, grid: Any = None, n_folds: int | None = 1) -> Choice:
    return choose_on_validation([model], data, grid or {}, n_folds)[0]


def assert_same_weights(one: CVC, other: CVC) -> None:
    np.testing.assert_array_equal(one.classifiers_of("all"), other.classifiers_of("all"))
    assert one.score_.scale.item() == other.score_.scale.item()


def specified(parameters: dict[str, Any], **how: Any) -> TrainingSpecification:
    """CVC with these hyperparameters and, by default, an empty search space."""
    return TrainingSpecification(method=CVC, parameters=parameters, **{"search": {}, **how})


# -- gradient training --------------------------------------------------------------------------------------------------


def test_selection_ignores_test_images(small_world: ZeroShotDataset) -> None:
    one, other = (
        choose(CVC(**SETTINGS), data, {"initial_scale": [5.0, 20.0]}, n_folds=2)
        for data in (small_world, scrambled(small_world))
    )
    assert one == other
    assert len(one.report["folds"]) == 2


def test_training_ignores_test_images(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    one, other = (train(specified(SETTINGS), data, tmp_path) for data in (small_world, scrambled(small_world)))
    assert_same_weights(one, other)
    assert one.get_params() == other.get_params()
    assert one.record_.selection == other.record_.selection
    assert one.record_.results != other.record_.results


def test_selection_of_adaptation_ignores_test_images(small_world: ZeroShotDataset) -> None:
    model = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    one, other = (
        choose_adaptation_on_validation(model, data, ADAPTATION, {"threshold": [1.1, 1.5]})
        for data in (small_world, scrambled(small_world))
    )
    assert one == other


def test_best_combination_of_the_grid_is_chosen(small_world: ZeroShotDataset) -> None:
    choice = choose(CVC(**SETTINGS), small_world, GRID)
    tried = choice.report["tried"]
    wanted = [{"learning_rate": r, "initial_scale": s} for r in GRID["learning_rate"] for s in GRID["initial_scale"]]
    assert sorted(map(str, (sorted(e["settings"].items()) for e in tried))) == sorted(str(sorted(w.items())) for w in wanted)
    best = (-1.0, None, None)
    for entry in tried:
        assert [point["steps"] for point in entry["points"]] == list(range(30, 301, 30))
        for point in entry["points"]:
            if point["H_at_best_penalty"] > best[0]:
                best = (point["H_at_best_penalty"], entry, point)
    _, entry, point = best
    assert (choice.settings, choice.seen_penalty) == (entry["settings"], point["best_penalty"])
    assert choice.stop_after == point["steps"]
    assert choice.report["chosen"] == {**choice.settings, "steps": choice.stop_after, "seen_penalty": choice.seen_penalty}
    assert choice.settings["learning_rate"] == 1e-2  # 1e-8 learns almost nothing


@pytest.mark.parametrize("steps", [90, 300])
def test_points_of_the_curve_match_training_up_to_them(steps: int, small_world: ZeroShotDataset) -> None:
    """Compare reported measurements with a model trained on the fold up to the same point."""
    choice = choose(CVC(**SETTINGS, seen_penalty=0.3), small_world)
    (point,) = (p for p in choice.report["tried"][0]["points"] if p["steps"] == steps)
    (fold,) = small_world.validation_folds(1, seed=0)
    model = CVC(**SETTINGS, seen_penalty=0.3).fit(fold.train.X, fold.train.y, fold.classes, stop_after=steps)
    plain = evaluate(model, fold)
    assert plain.summary() == {name: point[name] for name in ("T1", "U", "S", "H", "AUSUC")}
    at_best = evaluate(model.set_params(seen_penalty=point["best_penalty"]), fold)
    assert at_best.summary()["H"] == point["H_at_best_penalty"]
    for penalty in np.linspace(-20, 20, 81):
        assert evaluate(model.set_params(seen_penalty=penalty), fold).H <= at_best.H + 1e-9


def test_measurements_are_averaged_over_folds(small_world: ZeroShotDataset) -> None:
    both = choose(CVC(**SETTINGS), small_world, n_folds=2).report["tried"][0]["points"][-1]
    results = []
    for fold in small_world.validation_folds(2, seed=0):
        results.append(evaluate(CVC(**SETTINGS).fit(fold.train.X, fold.train.y, fold.classes), fold))
    for name in ("T1", "U", "S", "H", "AUSUC"):
        assert both[name] == pytest.approx((getattr(results[0], name) + getattr(results[1], name)) / 2, abs=0.005)


def test_final_model_is_trained_on_all_seen_classes_as_chosen(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(SETTINGS, search={"initial_scale": [10.0, 20.0]}), small_world, tmp_path)
    chosen = dict(model.record_.selection["chosen"])
    steps = chosen.pop("steps")
    again = CVC(**SETTINGS).set_params(**chosen)
    again.fit(small_world.train.X, small_world.train.y, small_world.classes, stop_after=steps)
    assert_same_weights(model, again)
    assert model.get_params() == again.get_params()
    assert model.record_.protocol == "honest"
    assert model.record_.selection["by"] == "H on validation classes"


def test_adaptation_with_the_best_h_is_chosen(small_world: ZeroShotDataset) -> None:
    model = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    grid = {"learning_rate": [1e-9, 2e-3], "best_per_class": [2, 5]}
    choice = choose_adaptation_on_validation(model, small_world, ADAPTATION, grid)
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
    """Record the number of steps of each stage."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self.lengths = lengths

    def on_end(self, training: Training) -> None:
        self.lengths[training.stage] = training.steps_done


@pytest.mark.parametrize("saved", [False, True])
def test_rehearsal_models_are_trained_for_as_many_steps_as_the_model(
    saved: bool, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    early = Choice({}, None, 100, {"by": "this test", "chosen": {"steps": 100}})
    model = train(specified(SETTINGS), small_world, tmp_path, chosen=early)
    if saved:
        model.save(tmp_path / "model")
        model = CVC.load(tmp_path / "model")
    lengths: dict[str, int] = {}
    grid = {"threshold": [1.1]}
    choose_adaptation_on_validation(model, small_world, ADAPTATION, grid, hooks=[Lengths(lengths)])
    assert lengths == {"validation, fold 1 of 1": 100, "rehearsal 1 of 1, fold 1 of 1": 40}


def test_too_few_classes_for_a_fold_raise_an_error(small_world: ZeroShotDataset) -> None:
    kept = np.isin(small_world.labels[small_world.train_rows], small_world.seen[:3])
    few = replace(small_world, train_rows=small_world.train_rows[kept])
    with pytest.raises(DataError, match="at least 4 seen classes"):
        choose(CVC(**SETTINGS), few)


def test_classes_of_a_single_image_raise_an_error(small_world: ZeroShotDataset) -> None:
    """No image can be held out, so S and H on validation classes are undefined."""
    _, first = np.unique(small_world.labels[small_world.train_rows], return_index=True)
    single = replace(small_world, train_rows=small_world.train_rows[first])
    with pytest.raises(SightUnseenError, match="image"):
        choose(CVC(**SETTINGS), single)


@pytest.mark.parametrize("n_folds", [1, 2])
def test_stopping_points_do_not_depend_on_other_runs(
    n_folds: int, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "most_at_once", lambda _objective: 4)
    grid = {"n_steps": [300, 250, 120]}  # shorter runs end within a chunk of longer ones
    tried = choose(CVC(**SETTINGS), small_world, grid, n_folds).report["tried"]
    for n_steps, entry in zip(grid["n_steps"], tried, strict=True):
        assert [point["steps"] for point in entry["points"]] == list(range(n_steps // 10, n_steps + 1, n_steps // 10))


# -- closed forms --------------------------------------------------------------


def test_selection_of_a_closed_form_matches_plain_loops(small_world: ZeroShotDataset) -> None:
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


def test_selection_of_a_closed_form_ignores_test_images(small_world: ZeroShotDataset) -> None:
    grid = {"feature_penalty": [0.1, 1.0, 10.0]}
    one, other = (choose(ESZSL(), data, grid, n_folds=2) for data in (small_world, scrambled(small_world)))
    assert one == other


# -- folds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_seen", "n_unseen", "folds"), [(12, 4, 5), (60, 20, 4), (200, 66, 1)])
def test_closed_form_uses_fifty_validation_classes_in_at_most_five_folds(n_seen: int, n_unseen: int, folds: int) -> None:
    data = make_world(World(n_seen=n_seen, n_unseen=n_unseen, n_attributes=10, n_features=8, images_per_class=4))
    chosen = choose(ESZSL(), data, n_folds=None).report
    assert len(chosen["folds"]) == folds
    classes = sum(fold["validation_classes"] for fold in chosen["folds"])
    assert classes >= 50 or folds == 5


def test_methods_that_leave_classes_out_use_many_folds_of_their_own_seed(small_world: ZeroShotDataset) -> None:
    grid = {"noise": [0.1, 1.0]}
    found = choose_on_validation([Foresight(), Foresight()], small_world, grid, 4, seed=3)
    assert found == [choose_left_out(Foresight(), small_world, grid, 4, seed) for seed in (3, 4)]


def test_default_and_given_numbers_of_folds(small_world: ZeroShotDataset) -> None:
    cases = [(CVC(**SETTINGS), None, 1), (ESZSL(), None, 5), (Foresight(), None, 40), (Foresight(), 2, 2), (ESZSL(), 2, 2)]
    for model, n_folds, expected in cases:
        chosen = choose(model, small_world, n_folds=n_folds).report
        assert len(chosen["folds"]) == expected
