"""Search spaces with the feature scaling."""

from typing import Any

import pytest

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CLIP, ESZSL, METHODS, Foresight
from sightunseen.methods.base.feature_scaling import AUTO, AUTOMATIC, SEARCHED
from sightunseen.pipeline.run import train
from sightunseen.pipeline.specification import TrainingSpecification
from sightunseen.selection.choice import search_space, with_scaling


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"Foresight", "CLIP"}))
def test_own_scaling_comes_first_then_all_others(name: str) -> None:
    method = METHODS[name]
    grid = with_scaling(method, {"seen_penalty": (0.0, 1.0)})
    own = AUTOMATIC if method().feature_scaling == AUTO else (method().feature_scaling,)
    assert grid["feature_scaling"][0] == own[0]
    assert sorted(grid["feature_scaling"]) == sorted({*own, *SEARCHED})
    assert grid["seen_penalty"] == [0.0, 1.0]
    for kind in grid["feature_scaling"]:
        method(feature_scaling=kind).check_settings()


def test_grid_that_has_the_scaling_stays_as_it_is() -> None:
    assert with_scaling(Foresight, Foresight.search_space) == search_space(Foresight.search_space, {})
    assert with_scaling(ESZSL, {"feature_scaling": ["unit"]}) == {"feature_scaling": ["unit"]}


def test_method_without_scaling_stays_as_it_is() -> None:
    assert with_scaling(CLIP, {"logit_scale": (1.0,)}) == {"logit_scale": [1.0]}


def test_specification_searches_the_scaling_if_asked() -> None:
    grid = TrainingSpecification(method=ESZSL, search_scaling=True).grid
    assert grid == with_scaling(ESZSL, ESZSL.search_space)
    assert "feature_scaling" not in TrainingSpecification(method=ESZSL).grid
    fixed: dict[str, Any] = {"feature_scaling": "unit"}
    assert "feature_scaling" not in TrainingSpecification(method=ESZSL, parameters=fixed, search_scaling=True).grid


def test_scaling_cannot_be_searched_without_a_selection() -> None:
    with pytest.raises(SettingsError, match="needs select='validation'; got select='none'"):
        TrainingSpecification(method=ESZSL, search_scaling=True, select="none")


def test_chosen_scaling_has_the_best_accuracy_on_validation_classes(tmp_path: Any) -> None:
    data = make_world(World(n_seen=12, n_unseen=4, images_per_class=12, n_features=20, n_attributes=8))
    specification = TrainingSpecification(method=ESZSL, search={"semantic_penalty": [1.0]}, search_scaling=True, folds=1)
    model = train(specification, data, tmp_path)
    assert model.record_ is not None
    tried = {
        entry["settings"]["feature_scaling"]: entry["points"][0]["H_at_best_penalty"]
        for entry in model.record_.selection["tried"]
    }
    assert set(tried) == {"standard", *SEARCHED}
    assert tried[model.feature_scaling] == max(tried.values())
    assert model.scaling_.kind == model.feature_scaling
