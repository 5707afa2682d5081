"""Training with a method that is chosen automatically."""

import json
from pathlib import Path
from typing import Any

import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ESZSL, GFZSL, METHODS, load_model
from sightunseen.methods.catalogue import CARDS
from sightunseen.pipeline import AutomaticSpecification, TrainingSpecification, train


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose between ESZSL and GFZSL, with small search spaces."""
    monkeypatch.setattr(ESZSL, "search_space", {"feature_penalty": [0.1, 1.0]})
    monkeypatch.setattr(GFZSL, "search_space", {"mean_penalty": [0.1, 0.3]})
    monkeypatch.setattr(
        AutomaticSpecification,
        "candidates",
        lambda self: {name: self.using(name).estimators()[0] for name in ("ESZSL", "GFZSL")},
    )


def test_candidates_are_the_quick_inductive_methods() -> None:
    candidates = AutomaticSpecification(seed=7).candidates()
    assert set(candidates) == {name for name, card in CARDS.items() if card.quick}
    assert "Foresight" in candidates
    assert {type(model) for model in candidates.values()} == {METHODS[CARDS[name].estimator] for name in candidates}
    assert {model.get_params().get("seed", 7) for model in candidates.values()} == {7}


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("n_seeds", [1, 2])
def test_model_is_that_of_the_chosen_method(small_world: ZeroShotDataset, tmp_path: Path, n_seeds: int) -> None:
    model = train(AutomaticSpecification(seed=4, n_seeds=n_seeds, folds=2), small_world, tmp_path)
    alone = train(TrainingSpecification(method=type(model), seed=4, n_seeds=n_seeds, folds=2), small_world, tmp_path)
    assert model.record_ is not None
    assert alone.record_ is not None
    assert model.get_params() == alone.get_params()
    assert model.calibration_ == alone.calibration_
    assert (model.record_.results, model.record_.seeds) == (alone.record_.results, alone.record_.seeds)
    comparison = model.record_.selection["methods"]
    assert {**alone.record_.selection, "methods": comparison} == model.record_.selection
    assert {row["method"] for row in comparison["compared"]} == {"GFZSL", "ESZSL"}
    assert comparison["chosen"] == comparison["compared"][0]["method"] == model.record_.method == type(model).__name__
    json.dumps(comparison, allow_nan=False)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.record_ is not None
    assert loaded.record_.selection["methods"] == comparison


@pytest.mark.usefixtures("two")
def test_the_better_method_is_fitted(small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GFZSL, "search_space", {"mean_penalty": [1e9]})  # all classes have the same mean
    assert type(train(AutomaticSpecification(), small_world, tmp_path)) is ESZSL


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"protocol": "paper"}, "protocol paper needs a named method. Give --method NAME"),
        ({"select": "none"}, "--select none needs a named method"),
        ({"search": {"noise": [1.0]}}, "a search space needs a named method"),
        ({"seed": -1}, "seed"),
        ({"n_seeds": 0}, "n_seeds"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_options_that_need_a_named_method(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        AutomaticSpecification(**given)
    assert words in str(caught.value)
