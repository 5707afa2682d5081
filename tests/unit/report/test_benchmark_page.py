"""The page on a benchmark, from synthetic outcomes."""

import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import vl_convert

from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.ingredients import study_plan
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
from sightunseen.benchmark.paper_ablation import ablation_plan
from sightunseen.core.metrics import METRICS
from sightunseen.methods import METHODS
from sightunseen.methods.catalogue import CARDS
from sightunseen.report.benchmark_page import benchmark_page
from sightunseen.report.figures import CONFIG, Figure, rows_of
from sightunseen.report.page import DataTable, Page

NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")


def outcome(method: str, seed: int = 0, t1: float = 50.0, h: float = 40.0, state: str = DONE, **changes: Any) -> Outcome:
    shown = {
        "data": "CUB res50",
        "published_name": "CUB",
        "backbone": "ResNet-50",
        "method": method,
        "label": method,
        "setting": "inductive",
        "selection": "validation",
        "seed": seed,
        **changes,
    }
    identity = {"method": {"name": method, "settings": {"seed": seed}}, "seed": seed, "selection": shown["selection"]}
    identity["data"] = {"semantics": "att"}
    record = {"results": dict.fromkeys(NUMBERS, 10.0) | {"T1": t1, "H": h}, "selection": {}}
    return Outcome(state, identity, shown, "" if state == DONE else "no memory", record if state == DONE else {}, 2.0)


def skipped(label: str) -> Outcome:
    return Outcome(SKIPPED, {"skipped": ["CUB", label]}, {**outcome(label).shown}, "no such file")


OUTCOMES = [
    *(outcome("ESZSL", seed, t1, 40.0 + seed) for seed, t1 in enumerate([50.0, 52.0, 51.0])),
    outcome("ALE", 0, 48.0, 44.0),
    outcome("SAE", 0, 30.0, 20.0),
    outcome("SAE", 0, 60.0, 60.0, selection="oracle"),
    outcome("SJE", state=FAILED),
    skipped("DEM"),
]


def ablation(seeds: int = 2, state: str = DONE) -> Iterator[Outcome]:
    plan = ablation_plan(DataEntry("data/CUB"), 150, seeds)
    for number, job in enumerate(plan.jobs()):
        settings = {**METHODS[job.method.name](**job.method.settings).get_params(), "seed": job.seed}
        made = outcome(job.method.name, job.seed, 20.0 + number % len(plan.methods), state=state, label=job.method.shown)
        identity = {**made.identity, "method": {"name": job.method.name, "settings": settings}}
        record = {**made.record, "data": {"classes": {"seen": 150}}} if state == DONE else {}
        yield Outcome(state, identity, made.shown, made.reason, record, 2.0)


def study() -> Iterator[Outcome]:
    for job in study_plan(DataEntry("data/CUB"), 150, 1).jobs():
        card = CARDS[job.method.name]
        made = outcome(job.method.name, label=job.method.shown, setting=card.setting)
        method = {"name": card.estimator, "settings": METHODS[card.estimator](**job.method.settings).get_params()}
        options = {"search": job.method.search, "adaptation": job.method.adaptation}
        identity = {**made.identity, **options, "method": method}
        selection = {"validation": {"T1": 45.0, "H_at_best_penalty": 35.0}}
        yield Outcome(DONE, identity, made.shown, "", {**made.record, "selection": selection}, 2.0)


def tables(page: Page) -> list[DataTable]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, DataTable)]


def figure(page: Page, name: str) -> Figure:
    return next(figure for figure in page.figures if figure.name.startswith(name))


def test_tiles_count_jobs_by_state() -> None:
    page = benchmark_page(OUTCOMES, "Benchmark")
    tiles = {tile.label: tile.value for tile in page.tiles}
    assert [tiles[state] for state in (DONE, FAILED, SKIPPED)] == ["6", "1", "1"]
    assert tiles["computing time"] == "14 s"
    assert "5 methods on CUB res50" in page.subtitle
    assert f"T1: {METRICS['T1'].definition}" in page.subtitle


def test_the_table_lists_every_method_and_notes_failures() -> None:
    table = next(table for table in tables(benchmark_page(OUTCOMES, "Benchmark")) if table.title == "All results")
    found = dict(zip(table.columns["method"], table.columns["T1"], strict=True))
    assert found == {
        "ESZSL": f"51.0 ± {statistics.stdev([50, 51, 52]):.1f}",
        "ALE": "48.0",
        "SAE": "30.0",
        "SAE (oracle)": "60.0",
        "SJE": "-",
        "DEM": "-",
    }
    assert "SJE: failed: no memory" in table.notes
    assert "DEM: skipped: no such file" in table.notes


