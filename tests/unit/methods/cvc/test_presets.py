"""Presets: the values of Section 4.2 of the paper, and hyperparameters that CVC accepts."""

import dataclasses

import pytest

from sightunseen.core.errors import SettingsError
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.cvc.presets import PRESETS, preset
from sightunseen.methods.cvc.transductive import Adaptation

PAPER = {  # Section 4.2: lambda, M
    "paper-awa1": (1e-4, 32),
    "paper-awa2": (1e-3, 32),
    "paper-cub": (1e-3, 32),
    "paper-sun": (1e-5, 32),
    "paper-apy": (1e-4, 16),
}


def test_presets_cover_the_data_sets_of_the_paper() -> None:
    assert set(PRESETS) == {"fast", *PAPER}


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


def test_fast_preset_equals_the_defaults() -> None:
    assert CVC(**preset("fast").settings).get_params() == CVC().get_params()
    assert Adaptation(**preset("fast").adaptation) == Adaptation()


def test_unknown_preset_error_lists_the_presets() -> None:
    with pytest.raises(SettingsError, match=r"no preset 'paper-imagenet'; there are fast, .*paper-apy"):
        preset("paper-imagenet")
