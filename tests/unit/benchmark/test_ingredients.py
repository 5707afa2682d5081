"""Foresight study: its plan, and tables of made-up outcomes."""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.ingredients import NOISES, PARTS, SCALINGS, SHRINKAGES, study_plan, study_tables
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
from sightunseen.benchmark.paper_ablation import ablation_tables
from sightunseen.benchmark.result_tables import Table
from sightunseen.benchmark.variants import Job
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import METHODS, Foresight
from sightunseen.methods.catalogue import CARDS

BIRDS = DataEntry("xlsa17/data/CUB", features="res50")
NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")


def outcome(job: Job, t1: float, state: str = DONE, semantics: str = "att") -> Outcome:
    """Outcome of a job; T1 on validation classes is 10 lower than on test data, or 5 lower after adaptation."""
    card = CARDS[job.method.name]
    settings = METHODS[card.estimator](**job.method.settings).get_params()
    space = METHODS[card.estimator].search_space if job.method.search is None else job.method.search
    identity = {
        "data": {"semantics": semantics},
        "method": {"name": card.estimator, "settings": {**settings, "seed": job.seed}},
        "setting": card.setting,
        "search": {name: values for name, values in space.items() if name not in job.method.settings},
        "adaptation": dict(job.method.adaptation),
        "seed": job.seed,
    }
    shown = {
        "data": job.data.name,
        "published_name": "CUB",
        "backbone": "",
        "method": job.method.name,
        "label": job.method.shown,
        "setting": card.setting,
        "selection": job.selection,
        "seed": job.seed,
    }
    if state != DONE:
        return Outcome(state, identity, shown, "no memory")
    below, h = (5, 25.0) if card.setting == "transductive" else (10, 20.0)
    selection = {"validation": {"T1": t1 - below, "H_at_best_penalty": h, "AUSUC": 1.0}}
    results = dict.fromkeys(NUMBERS, 30.0) | {"T1": t1, "H_plain": 7.0}
    return Outcome(DONE, identity, shown, record={"results": results, "selection": selection}, seconds=2.0)


def outcomes(seeds: int = 2, **options: Any) -> Iterator[Outcome]:
    """Outcomes of all jobs; T1 is 40 plus the seed."""
    for job in study_plan(BIRDS, 150, seeds).jobs():
        yield outcome(job, 40.0 + job.seed, **options)