def test_the_ranking_has_means_standard_deviations_and_published_numbers() -> None:
    columns = figure(benchmark_page(OUTCOMES, "Benchmark"), "ranking").columns
    rows = {(row["panel"], row["method"], row["kind"]): row for row in rows_of(columns)}
    measured = rows["T1", "ESZSL", "selected on validation classes"]
    spread = statistics.stdev([50, 51, 52])
    assert (measured["percent"], measured["low"], measured["high"]) == pytest.approx((51, 51 - spread, 51 + spread))
    single = rows["H", "ALE", "selected on validation classes"]
    assert single["low"] == single["percent"] == single["high"] == 44.0  # one seed has no deviation
    assert rows["T1", "ESZSL", "published"]["percent"] == 53.9
    assert "ResNet-101" in rows["T1", "ESZSL", "published"]["source"]
    assert rows["H", "SAE (oracle)", "selected on TEST data"]["percent"] == 60.0
    assert not {"SJE", "DEM"} & set(columns["method"])


def test_the_ranking_is_sorted() -> None:
    ranking = figure(benchmark_page(OUTCOMES, "Benchmark"), "ranking")
    orders = [re.findall(r"'sort': (\[[^]]*\])", str(panel.spec()))[0] for panel in ranking.panels]
    assert orders == ["['SAE (oracle)', 'ESZSL', 'ALE', 'SAE']", "['SAE (oracle)', 'ALE', 'ESZSL', 'SAE']"]


def test_names_of_the_best_methods_only_are_in_crowded_charts() -> None:
    many = [outcome("ESZSL", h=40.0 + k, label=f"variant {k}") for k in range(20)]
    own = [replace(one, identity={**one.identity, "search": one.shown["label"]}) for one in many]
    page = benchmark_page(own, "Benchmark")
    for name in ("balance", "cost"):
        made = figure(page, name)
        best = {f"variant {k}" for k in range(12, 20)}
        assert set(made.columns["label"]) == best | {""}
        assert set(made.columns["method"]) == {f"variant {k}" for k in range(20)}  # the others have tooltips
        assert "8 best by H are named" in made.caption
    assert "are named" not in figure(benchmark_page(OUTCOMES, "Benchmark"), "balance").caption


@pytest.mark.parametrize(("seconds", "text"), [(119.0, "119 s"), (120.0, "2 min"), (7199.0, "120 min"), (3.6e6, "1,000 h")])
def test_computing_time_is_in_the_largest_unit(seconds: float, text: str) -> None:
    page = benchmark_page([replace(outcome("ESZSL"), seconds=seconds)], "Benchmark")
    assert {tile.label: tile.value for tile in page.tiles}["computing time"] == text


def test_every_chart_compiles() -> None:
    for made in benchmark_page([*OUTCOMES, *ablation(), *study()], "Benchmark").figures:
        assert all(len(values) for values in made.columns.values())
        for panel in made.panels:
            spec = {**panel.spec(), "datasets": {"rows": rows_of(made.columns)}, "config": CONFIG}
            assert vl_convert.vegalite_to_vega(spec)["marks"], made.name


def test_without_finished_jobs_the_table_has_the_reasons_and_there_is_no_chart() -> None:
    page = benchmark_page([outcome("SJE", state=FAILED), skipped("DEM")], "Benchmark")
    assert page.figures == []
    (table,) = tables(page)
    assert "SJE: failed: no memory" in table.notes
    assert page.html()


def test_each_data_set_and_setting_has_a_section() -> None:
    others = [outcome("ALE-tran", setting="transductive"), outcome("ALE", data="AWA1", published_name="AWA1")]
    page = benchmark_page([*OUTCOMES, *others], "Benchmark")
    assert [section.title for section in page.sections] == [
        "Leaderboard",
        "AWA1, inductive",
        "CUB res50, inductive",
        "CUB res50, transductive",
    ]
    assert len(page.figures) == 9


def test_leaderboard_has_every_budget_and_both_settings() -> None:
    budgets = [outcome("CVC", seed, 55.0 + seed, 50.0, budget="full") for seed in range(2)]
    budgets.append(outcome("CVC", 0, 45.0, 41.0, budget="quick"))
    others = [outcome("ALE-tran", setting="transductive"), outcome("Foresight", t1=60.0, h=55.0)]
    page = benchmark_page([*OUTCOMES, *_own_identities(budgets), *others], "Benchmark")
    section = page.sections[0]
    assert section.title == "Leaderboard"
    inductive, transductive, lead = (block for block in section.blocks if isinstance(block, DataTable))
    rows = {(row["method"], row["budget"]): row for row in rows_of(inductive.columns)}
    assert rows["CVC", "full"]["CUB res50: T1"] == "55.5 ± 0.7"
    assert rows["CVC", "quick"]["CUB res50: T1"] == "45.0"
    assert inductive.columns["method"][:2] == ["Foresight", "CVC"]
    assert transductive.columns["method"] == ["ALE-tran"]
    assert rows_of(lead.columns)[0]["T1 best other"] == "55.5 CVC (full)"
    ranking = figure(page, "ranking").columns
    assert {"CVC", "CVC (full)"} <= set(ranking["method"])
    assert_ids_are_unique(page)


