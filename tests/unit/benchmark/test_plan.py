"""Benchmark plans: their jobs, paths and validation."""

import math
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.draws import Draw
from sightunseen.benchmark.plan import Plan, plan_of, read_plan, ready_plans
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import LABEL_LENGTH
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


def test_paths_are_relative_to_the_data_folder() -> None:
    content = {**CONTENT, "data": [{"path": "birds.npz", "classes": "birds.csv"}]}
    (entry,) = plan_of(content, Path("there")).data
    assert (entry.path, entry.classes) == (str(Path("there/birds.npz")), str(Path("there/birds.csv")))


def test_feature_file_replaces_those_of_xlsa17_folders(tmp_path: Path) -> None:
    entries = [{"path": "CUB", "features": "res50", "backbone": "ResNet-50"}, {"path": "CUB"}, {"path": "birds.npz"}]
    plan = plan_of({**CONTENT, "data": entries}, tmp_path)
    with pytest.raises(SettingsError, match="the plan has none that can be read"):
        plan.using_features("vgg")
    (tmp_path / "CUB").mkdir()
    (tmp_path / "CUB" / "att_splits.mat").touch()
    found = [(entry.name, entry.backbone) for entry in plan.using_features("vgg").data]
    assert found == [("CUB vgg", "vgg"), ("birds.npz", "")]
    found = [(entry.name, entry.backbone) for entry in plan.using_features("res50").data]
    assert found == [("CUB res50", "ResNet-50"), ("birds.npz", "")]


def test_data_sets_of_one_name_are_refused() -> None:
    data = [{"path": "one/CUB", "features": "res50"}, {"path": "other/CUB", "features": "res50"}]
    with pytest.raises(SettingsError, match="the data set 'CUB res50' more than once"):
        plan_of({**CONTENT, "data": data}, Path())
    data[1]["label"] = "my CUB"
    assert [entry.name for entry in plan_of({**CONTENT, "data": data}, Path()).data] == ["CUB res50", "my CUB"]


def test_using_features_changes_labels_and_merges_entries(tmp_path: Path) -> None:
    (tmp_path / "CUB").mkdir()
    (tmp_path / "CUB" / "att_splits.mat").touch()
    data = [{"path": "CUB", "features": "res50", "label": "birds"}, {"path": "CUB", "label": "birds of ResNet-101"}]
    plan = plan_of({**CONTENT, "data": data}, tmp_path)
    assert [entry.name for entry in plan.using_features("vgg").data] == ["birds, vgg"]
    assert [entry.name for entry in plan.using_features("res50").data] == ["birds"]
    assert [entry.name for entry in plan.using_features("res101").data] == ["birds, res101"]


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


def test_groups_and_selections_may_overlap() -> None:
    words = {"methods": ["inductive", "quick"], "selection": ["validation", "validation"]}
    assert plan_of({**CONTENT, **words}, Path()) == plan_of({**CONTENT, "methods": "inductive"}, Path())


