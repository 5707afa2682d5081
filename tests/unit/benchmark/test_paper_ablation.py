"""The paper's ablation: its plan, and tables of made-up outcomes."""

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.formats import as_csv, as_latex, as_markdown
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
from sightunseen.benchmark.paper_ablation import ablation_plan, ablation_tables
from sightunseen.benchmark.result_tables import Table, tables
from sightunseen.benchmark.variants import Job
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import METHODS

BIRDS = DataEntry("xlsa17/data/CUB", features="res50")
NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")


def settings_of(job: Job) -> dict[str, Any]:
    return dict(METHODS[job.method.name](**job.method.settings).get_params())


def outcome(job: Job, t1: float, state: str = DONE, n_seen: int = 150) -> Outcome:
    """Outcome of a job with a meaningless label: variants must be recognised by their hyperparameters."""
    method = {"name": job.method.name, "version": 1, "settings": {**settings_of(job), "seed": job.seed}}
    identity = {"method": method, "setting": "inductive", "seed": job.seed, "search": dict(job.method.search or {})}
    shown = {
        "data": job.data.name,
        "published_name": "CUB",
        "backbone": "",
        "method": job.method.name,
        "label": f"job {job.method.shown.encode().hex()}",
        "setting": "inductive",
        "selection": job.selection,
        "seed": job.seed,
    }
    if state != DONE:
        return Outcome(state, identity, shown, "no memory")
    record = {"results": dict.fromkeys(NUMBERS, 10.0) | {"T1": t1, "H_plain": 7.0}, "data": {"classes": {"seen": n_seen}}}
    return Outcome(DONE, identity, shown, record=record, seconds=2.0)


def outcomes(seeds: int = 2, **shared: Any) -> Iterator[Outcome]:
    """Outcomes of all jobs; T1 is the index of the variant plus a tenth of the seed."""
    plan = ablation_plan(BIRDS, 150, seeds, shared)
    for number, job in enumerate(plan.jobs()):
        yield outcome(job, number % len(plan.methods) + job.seed / 10)


