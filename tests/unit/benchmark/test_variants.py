"""Budgets, presets and searched feature scalings of plans: which jobs they make, in which order, and with which names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.jobs import specifications_of
from sightunseen.benchmark.plan import Plan, plan_of, read_plan
from sightunseen.benchmark.variants import Job
from sightunseen.core.errors import SettingsError
from sightunseen.methods import CVC, DEM
from sightunseen.methods.base.presets import BUDGETS
from sightunseen.methods.catalogue import CARDS

BOTH = list(BUDGETS)


def plan(*methods: dict[str, Any], path: str = "CUB", **others: Any) -> Plan:
    return plan_of({"method": list(methods), "data": [{"path": path}], **others}, Path())


def names(jobs: list[Job]) -> list[str]:
    return [str(job).split(", ")[1] for job in jobs]


def test_methods_run_at_every_budget_that_they_have() -> None:
    found = plan({"name": "ESZSL"}, {"name": "CVC"}, budget=BOTH).jobs()
    assert [(job.method.name, job.budget) for job in found] == [("ESZSL", ""), ("CVC", "quick"), ("CVC", "full")]
    quick, full = (specifications_of(job)[0] for job in found[1:])
    assert quick.estimators()[0].get_params() == CVC().get_params()
    assert full.estimators()[0].get_params() == CVC(**CVC.presets["full"].settings).get_params()
    assert quick.grid == {name: list(values) for name, values in CVC.search_space.items()}
    searched = CVC.presets["full"].search
    assert searched is not None
    assert full.grid == {name: list(values) for name, values in searched.items()}


def test_method_without_the_budget_runs_as_it_is() -> None:
    (job,) = plan({"name": "ESZSL"}, budget="full").jobs()
    (usual,) = plan({"name": "ESZSL"}).jobs()
    assert job == usual
    (trained,) = plan({"name": "DEM"}, budget="full").jobs()
    assert trained.budget == "full"


def test_hyperparameters_of_the_plan_take_precedence_over_the_preset() -> None:
    entry = {"name": "DEM", "settings": {"hidden": 8, "weight_decay": 0.5}}
    (job,) = plan(entry, budget="full").jobs()
    training, _ = specifications_of(job)
    model = training.estimators()[0]
    assert (model.hidden, model.weight_decay) == (8, 0.5)
    assert model.n_steps == DEM.presets["full"].settings["n_steps"]
    assert training.grid == {}  # the only hyperparameter that the preset searches is fixed
    (own,) = plan({**entry, "search": {"learning_rate": [0.1, 0.2]}}, budget="full").jobs()
    assert specifications_of(own)[0].grid == {"learning_rate": [0.1, 0.2]}


def test_preset_is_used_in_place_of_the_budgets() -> None:
    by_data = {"name": "CVC", "preset": {"CUB": "paper-cub", "AWA1": "paper-awa1"}}
    assert [job.budget for job in plan(by_data, path="there/CUB", budget=BOTH).jobs()] == ["paper-cub"]
    entries = [{"path": name} for name in ("CUB", "AWA1", "SUN")]
    jobs = plan(by_data, data=entries, budget=BOTH).jobs()
    assert [job.budget for job in jobs if job.data.name == "SUN"] == list(BOTH)
    (one,) = plan({"name": "DEM", "preset": "full"}).jobs()
    assert one.budget == "full"
    with pytest.raises(SettingsError, match="ESZSL has no preset 'full'; choose one of: quick"):
        plan({"name": "ESZSL", "preset": "full"}).jobs()


def test_class_vectors_of_a_preset_are_used_unless_the_plan_names_others() -> None:
    entry = {"name": "CVC", "preset": "paper-cub"}
    (job,) = plan(entry).jobs()
    assert (job.data.semantics, job.data.name) == ("original_att", "CUB")
    content = {"method": [entry], "data": [{"path": "CUB", "semantics": "sent_splits:att"}]}
    (named,) = plan_of(content, Path()).jobs()
    assert named.data.semantics == "sent_splits:att"


def test_adaptation_of_the_catalogue_takes_precedence_over_the_preset() -> None:
    (job,) = plan({"name": "CVC-tran-XE", "preset": "paper-cub", "adaptation": {"rounds": 3}}).jobs()
    _, adaptation = specifications_of(job)
    assert adaptation is not None
    assert {name: adaptation.parameters[name] for name in ("loss", "rounds")} == {"loss": "xe", "rounds": 3}
    assert adaptation.parameters["threshold"] == CVC.presets["paper-cub"].adaptation["threshold"]


def test_preset_without_selection_searches_nothing() -> None:
    (job,) = plan({"name": "DEM"}, budget="full", selection="none").jobs()
    training, _ = specifications_of(job)
    assert training.grid == {}
    assert training.estimators()[0].hidden == DEM.presets["full"].settings["hidden"]


def test_search_spaces_of_the_plan_are_not_used_without_selection() -> None:
    entry = {"name": "ALE-tran", "search": {"learning_rate": [1e-3]}, "adaptation_search": {"rounds": [1, 2]}}
    content = {"method": [entry], "data": [{"path": "CUB"}], "selection": ["validation", "none"]}
    chosen, plain = plan_of(content, Path()).jobs()
    assert (chosen.method.search, chosen.method.adaptation_search) == (entry["search"], entry["adaptation_search"])
    assert (plain.selection, plain.method.search, plain.method.adaptation_search) == ("none", None, None)
    specifications_of(plain)


def test_methods_that_can_choose_their_scaling_run_with_their_own_and_with_a_searched_one() -> None:
    found = plan({"name": "ESZSL"}, {"name": "Foresight"}, feature_scaling=["own", "searched"]).jobs()
    assert names(found) == ["ESZSL", "ESZSL (searched scaling)", "Foresight"]
    own, searched, _ = (specifications_of(job)[0].grid for job in found)
    assert "feature_scaling" not in own
    assert {"unit", "standard", "root"} < {*searched["feature_scaling"]}
    assert {name: values for name, values in searched.items() if name != "feature_scaling"} == own


@pytest.mark.parametrize(
    "change",
    [{"settings": {"feature_scaling": "unit"}}, {"search": {"feature_scaling": ["unit", "standard"]}}],
)
def test_scaling_of_the_plan_is_not_searched(change: dict[str, Any]) -> None:
    (job,) = plan({"name": "ESZSL", **change}, feature_scaling="searched").jobs()
    assert job.scaling == "own"


def test_without_selection_no_scaling_is_searched() -> None:
    (job,) = plan({"name": "ESZSL"}, feature_scaling=["own", "searched"], selection="none").jobs()
    assert job.scaling == "own"


def test_searched_scaling_replaces_that_of_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    full = DEM.presets["full"]
    fixed = replace(full, settings={**full.settings, "feature_scaling": "unit"})
    monkeypatch.setattr(DEM, "presets", {"full": fixed})
    own, searched = plan({"name": "DEM"}, budget="full", feature_scaling=["own", "searched"]).jobs()
    assert specifications_of(own)[0].estimators()[0].feature_scaling == "unit"
    assert "feature_scaling" in specifications_of(searched)[0].grid


def test_jobs_are_ordered_by_seed_and_the_cheapest_come_first() -> None:
    content = {"methods": ["CVC", "f-CLSWGAN", "ALE", "ESZSL"], "data": [{"path": "CUB"}, {"path": "AWA1"}]}
    jobs = plan_of({**content, "seeds": 2, "budget": BOTH}, Path()).jobs()
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    first = [(job.data.name, job.method.name, job.budget) for job in jobs if job.seed == 0]
    assert first[:2] == [("CUB", "ESZSL", ""), ("AWA1", "ESZSL", "")]
    assert first[2:5] == [("CUB", "ALE", "quick"), ("CUB", "CVC", "quick"), ("CUB", "f-CLSWGAN", "quick")]
    assert [budget for _, _, budget in first[8:]] == ["full"] * 6


def test_budget_and_methods_of_a_plan_can_be_restricted() -> None:
    whole = read_plan("leaderboard", "shared")
    full = replace(whole, budgets=("full",), seeds=1)
    assert {job.budget for job in full.jobs()} == {"", "full"}
    assert len(full.jobs()) == len(whole.methods) * len(whole.data)
    assert [entry.name for entry in whole.only(["ALE", "DEM"]).methods] == ["ALE", "DEM"]
    with pytest.raises(SettingsError, match="the plan has no method 'ALF'; it has DAP"):
        whole.only(["ALF"])


def test_leaderboard_plan_has_every_method_on_five_data_sets() -> None:
    found = read_plan("leaderboard", "shared")
    assert [entry.name for entry in found.methods] == [name for name, card in CARDS.items() if not card.ablation]
    assert [entry.name for entry in found.data] == [
        "CUB, attributes",
        "CUB, sentences",
        "AwA1",
        "CUB photos",
        "Grocery photos",
    ]
    assert (found.seeds, found.budgets) == (5, BUDGETS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": "huge"}, "budget must be one of"),
        ({"budget": []}, "has no budgets"),
        ({"budget": 3}, "budget: Input should be a valid array; got 3"),
        ({"feature_scaling": "none"}, "feature_scaling must be one of"),
        ({"method": [{"name": "ALE", "preset": 3}]}, r"method\.0\.preset"),
        (
            {"method": [{"name": "CVC", "preset": {"CUBS": "paper-cub"}}]},
            "names the folder 'CUBS', which the plan does not have; folders of the plan without a preset: CUB. Correct",
        ),
    ],
)
def test_invalid_budgets_and_presets_are_errors(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        plan_of({"methods": "ESZSL", "data": [{"path": "CUB"}], **change}, Path())
