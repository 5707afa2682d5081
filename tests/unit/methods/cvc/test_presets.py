"""Presets: the values of Section 4.2 of the paper, and hyperparameters that CVC accepts."""

import dataclasses

import pytest

from sightunseen.core.errors import SettingsError
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.cvc.projection import Projection
from sightunseen.methods.cvc.transductive import Adaptation
from sightunseen.methods.presets import preset

PAPER = {  # Section 4.2: lambda, M
    "paper-awa1": (1e-4, 32),
    "paper-awa2": (1e-3, 32),
    "paper-cub": (1e-3, 32),
    "paper-sun": (1e-5, 32),
    "paper-apy": (1e-4, 16),
}


def test_presets_cover_the_data_sets_of_the_paper() -> None:
    assert set(CVC.presets) == {"full", *PAPER}


@pytest.mark.parametrize("name", PAPER)
def test_training_hyperparameters_are_those_of_section_4_2(name: str) -> None:
    decay, classes_per_episode = PAPER[name]
    stated = {
        "hidden": 1600,
        "output": "relu",
        "learning_rate": 1e-5,
        "schedule": "constant",
        "weight_decay": decay,
        "n_steps": 1_000_000,
        "classes_per_episode": classes_per_episode,
        "images_per_class": 4,
    }
    model = CVC(**preset(name).settings)
    assert {name: value for name, value in model.get_params().items() if name in stated} == stated
    assert model.similarity == "cosine"
    assert model.episodic is True
    assert model.seen_penalty == 0


@pytest.mark.parametrize("name", PAPER)
def test_adaptation_hyperparameters_are_those_of_section_4_2(name: str) -> None:
    """50 updates of the pseudo-labels (N_r), one every 10,000 steps (N_i), gamma 1.2, q 0.5; the rest as in training."""
    decay, classes_per_episode = PAPER[name]
    stated = {
        "rounds": 50,
        "steps_per_round": 10_000,
        "threshold": 1.2,
        "q": 0.5,
        "loss": "gxe",
        "peakiness": "probability",
        "best_per_class": 0,
        "learning_rate": 1e-5,
        "schedule": "constant",
        "weight_decay": decay,
        "classes_per_episode": classes_per_episode,
        "images_per_class": 4,
    }
    found = dataclasses.asdict(Adaptation(**preset(name).adaptation))
    assert {name: value for name, value in found.items() if name in stated} == stated


def test_quick_preset_equals_the_defaults() -> None:
    assert CVC(**preset("quick").settings).get_params() == CVC().get_params()
    assert Adaptation(**preset("quick").adaptation) == Adaptation()


def test_full_preset_is_the_recipe_of_the_paper_for_any_data() -> None:
    full, paper = preset("full"), preset("paper-cub")
    differing = {name for name, value in paper.settings.items() if full.settings.get(name, "searched") != value}
    assert differing == {"weight_decay", "output", "semantic_norm"}
    assert full.search is not None
    assert set(full.search) == {"weight_decay"}
    assert set(full.search["weight_decay"]) <= {decay for decay, _ in PAPER.values()}
    assert full.semantics is None  # not all data have raw attributes
    CVC(**full.settings).check_settings()
    same = {"rounds", "steps_per_round", "peakiness", "threshold", "best_per_class", "learning_rate", "loss", "q"}
    assert {name: full.adaptation[name] for name in same} == {name: paper.adaptation[name] for name in same}
    Adaptation(**full.adaptation)


def test_full_preset_of_the_ablation_has_the_steps_of_the_paper() -> None:
    model = Projection(**preset("full", "Projection").settings)
    model.check_settings()
    assert (model.n_steps, model.learning_rate, model.hidden) == (1_000_000, 1e-5, 1600)


@pytest.mark.parametrize(
    ("name", "method", "message"),
    [
        ("paper-imagenet", "CVC", r"CVC has no preset 'paper-imagenet'; choose one of: quick, full, paper-awa1, .*paper-apy"),
        ("full", "ESZSL", r"ESZSL has no preset 'full'; choose one of: quick\."),
        ("quick", "ESZL", "no method 'ESZL'"),
    ],
)
def test_error_lists_the_presets_of_the_method(name: str, method: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        preset(name, method)


def test_names_of_tables_have_the_presets_of_their_method() -> None:
    assert preset("paper-sun", "CVC-tran-XE") is CVC.presets["paper-sun"]


def test_given_values_are_not_searched() -> None:
    found = preset("full").search_without({"weight_decay": 0.0, "hidden": 8})
    assert found == {}
    assert preset("full").search_without({"hidden": 8}) == preset("full").search
    assert preset("quick").search_without({}) is None
