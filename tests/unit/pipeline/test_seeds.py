"""Several seeds: the same results as one by one, with mean and standard deviation."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.core.records import RunRecord
from sightunseen.methods import CVC, Foresight
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.on_validation import choose_adaptation_on_validation, choose_on_validation

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"hidden": 16, "n_steps": 200, "learning_rate": 1e-2, "device": "cpu"}


def specified(**how: Any) -> TrainingSpecification:
    return TrainingSpecification(method=CVC, parameters=SETTINGS, **{"search": {}, **how})


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)  # sequentially and in parallel
@pytest.mark.parametrize(
    "options", [{}, {"select": "none"}, {"protocol": "paper"}, {"folds": 2, "search": {"initial_scale": [8.0, 16.0]}}]
)
def test_several_seeds_match_single_runs(
    options: dict[str, Any], threads: int, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    together = train(specified(seed=5, n_seeds=3, **options), small_world, tmp_path / "all").record_
    assert together is not None
    assert together.seeds["seeds"] == [5, 6, 7]
    torch.set_num_threads(1)
    for seed, results, chosen in zip((5, 6, 7), together.seeds["results"], together.seeds["chosen"], strict=True):
        alone = train(specified(seed=seed, **options), small_world, tmp_path / f"{seed}").record_
        assert alone is not None
        assert alone.results == results  # whatever the number of threads
        assert alone.selection.get("chosen", {}) == pytest.approx(chosen, rel=1e-5)
        assert alone.seeds == {}
    assert together.results == together.seeds["results"][0]


def test_seeds_of_a_deterministic_method_are_those_of_its_folds(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    grid = {"shrinkage": [0.1, 0.9], "noise": [0.1, 1.0]}
    specification = TrainingSpecification(method=Foresight, search=grid, seed=4, n_seeds=3)
    together = train(specification, small_world, tmp_path).record_
    assert together is not None
    assert (together.seed, together.seeds["seeds"]) == (4, [4, 5, 6])
    penalties = [chosen["seen_penalty"] for chosen in together.seeds["chosen"]]
    assert len(set(penalties)) == 3  # each seed has its own selection on its own folds
    for seed, results, chosen in zip((4, 5, 6), together.seeds["results"], together.seeds["chosen"], strict=True):
        (alone_choice,) = choose_on_validation([Foresight()], small_world, grid, seed=seed)
        assert alone_choice.report["chosen"] == chosen
        model = Foresight(**chosen).fit(small_world.train.X, small_world.train.y, small_world.classes)
        assert evaluate(model, small_world).results() == results


def test_adaptation_is_rehearsed_on_the_folds_of_the_model(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    penalties = set()
    for seed in (0, 3):
        model = train(TrainingSpecification(method=Foresight, search={}, seed=seed), small_world, tmp_path)
        model.save(tmp_path / "model")
        found = adapt(AdaptationSpecification(search={}), Foresight.load(tmp_path / "model"), small_world, tmp_path).record_
        alone_choice = choose_adaptation_on_validation(model, small_world, {}, {}, seed=seed)
        assert found is not None
        assert (found.seed, found.selection["chosen"]) == (seed, alone_choice.report["chosen"])
        penalties.add(found.selection["chosen"]["seen_penalty"])
    assert len(penalties) == 2


def test_seeds_without_effect_raise_an_error() -> None:
    with pytest.raises(SettingsError, match="Foresight draws nothing at random"):
        TrainingSpecification(method=Foresight, select="none", n_seeds=2)


def test_mean_and_sample_standard_deviation(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    record = train(specified(select="none", n_seeds=4), small_world, tmp_path).record_
    assert record is not None
    for name in ("T1", "U", "S", "H", "AUSUC"):
        values = [results[name] for results in record.seeds["results"]]
        assert len(set(values)) > 1
        assert record.seeds["mean"][name] == pytest.approx(statistics.mean(values), abs=0.006)
        assert record.seeds["std"][name] == pytest.approx(statistics.stdev(values), abs=0.006)
    assert RunRecord.from_json(record.to_json()).seeds == record.seeds


def test_model_of_the_first_seed_is_returned(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(select="none", seed=2, n_seeds=2), small_world, tmp_path)
    assert (model.seed, model.record_.seed) == (2, 2)  # type: ignore[union-attr]
    assert model.record_.engine == "cpu, float32"  # type: ignore[union-attr]


@pytest.mark.parametrize("n_seeds", [0, -1, 1.5])
def test_invalid_number_of_seeds_raises_an_error(n_seeds: Any) -> None:
    with pytest.raises(SettingsError, match="n_seeds"):
        specified(n_seeds=n_seeds)