def _own_identities(outcomes: list[Outcome]) -> list[Outcome]:
    """Outcomes whose identity has the budget, as other hyperparameters do."""
    return [replace(one, identity={**one.identity, "search": one.shown["budget"]}) for one in outcomes]


def test_an_ablation_has_both_tables_and_their_figures() -> None:
    page = benchmark_page(ablation(), "Ablation")
    titles = [table.title for table in tables(page)]
    assert sum("Table 2" in title for title in titles) == 1
    assert sum("Table 5" in title for title in titles) == 1
    first = next(table for table in tables(page) if "Table 2" in table.title)
    assert len(first.rows) >= 13
    assert not any("Table 2" in table.title for table in tables(benchmark_page(OUTCOMES, "Benchmark")))
    sections = [section for section in page.sections if "blation" in section.title]
    assert len(sections) == 1
    assert any(isinstance(block, Figure) for block in sections[0].blocks)


def test_a_study_has_a_figure_and_a_table_per_part() -> None:
    page = benchmark_page(study(), "Study")
    (section,) = [section for section in page.sections if section.title == "Study of Foresight on CUB res50, att"]
    assert [isinstance(block, Figure) for block in section.blocks] == [True] * 3 + [False] * 3
    rows = {(row["panel"], row["variant"], row["measured"]): row["percent"] for row in rows_of(section.blocks[0].columns)}
    assert rows["T1", "linear generator", "test data"] == 50.0
    assert rows["T1", "linear generator", "validation classes"] == 45.0
    assert rows["H", "linear generator", "validation classes"] == 35.0
    assert_ids_are_unique(page)


def drawn(seen: int | str, seed: int, method: str, t1: float) -> Outcome:
    made = outcome(method, seed, t1, 60.0 - t1, draw={"seen": seen, "unequal": 20.0})
    return replace(made, identity={**made.identity, "draw": made.shown["draw"]})


def test_random_class_splits_have_ranks_and_a_section_per_number_of_seen_classes() -> None:
    draws = [
        drawn(seen, seed, method, 20.0 + 5 * k + seed)
        for seen in (8, 12)
        for seed in range(3)
        for k, method in enumerate(("ESZSL", "SAE", "Foresight"))
    ]
    page = benchmark_page([*OUTCOMES, *draws], "Robustness")
    assert [section.title for section in page.sections] == [
        "Leaderboard",
        "Random class splits, class sizes 1:20, inductive",
        "CUB res50, inductive",
        "CUB res50, 8 seen classes, class sizes 1:20, inductive",
        "CUB res50, 12 seen classes, class sizes 1:20, inductive",
    ]
    ranks = page.sections[1]
    assert [block.kind for block in ranks.blocks] == ["figure"] * 3 + ["table"] * 2
    table = next(block for block in ranks.blocks if isinstance(block, DataTable))
    assert dict(zip(table.columns["method"], table.columns["rank T1"], strict=True))["Foresight"] == "1.00"
    assert "published" not in figure(page, "ranking-cub-res50-8").columns["kind"]
    assert_ids_are_unique(page)
    assert page.html()


def test_draws_are_not_part_of_an_ablation() -> None:
    made = list(ablation())
    draws = [replace(one, shown={**one.shown, "draw": {"seen": 8, "unequal": 1.0}}) for one in made]
    first, second = (benchmark_page(found, "Ablation").sections[0] for found in (made, [*made, *draws]))
    assert [block.columns for block in first.blocks] == [block.columns for block in second.blocks]  # type: ignore[union-attr]


def test_an_ablation_without_finished_jobs_has_the_reasons() -> None:
    page = benchmark_page(ablation(state=FAILED), "Ablation")
    assert page.figures == []
    assert any("failed: no memory" in note for table in tables(page) for note in table.notes)
    assert page.html()


@pytest.mark.parametrize("names", [("鳥", "魚"), ("CUB res50", "CUB/res50")])
def test_data_sets_with_similar_names_have_different_ids(names: tuple[str, str]) -> None:
    page = benchmark_page([outcome("ALE", t1=float(k), data=name) for k, name in enumerate(names)], "Benchmark")
    assert_ids_are_unique(page)
    assert {row["percent"] for made in page.figures if made.name.startswith("ranking") for row in rows_of(made.columns)} >= {
        0,
        1,
    }


def test_ids_are_unique() -> None:
    assert_ids_are_unique(benchmark_page([*OUTCOMES, *ablation()], "Benchmark"))


def assert_ids_are_unique(page: Page) -> None:
    names = [made.name for made in page.figures] + [table.name for table in tables(page)]
    names += [section.name for section in page.sections]
    assert len(set(names)) == len(names), sorted(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names), sorted(names)
