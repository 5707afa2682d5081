"""Models of several seeds: the same as run one by one, with mean and standard deviation beside them."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import SettingsError
from sightunseen.evaluation import evaluate
from sightunseen.methods import CVC, Foresight
from sightunseen.protocols import run_adaptation, run_training
from sightunseen.records import RunRecord
from sightunseen.selection import OnValidationClasses

SETTINGS: dict[str, Any] = {"hidden": 16, "n_tasks": 200, "learning_rate": 1e-2, "device": "cpu"}


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)  # one after the other, and side by side
@pytest.mark.parametrize("options", [{}, {"select": False}, {"protocol": "paper"}, {"n_folds": 2, "grid": {"hidden": [8, 16]}}])
def test_seeds_together_come_out_as_each_alone(
    options: dict[str, Any], threads: int, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    together = run_training(CVC(**SETTINGS, seed=5), small_world, tmp_path / "all", points=3, n_seeds=3, **options).record_
    assert together is not None
    assert together.seeds["seeds"] == [5, 6, 7]
    torch.set_num_threads(1)
    for seed, results, chosen in zip((5, 6, 7), together.seeds["results"], together.seeds["chosen"], strict=True):
        alone = run_training(CVC(**SETTINGS, seed=seed), small_world, tmp_path / f"{seed}", points=3, **options).record_
        assert alone is not None
        # Several threads take sums in another order, which may move an image over a border.
        assert alone.results == (results if threads == 1 else pytest.approx(results, abs=1.0))
        found = alone.selection.get("chosen", {})
        assert found == (chosen if threads == 1 else pytest.approx(chosen, rel=1e-2, abs=1.0))
        assert alone.seeds == {}
    assert together.results == together.seeds["results"][0]


def test_seeds_of_a_method_that_draws_nothing_are_those_of_what_it_is_chosen_on(
    small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"grid": {"shrinkage": [0.1, 0.9], "noise": [0.1, 1.0]}}
    together = run_training(Foresight(), small_world, tmp_path, n_seeds=3, seed=4, **options).record_
    assert together is not None
    assert (together.seed, together.seeds["seeds"]) == (4, [4, 5, 6])
    penalties = [chosen["seen_penalty"] for chosen in together.seeds["chosen"]]
    assert len(set(penalties)) == 3  # each chose for itself, on folds of its own
    for seed, results, chosen in zip((4, 5, 6), together.seeds["results"], together.seeds["chosen"], strict=True):
        folds = OnValidationClasses(None, seed=seed)
        by_itself = folds.choose([Foresight()], small_world, options["grid"])[0]
        assert by_itself.report["chosen"] == chosen
        model = Foresight(**chosen).fit(small_world.train.X, small_world.train.y, small_world.classes)
        assert evaluate(model, small_world).summary() == results


def test_an_adaptation_is_rehearsed_on_the_folds_that_its_model_was_chosen_on(
    small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    penalties = set()
    for seed in (0, 3):
        model = run_training(Foresight(), small_world, tmp_path, seed=seed)
        model.save(tmp_path / "model")
        found = run_adaptation(Foresight.load(tmp_path / "model"), small_world, tmp_path).record_
        by_itself = OnValidationClasses(None, seed=seed).choose_adaptation(model, small_world, {})
        assert found is not None
        assert (found.seed, found.selection["chosen"]) == (seed, by_itself.report["chosen"])
        penalties.add(found.selection["chosen"]["seen_penalty"])
    assert len(penalties) == 2


def test_seeds_that_would_change_nothing_are_refused(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Foresight draws nothing at random"):
        run_training(Foresight(), small_world, tmp_path, select=False, n_seeds=2)


def test_mean_and_deviation_are_those_of_a_sample(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    record = run_training(CVC(**SETTINGS), small_world, tmp_path, select=False, n_seeds=4).record_
    assert record is not None
    for name in ("T1", "U", "S", "H", "AUSUC"):
        values = [results[name] for results in record.seeds["results"]]
        assert len(set(values)) > 1
        assert record.seeds["mean"][name] == pytest.approx(statistics.mean(values), abs=0.006)
        assert record.seeds["std"][name] == pytest.approx(statistics.stdev(values), abs=0.006)
    assert RunRecord.from_json(record.to_json()).seeds == record.seeds


def test_the_model_that_is_returned_is_that_of_the_first_seed(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = CVC(**SETTINGS, seed=2)
    returned = run_training(model, small_world, tmp_path, select=False, n_seeds=2)
    assert returned is model
    assert (model.seed, model.record_.seed) == (2, 2)  # type: ignore[union-attr]
    assert model.record_.engine == "cpu, float32"  # type: ignore[union-attr]


@pytest.mark.parametrize("n_seeds", [0, -1, 1.5])
def test_a_number_of_seeds_that_is_none_is_refused(n_seeds: Any, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="n_seeds"):
        run_training(CVC(**SETTINGS), small_world, tmp_path, n_seeds=n_seeds)
