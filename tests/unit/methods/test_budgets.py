"""Budgets and docstrings of all methods: presets are valid, and a docstring says what differs from the paper."""

import inspect

import pytest

from sightunseen.methods import METHODS, AdaptableClassifier, GradientTrainedClassifier
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.selection.choice import combinations

PRESETS = [(name, preset) for name, kind in METHODS.items() for preset in kind.presets]
OWN = {"Foresight"}  # not from a paper


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if issubclass(kind, GradientTrainedClassifier)])
def test_gradient_trained_methods_have_a_full_budget(name: str) -> None:
    kind = METHODS[name]
    assert kind.presets[FULL].settings["n_steps"] > kind().get_params()["n_steps"]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_presets_have_valid_hyperparameters(name: str, preset: str) -> None:
    kind, chosen = METHODS[name], METHODS[name].presets[preset]
    search = kind.search_space if chosen.search is None else chosen.search
    for tried in combinations(search):
        model = kind().set_params(**{**chosen.settings, **tried})
        model.check_settings()


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_presets_have_hyperparameters_of_the_adaptation(name: str, preset: str) -> None:
    kind, chosen = METHODS[name], METHODS[name].presets[preset]
    assert isinstance(chosen, Preset)
    known = set(kind.adaptation_defaults()) if issubclass(kind, AdaptableClassifier) else set()
    assert set(chosen.adaptation) <= known


@pytest.mark.parametrize("name", sorted(set(METHODS) - OWN))
def test_docstrings_say_what_differs_from_the_paper(name: str) -> None:
    paragraphs = inspect.cleandoc(METHODS[name].__doc__ or "").split("\n\n")
    assert sum(paragraph.startswith("Differs from the paper:") for paragraph in paragraphs) == 1
