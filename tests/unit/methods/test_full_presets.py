"""The budget ``full`` of methods with gradient training: the authors' sizes, and a few of its steps."""

import numpy as np
import pytest

from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import METHODS
from sightunseen.methods.base.presets import FULL

STATED = {  # in the papers or the authors' code; SP-AEN: twice 200,000 steps, which are joined here
    "DEM": {"hidden": 1200, "learning_rate": 1e-5},
    "RelationNetwork": {"n_steps": 200_000, "hidden": 1200, "schedule": "halve every 30000"},
    "SPAEN": {"n_steps": 400_000, "hidden": 1024, "learning_rate": 1e-4, "dropout": 0.5, "critic_steps": 5},
    "CNZSL": {"n_steps": 1_400, "hidden": 1024, "learning_rate": 5e-4, "batch_size": 256},
}
RANKING = ("ALE", "DEVISE", "SJE", "LATEM")  # their papers do not state the number of steps


@pytest.mark.parametrize("name", STATED)
def test_sizes_are_those_stated(name: str) -> None:
    settings = METHODS[name].presets[FULL].settings
    assert {key: settings[key] for key in STATED[name]} == STATED[name]


@pytest.mark.parametrize("name", [*STATED, *RANKING])
def test_every_combination_of_the_full_budget_trains(name: str) -> None:
    world = make_world(World(n_seen=6, n_unseen=3, n_attributes=5, n_features=7, images_per_class=4))
    preset = METHODS[name].presets[FULL]
    assert preset.search is not None
    assert not set(preset.search) & set(preset.settings)
    for parameter, values in preset.search.items():
        for value in values:
            model = METHODS[name](**preset.settings).set_params(**{parameter: value}, n_steps=6, device="cpu")
            model.fit(world.train.X, world.train.y, world.classes)
            assert np.isfinite(model.decision_function(world.test_unseen.X)).all()
            assert model.n_steps_ == 6
