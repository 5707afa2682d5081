"""Selection on test data (oracle): the best H, labelled as such in the report."""

from pathlib import Path
from typing import Any

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import CVC, ESZSL
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.on_test import fit_best_on_test

SETTINGS: dict[str, Any] = {"hidden": 32, "initial_scale": 20.0, "n_steps": 300, "learning_rate": 1e-2, "device": "cpu"}


def test_oracle_chooses_the_best_h_on_test_and_labels_it(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    grid = {"feature_penalty": [1e-3, 1.0, 1e6]}
    ((model, choice),) = fit_best_on_test([ESZSL()], small_world, grid, tmp_path, ["training"])
    results = {
        penalty: evaluate(
            ESZSL(feature_penalty=penalty).fit(small_world.train.X, small_world.train.y, small_world.classes), small_world
        ).summary()["H"]
        for penalty in grid["feature_penalty"]
    }
    assert results[choice.settings["feature_penalty"]] == max(results.values())
    assert evaluate(model, small_world).summary()["H"] == max(results.values())
    assert "TEST" in choice.report["by"]
    assert choice.seen_penalty is None


def test_oracle_chooses_the_number_of_steps(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    ((_, choice),) = fit_best_on_test([CVC(**SETTINGS)], small_world, {}, tmp_path, ["training"])
    points = choice.report["tried"][0]["points"]
    assert [point["steps"] for point in points] == list(range(30, 301, 30))
    assert choice.stop_after == max(points, key=lambda point: point["H"])["steps"]


def test_oracle_returns_the_best_combination_at_its_best_point(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    grid = {"learning_rate": [1e-8, 1e-2]}
    ((model, choice),) = fit_best_on_test([CVC(**SETTINGS)], small_world, grid, tmp_path, ["training"])
    points = [point for entry in choice.report["tried"] for point in entry["points"]]
    assert evaluate(model, small_world).summary()["H"] == max(point["H"] for point in points)
    assert choice.settings == {"learning_rate": 1e-2}  # 1e-8 learns almost nothing
    assert (model.learning_rate, model.n_steps_) == (1e-2, choice.stop_after)