def lines(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# -- the plan --------------------------------------------------------------------------------------------------------------


def test_plan_has_twelve_variants_cvc_and_four_more_episode_sizes() -> None:
    plan = ablation_plan(BIRDS, 150, 3)
    assert len(plan.jobs()) == 3 * (3 * 2 * 2 + 1 + 4)
    settings = [{"name": job.method.name, **settings_of(job)} for job in plan.jobs()[:17]]
    spaces = {
        "V→A": {"name": "Projection", "space": "attributes"},
        "V→I←A": {"name": "Projection", "space": "between"},
        "A→V": {"name": "CVC"},
    }
    for k, label in enumerate(entry.shown for entry in plan.methods[:12]):
        space, score, episodes = label.split(", ")
        expected = {**spaces[space], "similarity": score, "episodic": episodes == "episodes", "classes_per_episode": 32}
        assert {**expected, "output": "linear"}.items() <= settings[k].items(), label
    assert plan.methods[12].shown == "CVC"
    assert settings[12] == {"name": "CVC", **METHODS["CVC"]().get_params()}  # the unchanged method
    sizes = {entry.shown: settings[13 + k] for k, entry in enumerate(plan.methods[13:])}
    assert {label: found["classes_per_episode"] for label, found in sizes.items()} == {
        "A→V, cosine, 4 classes per episode": 4,
        "A→V, cosine, 8 classes per episode": 8,
        "A→V, cosine, 16 classes per episode": 16,
        "A→V, cosine, all classes per episode": 150,
    }
    same = {"name": "CVC", "similarity": "cosine", "episodic": True, "output": "linear"}
    assert all(same.items() <= found.items() for found in sizes.values())
    assert len({str(sorted(found.items(), key=str)) for found in settings}) == 17  # no job twice


def test_each_variant_searches_two_values() -> None:
    for job in ablation_plan(BIRDS, 150, 1).jobs():
        assert job.selection == "validation"
        ((name, values),) = (job.method.search or METHODS[job.method.name].search_space).items()
        assert len(set(values)) == 2
        assert name == {"dot": "semantic_norm", "cosine": "initial_scale"}[job.method.settings["similarity"]]
        for value in values:
            METHODS[job.method.name](**job.method.settings, **{name: value}).check_settings()


@pytest.mark.parametrize(
    ("n_seen", "usual", "others"), [(4, 4, set()), (12, 12, {4, 8}), (32, 32, {4, 8, 16}), (33, 32, {4, 8, 16, 33})]
)
def test_episodes_have_at_most_all_seen_classes(n_seen: int, usual: int, others: set[int]) -> None:
    methods = ablation_plan(BIRDS, n_seen, 1).methods
    assert {entry.settings["classes_per_episode"] for entry in methods[:13]} == {usual}
    assert {entry.settings["classes_per_episode"] for entry in methods[13:]} == others


def test_shared_hyperparameters_apply_to_all_variants() -> None:
    plan = ablation_plan(BIRDS, 150, 1, {"n_steps": 50, "device": "cpu"})
    assert all(settings_of(job)["n_steps"] == 50 and settings_of(job)["device"] == "cpu" for job in plan.jobs())


@pytest.mark.parametrize("name", ["similarity", "episodic", "space", "classes_per_episode", "initial_scale", "output", "seed"])
def test_varied_hyperparameter_cannot_be_shared(name: str) -> None:
    with pytest.raises(SettingsError, match=f"'{name}' is varied or searched"):
        ablation_plan(BIRDS, 150, 1, {name: 1})


def test_too_few_seen_classes_is_an_error() -> None:
    with pytest.raises(DataError, match="at least 4 seen classes; CUB res50 has 3"):
        ablation_plan(BIRDS, 3, 1)


# -- the tables ------------------------------------------------------------------------------------------------------------


def test_tables_have_all_rows_in_order() -> None:
    first, second = ablation_tables(reversed(list(outcomes())))
    rows = lines(first)
    spaces, scores, episodes = ("V→A", "V→I←A", "A→V"), ("dot", "cosine"), ("no", "yes")
    cells = [(*cell, "linear") for cell in itertools.product(spaces, scores, episodes)]
    assert [(row["space"], row["score"], row["episodes"], row["last layer"]) for row in rows] == [
        *cells,
        ("A→V", "cosine", "yes", "auto"),
    ]
    assert [row["T1"] for row in rows] == [f"{n + 0.05:.1f} ± {statistics.stdev([n, n + 0.1]):.1f}" for n in range(13)]
    assert {row["H plain"] for row in rows} == {"7.0 ± 0.0"}
    assert {row["seeds"] for row in rows} == {"2"}
    sizes = lines(second)
    assert [row["classes per episode"] for row in sizes] == ["4", "8", "16", "32", "150 (all)"]
    # The job with 32 classes is in both tables.
    assert [row["T1"][:4].strip() for row in sizes] == [f"{n + 0.05:.1f}" for n in (13, 14, 15, 11, 16)]


def test_tables_show_published_numbers() -> None:
    first, second = ablation_tables(outcomes())
    published = {(row["space"], row["score"], row["episodes"]): row for row in lines(first)[:12]}
    expected = {  # T1, U, S, H of the paper's Table 2
        ("V→A", "dot", "no"): ("36.3", "24.5", "62.5", "35.2"),
        ("V→I←A", "cosine", "no"): ("42.8", "11.2", "81.8", "19.6"),
        ("A→V", "dot", "no"): ("27.0", "22.7", "53.2", "31.9"),
        ("A→V", "cosine", "yes"): ("70.9", "62.7", "77.0", "69.1"),
        ("A→V", "dot", "yes"): ("-", "-", "-", "-"),
    }
    for cell, numbers in expected.items():
        assert tuple(published[cell][f"{name} paper†"] for name in ("T1", "U", "S", "H")) == numbers
    assert sum(row["T1 paper†"] != "-" for row in published.values()) == 7
    assert lines(first)[12]["T1 paper†"] == "70.9"  # the paper's generator ends in a ReLU
    assert [row["T1 paper†"] for row in lines(second)] == ["68.1", "69.6", "70.4", "70.9", "69.8"]
    for table in (first, second):
        assert any(note.startswith("†") and "AwA1" in note and "TEST" in note for note in table.notes)


def test_failed_job_has_an_empty_row_and_a_note() -> None:
    found = list(outcomes(seeds=1))
    job = ablation_plan(BIRDS, 150, 1).jobs()[0]
    first, _ = ablation_tables([outcome(job, 0.0, FAILED), *found[1:]])
    assert lines(first)[0]["T1"] == "-"
    assert lines(first)[0]["seeds"] == "0"
    assert any("failed: no memory" in note for note in first.notes)


def test_with_few_seen_classes_episodes_have_all_of_them() -> None:
    found = [outcome(job, 5.0, n_seen=12) for job in ablation_plan(BIRDS, 12, 1).jobs()]
    first, second = ablation_tables(found)
    assert len(first.rows) == 13
    assert [row["classes per episode"] for row in lines(second)] == ["4", "8", "12 (all)"]
    assert [row["T1 paper†"] for row in lines(second)] == ["68.1", "69.6", "69.8"]


def test_runs_with_other_hyperparameters_are_separate_ablations() -> None:
    found = ablation_tables([*outcomes(), *outcomes(n_steps=50)])
    assert len(found) == 4
    assert {len(table.rows) for table in found} == {13, 5}
    assert [", n_steps 2000:" in table.title for table in found] == [True, True, False, False]
    assert [", n_steps 50:" in table.title for table in found] == [False, False, True, True]


def test_newest_version_of_a_variant_has_the_row() -> None:
    found = list(outcomes())
    older = [
        replace(
            one,
            identity={**one.identity, "method": {**one.identity["method"], "version": 0}},
            record={**one.record, "results": {**one.record["results"], "T1": 99.0}},
        )
        for one in found
    ]
    assert ablation_tables([*older, *found]) == ablation_tables([*found, *older]) == ablation_tables(found)


def test_other_outcomes_have_no_ablation_tables() -> None:
    found = list(outcomes())
    skipped = Outcome(SKIPPED, {"skipped": ["CUB", "x", "validation", 0]}, found[0].shown, "no such file")
    assert ablation_tables([]) == []
    assert ablation_tables([skipped, *(one for one in found if one.shown["method"] == "CVC")]) == []
    other = Outcome(DONE, {**found[0].identity, "method": {"name": "ESZSL", "settings": {}}}, found[0].shown)
    adapted = {"setting": "transductive"}
    transductive = Outcome(DONE, {**found[-1].identity, **adapted}, {**found[-1].shown, **adapted}, record=found[-1].record)
    assert ablation_tables([*found, other, transductive, skipped]) == ablation_tables(found)


def test_ablation_tables_in_all_formats() -> None:
    found = ablation_tables(outcomes())
    assert len(as_csv(found).splitlines()) == 1 + 13 + 5
    assert "| V→I←A | dot | no |" in as_markdown(found)
    latex = as_latex(found)
    assert r"V$\rightarrow$I$\leftarrow$A & dot & no" in latex
    assert latex.isascii()
    (usual,) = tables(outcomes())
    assert len(usual.rows) == 17
    assert not any("T1 pub." in row for row in lines(usual))  # CVC's own number is not that of its variants