def lines(table: Table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


# -- the plan --------------------------------------------------------------------------------------------------------------


def test_jobs_are_unique_and_have_valid_hyperparameters() -> None:
    plan = study_plan(BIRDS, 150, 1)
    seen = set()
    for method in plan.methods:
        kind = METHODS[CARDS[method.name].estimator]
        for name, values in (method.search or {}).items():
            assert name not in method.settings, method.shown
            for value in values:
                kind(**method.settings, **{name: value}).check_settings()
        kind(**method.settings).check_settings()
        assert set(method.adaptation) <= set(Foresight.adaptation_defaults())
        seen.add(str((method.name, sorted(method.settings.items()), method.search, method.adaptation)))
    assert len(seen) == len(plan.methods)
    assert len(plan.jobs()) == len(plan.methods)


def test_component_variants_change_one_hyperparameter() -> None:
    rows, _ = PARTS["one ingredient at a time"]
    variants = [row for row in rows if row.name == "Foresight"]
    assert variants[0].settings == {}
    assert all(len(row.settings) == 1 for row in variants[1:])
    assert {name for row in variants for name in row.settings} == set(Foresight().get_params()) - {"seen_penalty", "device"}


def test_each_step_from_ridge_regression_changes_one_hyperparameter() -> None:
    rows, _ = PARTS["from ridge regression to Foresight"]
    whole = {**Foresight.search_space, **{name: [value] for name, value in Foresight().get_params().items()}}
    tried = [
        {**whole, **(row.search or Foresight.search_space), **{name: [value] for name, value in row.settings.items()}}
        for row in rows
    ]
    for before, after in pairwise(tried[:-1]):
        assert sum(list(before[name]) != list(after[name]) for name in before) == 1
    first = {"feature_scaling": ["none"], "generator": ["linear"], "shrinkage": [1.0]}
    assert {name: list(tried[0][name]) for name in first} == first
    assert rows[-1].settings == {}
    assert rows[-1].search is None


def test_search_values_are_those_of_foresight() -> None:
    space = Foresight.search_space
    assert space["shrinkage"] == SHRINKAGES
    assert set(space["noise"]) <= set(NOISES["noise"])
    assert set(space["feature_scaling"]) <= set(SCALINGS)
    rows, note = PARTS["one ingredient at a time"]
    fixed = {(name, value) for row in rows if row.name == "Foresight" for name, value in row.settings.items()}
    assert {(name, value) for name, values in space.items() for value in values} <= fixed  # each value on its own
    assert f"({', '.join(space['feature_scaling'])})" in note
    rows, note = PARTS["adapted to unlabelled images"]
    fixed = {item for row in rows for item in row.adaptation.items()}
    assert {(name, value) for name, values in Foresight.adaptation_space.items() for value in values} <= fixed
    assert f"selects {' and '.join(Foresight.adaptation_space)}" in note


def test_shared_hyperparameters_apply_to_cvc_variants() -> None:
    plan = study_plan(BIRDS, 150, 1, {"n_steps": 50})
    changed = {method.shown for method in plan.methods if method.settings.get("n_steps") == 50}
    assert changed == {"CVC", "CVC, linear output", "CVC-tran-GXE"}
    with pytest.raises(SettingsError, match="'output' is varied or searched"):
        study_plan(BIRDS, 150, 1, {"output": "relu"})


def test_too_few_seen_classes_is_an_error() -> None:
    with pytest.raises(DataError, match="at least 4 seen classes; CUB res50 has 3"):
        study_plan(BIRDS, 3, 1)


# -- the tables ------------------------------------------------------------------------------------------------------------


def test_tables_show_validation_and_test_results() -> None:
    found = study_tables(reversed(list(outcomes())))
    assert [table.title for table in found] == [f"CUB res50, att: {title}" for title in PARTS]
    for table, (entries, note) in zip(found, PARTS.values(), strict=True):
        rows = lines(table)
        assert list(rows) == [entry.shown for entry in entries]
        assert table.notes[0] == note
        spread = statistics.stdev([40, 41])
        assert {row["T1 test"] for row in rows.values()} == {f"40.5 ± {spread:.1f}"}
        assert {row["seeds"] for row in rows.values()} == {"2"}
        for entry in entries:
            adapted = CARDS[entry.name].setting == "transductive"
            assert rows[entry.shown]["T1 val."] == f"{40.5 - (5 if adapted else 10):.1f} ± {spread:.1f}"
            assert rows[entry.shown]["H val."] == ("25.0 ± 0.0" if adapted else "20.0 ± 0.0")
            assert rows[entry.shown]["H test"] == "30.0 ± 0.0"
            assert rows[entry.shown]["H plain"] == "7.0 ± 0.0"


def test_other_class_vectors_are_a_separate_study() -> None:
    found = study_tables([*outcomes(), *outcomes(semantics="sentences")])
    assert [table.title.split(":")[0] for table in found] == ["CUB res50, att"] * 3 + ["CUB res50, sentences"] * 3
    assert {row["seeds"] for table in found for row in lines(table).values()} == {"2"}


def test_newest_result_with_defaults_has_the_row() -> None:
    first = next(one for one in outcomes() if one.shown["label"] == "CVC")

    def like(t1: float, version: int = 0, **shown: str) -> Outcome:
        method = {**first.identity["method"], "version": version, "settings": {"changed": version, **shown}}
        results = {**first.record["results"], "T1": t1}
        record = {**first.record, "results": results}
        return replace(first, identity={**first.identity, "method": method}, shown={**first.shown, **shown}, record=record)

    others = [like(20.0, version=2), like(90.0, budget="full"), like(91.0, scaling="searched")]
    found = [row for table in study_tables([*outcomes(), *others]) for row in table.rows if row[0] == "CVC"]
    assert [row[3] for row in found] == ["20.0"]


def test_failed_job_has_an_empty_row_and_a_note() -> None:
    first, *rest = study_plan(BIRDS, 150, 1).jobs()
    table = study_tables([outcome(first, 0.0, FAILED), *(outcome(job, 40.0) for job in rest)])[0]
    assert lines(table)["Foresight"]["T1 val."] == "-"
    assert lines(table)["Foresight"]["seeds"] == "0"
    assert "Foresight: failed: no memory" in table.notes


def test_outcomes_without_variants_have_no_tables() -> None:
    whole = [one for one in outcomes() if one.shown["label"] in CARDS]
    skipped = Outcome(SKIPPED, {"skipped": ["CUB", "noise 1", "validation", 0]}, whole[0].shown, "no such file")
    assert study_tables([]) == []
    assert study_tables([*whole, skipped]) == []
    assert ablation_tables(outcomes()) == []
