"""Benchmark plans: their jobs, paths and validation."""

from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.draws import Draw
from sightunseen.benchmark.plan import Plan, plan_of, read_plan, ready_plans
from sightunseen.core.errors import SettingsError
from sightunseen.methods.catalogue import CARDS

CONTENT: dict[str, Any] = {"methods": ["ESZSL", "ALE-tran"], "data": [{"path": "CUB", "features": "res50"}, {"path": "AWA1"}]}


def test_jobs_are_the_product_of_data_methods_seeds_and_selections() -> None:
    plan = plan_of({**CONTENT, "seeds": 3, "selection": ["validation", "oracle"]}, Path("data"))
    jobs = plan.jobs()
    assert len(jobs) == 2 * 2 * 3 * 2
    assert len({str(job) for job in jobs}) == len(jobs)
    assert {job.seed for job in jobs} == {0, 1, 2}


def test_paths_are_relative_to_the_data_folder_or_the_plan_file(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('methods = "ESZSL"\n[[data]]\npath = "CUB"\n')
    assert read_plan(tmp_path / "plan.toml").data[0].path == str(tmp_path / "CUB")
    assert read_plan(tmp_path / "plan.toml", "/benchmarks").data[0].path == "/benchmarks/CUB"


def test_group_names_expand_to_methods() -> None:
    plan = plan_of({**CONTENT, "methods": "all"}, Path())
    assert [entry.name for entry in plan.methods] == [name for name, card in CARDS.items() if not card.ablation]
    transductive = plan_of({**CONTENT, "methods": ["transductive"]}, Path())
    assert {CARDS[entry.name].setting for entry in transductive.methods} == {"transductive"}


def test_quick_methods_are_inductive_methods_that_are_fitted_in_seconds() -> None:
    names = [entry.name for entry in plan_of({**CONTENT, "methods": "quick"}, Path()).methods]
    assert {"ESZSL", "Foresight"} <= set(names)
    assert not {"CVC", "Foresight-tran", "Projection"} & set(names)


def test_each_seed_of_a_plan_with_seen_classes_is_a_draw() -> None:
    plan = plan_of({**CONTENT, "seeds": 3, "seen_classes": [8, "all"], "unequal": 20}, Path())
    jobs = plan.jobs()
    assert len(jobs) == 2 * 2 * 2 * 3
    assert len({str(job) for job in jobs}) == len(jobs)
    assert {job.draw for job in jobs} == {Draw(8, 20), Draw("all", 20)}
    assert str(jobs[0]) == "CUB res50, 8 seen classes, class sizes 1:20, ESZSL, seed 0"
    assert {job.draw for job in plan_of({**CONTENT, "seen_classes": [8]}, Path()).jobs()} == {Draw(8, 1.0)}
    assert {job.draw for job in plan_of(CONTENT, Path()).jobs()} == {None}


def test_ablation_methods_are_not_part_of_groups() -> None:
    for word in ("all", "inductive", "quick"):
        assert "Projection" not in {entry.name for entry in plan_of({**CONTENT, "methods": word}, Path()).methods}
    assert [entry.name for entry in plan_of({**CONTENT, "methods": "Projection"}, Path()).methods] == ["Projection"]


def test_method_entry_can_set_hyperparameters() -> None:
    variant = {"name": "CVC", "label": "CVC, dot product", "settings": {"similarity": "dot"}}
    plan = plan_of({**CONTENT, "methods": ["CVC"], "method": [variant]}, Path())
    assert [entry.shown for entry in plan.methods] == ["CVC", "CVC, dot product"]
    assert plan.methods[1].settings == {"similarity": "dot"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["ESZL"]}, "no method 'ESZL'"),
        ({"methods": ["ESZSL", "ESZSL"]}, "'ESZSL' more than once"),
        ({"methods": []}, "has no methods"),
        ({"data": []}, "has no data"),
        ({"data": [{"features": "res50"}]}, "lacks 'path'"),
        ({"data": [{"path": "CUB", "feature": "res50"}]}, "no key 'feature'"),
        ({"method": [{"label": "mine"}]}, "lacks 'name'"),
        ({"seed": 3}, "no key 'seed'"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": True}, "seeds must be"),
        ({"selection": "test"}, "selection must be one of"),
        ({"folds": 1.5}, "folds must be"),
        ({"seen_classes": 8}, "seen_classes of the plan must be a list"),
        ({"seen_classes": []}, "seen_classes of the plan must be a list"),
        ({"seen_classes": "all"}, "seen_classes of the plan must be a list"),
        ({"seen_classes": [1]}, "whole numbers from 2 up"),
        ({"seen_classes": ["most"]}, "whole numbers from 2 up"),
        ({"seen_classes": [8, 8]}, "must differ"),
        ({"seen_classes": [8], "unequal": 0.5}, "unequal of the plan must be"),
        ({"unequal": 20}, "unequal of the plan needs seen_classes"),
        ({"methods": 3}, "must be a name or a list of names"),
        ({"methods": ["ESZSL", 3]}, "must be a name or a list of names"),
        ({"selection": 3}, "must be a name or a list of names"),
        ({"selection": []}, "has no selections"),
        ({"data": {"path": "CUB"}}, r"\[\[data\]\]"),
        ({"data": ["CUB"]}, r"\[\[data\]\]"),
        ({"data": [{"path": "CUB", "features": 50}]}, "features of .* must be a string"),
        ({"method": [{"name": "ALE", "settings": 3}]}, "settings of the plan must be a table"),
        ({"method": [{"name": "ALE", "search": {"margin": 1.0}}]}, "give margin a list"),
        ({"method": [{"name": "ALE", "search": {"margin": []}}]}, "give margin a list"),
    ],
)
def test_invalid_plan_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        plan_of({**CONTENT, **change}, Path())