def test_labels_are_printable_and_short() -> None:
    plan = plan_of({**CONTENT, "method": [{"name": "CVC", "label": "\u001b[2J" + 20_000 * "x"}]}, Path())
    shown = plan.methods[-1].shown
    assert shown.isprintable()
    assert len(shown) <= LABEL_LENGTH


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
        ({"data": [{"features": "res50"}]}, r"data\.0\.path: Field required"),
        (
            {"data": [{"path": "CUB", "feature": "res50"}]},
            r"data\.0\.feature: Unexpected .* Keys of \[\[data\]\]: path, features, ",
        ),
        ({"method": [{"label": "mine"}]}, r"method\.0\.name: Field required"),
        ({"seed": 3}, "seed: Unexpected .* Keys of a plan: title, seeds, "),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": True}, "seeds: Input should be a valid integer; got True"),
        ({"selection": "test"}, "selection must be one of"),
        ({"folds": 1.5}, "folds: Input should be a valid integer; got 1.5"),
        ({"seen_classes": 8}, "seen_classes: Input should be a valid array; got 8"),
        ({"seen_classes": []}, "seen_classes of the plan is empty; expected a list"),
        ({"seen_classes": "all"}, "seen_classes: Input should be a valid array"),
        ({"seen_classes": [1]}, "whole numbers from 2 up"),
        ({"seen_classes": ["most"]}, "whole numbers from 2 up"),
        ({"seen_classes": [8, 8]}, "must differ"),
        ({"seen_classes": [8], "unequal": 0.5}, "unequal of the plan must be"),
        ({"unequal": 20}, "unequal of the plan needs seen_classes"),
        ({"methods": 3}, "methods: Input should be a valid array; got 3"),
        ({"methods": ["ESZSL", 3]}, r"methods\.1: Input should be a valid string; got 3"),
        ({"selection": 3}, "selection: Input should be a valid array; got 3"),
        ({"selection": []}, "has no selections"),
        ({"data": {"path": "CUB"}}, r"\[\[data\]\]"),
        ({"data": ["CUB"]}, r"\[\[data\]\]"),
        ({"data": [{"path": "CUB", "features": 50}]}, r"data\.0\.features: Input should be a valid string; got 50"),
        ({"method": [{"name": "ALE", "settings": 3}]}, r"method\.0\.settings: Input should be an object; got 3"),
        ({"method": [{"name": "ALE", "search": {"margin": 1.0}}]}, r"search\.margin: Input should be a valid array"),
        ({"method": [{"name": "ALE", "search": {"margin": []}}]}, "give margin a list"),
        ({"seeds": 10**8}, "seeds must be at most 10,000; got 100000000"),
        ({"folds": 999_999}, "folds must be at most 1,000; got 999999"),
        ({"seeds": 10_000, "methods": "all"}, "the limit is 100,000. Split it"),
        ({"seeds": 2**63}, "more than 64 bits"),
        ({"seeds": 16**8000}, "more than 64 bits"),
        ({"unequal": math.inf, "seen_classes": [8]}, "has the value inf; expected finite numbers"),
        ({"method": [{"name": "ALE", "settings": {"margin": math.nan}}]}, "has the value nan"),
        ({"method": [{"name": "ALE", "settings": {"margin": [[1, 10**400]]}}]}, "more than 64 bits"),
        ({"data": [{"path": "CUB\0"}]}, "NUL character"),
    ],
)
def test_invalid_plan_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        plan_of({**CONTENT, **change}, Path())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"methods = [", "not valid TOML"),
        (b"\xff\xfe", "not utf-8 text: byte 0 is 0xff"),
        (b"seeds = " + b"9" * 5000, "not valid TOML"),
        (b"seeds = 0x" + b"f" * 5000, "more than 64 bits"),
        (b"methods = " + b"[" * 5000 + b"]" * 5000, "nested deeper than 64 levels"),
        (b"a" + b".a" * 100_000 + b" = 1", "a line with more than 1,000 dots"),
        (b"# " + b"a" * 300_000, "larger than 256 KiB"),
        (b"seeds = 1979-05-27", "seeds: Input should be a valid integer"),
    ],
)
def test_file_that_is_not_a_plan_is_an_error(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_bytes(text)
    with pytest.raises(SettingsError, match=message):
        read_plan(tmp_path / "plan.toml")


def test_missing_file_is_an_error(tmp_path: Path) -> None:
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


def test_plan_of_two_cores_has_all_methods() -> None:
    plan = read_plan("two-cores", "xlsa17/data")
    assert [entry.name for entry in plan.methods] == [name for name, card in CARDS.items() if not card.ablation]


def test_data_names_include_features_and_semantics() -> None:
    data = [{"path": "d/CUB", "features": "res50"}, {"path": "d/CUB", "features": "res50", "semantics": "sent_splits:att"}]
    assert [entry.name for entry in plan_of({**CONTENT, "data": data}, Path()).data] == [
        "CUB res50",
        "CUB res50 sent_splits:att",
    ]


def test_plans_of_the_package_give_a_data_set_one_name() -> None:
    names: dict[tuple[str, str | None, bool], set[str]] = {}
    for plan in ready_plans():
        for entry in read_plan(plan, "d").data:
            sentences = "sent_splits" in (entry.semantics or "")
            names.setdefault((entry.folder, entry.features, sentences), set()).add(entry.name)
    assert len(names) > 5
    assert [found for found in names.values() if len(found) > 1] == []


def test_paper_plan_has_five_data_sets() -> None:
    assert {Path(entry.path).name for entry in read_plan("paper-tables", "d").data} == {"SUN", "CUB", "AWA1", "AWA2", "APY"}