def test_invalid_toml_and_missing_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("methods = [")
    with pytest.raises(SettingsError, match="not valid TOML"):
        read_plan(tmp_path / "plan.toml")
    with pytest.raises(SettingsError, match="two-cores"):
        read_plan(tmp_path / "no-such-plan.toml")


@pytest.mark.parametrize("name", ["foresight", "paper-tables", "robustness", "two-cores"])
def test_packaged_plans_can_be_read(name: str) -> None:
    assert ready_plans()[name]
    assert isinstance(read_plan(name, "xlsa17/data"), Plan)
    with pytest.raises(SettingsError, match="--data"):
        read_plan(name)


def test_robustness_plan_draws_splits_of_four_data_sets() -> None:
    plan = read_plan("robustness", "shared")
    assert [entry.path for entry in plan.data] == [
        "shared/xlsa17/data/CUB",
        "shared/xlsa17/data/AWA1",
        "shared/cub-images",
        "shared/grocery-images",
    ]
    assert plan.draws == tuple(Draw(seen, 20) for seen in (8, 12, 20, 40, "all"))
    assert plan.seeds == 20
    with pytest.raises(SettingsError, match="cub-images"):
        read_plan("robustness")


@pytest.mark.parametrize("name", ["paper-tables", "two-cores"])
def test_packaged_table_plans_have_all_methods(name: str) -> None:
    plan = read_plan(name, "xlsa17/data")
    assert [entry.name for entry in plan.methods] == [name for name, card in CARDS.items() if not card.ablation]


def test_data_names_include_features_and_semantics() -> None:
    assert [entry.name for entry in read_plan("foresight", "d").data] == [
        "CUB res50",
        "CUB res50 sent_splits:att",
        "AWA1 bow512",
    ]


def test_paper_plan_has_five_data_sets() -> None:
    assert {Path(entry.path).name for entry in read_plan("paper-tables", "d").data} == {"SUN", "CUB", "AWA1", "AWA2", "APY"}
