"""Comparison of methods over random class splits: ranks, tests, intervals and tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from sightunseen.benchmark.comparison import (
    cliques,
    comparisons,
    critical_difference,
    friedman,
    mean_ranks,
    stratified_mean,
)
from sightunseen.benchmark.comparison_tables import comparison_tables
from sightunseen.benchmark.outcome import DONE, FAILED, Outcome
from sightunseen.benchmark.result_tables import tables

NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")
METHODS = ("ESZSL", "GFZSL", "Foresight")


def outcome(method: str, seed: int, t1: float, h: float = 10.0, seen: int | str = 8, **changes: Any) -> Outcome:
    version, state = changes.pop("version", 1), changes.pop("state", DONE)
    shown = {
        "data": "CUB res50",
        "published_name": "CUB",
        "backbone": "ResNet-50",
        "method": method,
        "label": method,
        "setting": "inductive",
        "selection": "validation",
        "seed": seed,
        "draw": {"seen": seen, "unequal": 20.0},
        **changes,
    }
    settings = {"name": method, "version": version, "settings": {}}
    parts = {name: shown[name] for name in ("seed", "draw", "selection")}
    identity = {"method": settings, **parts, "data": {"name": shown["data"]}}
    results = dict.fromkeys(NUMBERS, 10.0) | {"T1": t1, "H": h}
    return Outcome(state, identity, shown, record={"results": results} if state == DONE else {}, seconds=1.0)


@pytest.fixture
def scores() -> np.ndarray:
    return np.random.default_rng(0).integers(30, 40, (25, 6)).astype(float)  # with ties


@pytest.fixture
def outcomes() -> list[Outcome]:
    rng = np.random.default_rng(0)
    return [
        outcome(method, seed, round(40 + 3 * k + rng.normal(), 2), round(30 - k + rng.normal(), 2), seen, data=data)
        for data in ("CUB res50", "AWA1 bow512")
        for seen in ("all", 12, 8)
        for seed in range(4)
        for k, method in enumerate(METHODS)
    ]


def test_ranks_are_those_of_scipy_with_the_highest_score_first(scores: np.ndarray) -> None:
    expected = np.mean([scipy.stats.rankdata(-row) for row in scores], axis=0)
    np.testing.assert_allclose(mean_ranks(scores), expected)
    assert mean_ranks(np.array([[3.0, 1.0, 1.0]])).tolist() == [1.0, 2.5, 2.5]


@pytest.mark.parametrize(("methods", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (8, 3.031), (10, 3.164)])
def test_critical_difference_has_the_quantiles_of_demsar(methods: int, quantile: float) -> None:
    """Table 5a of Demsar (JMLR 2006), two-tailed Nemenyi test at 0.05."""
    found = critical_difference(methods, 30) / np.sqrt(methods * (methods + 1) / (6 * 30))
    assert found == pytest.approx(quantile, abs=1e-3)


def test_friedman_test_of_equal_and_of_ordered_methods(scores: np.ndarray) -> None:
    assert friedman(scores) == pytest.approx(scipy.stats.friedmanchisquare(*scores.T).pvalue)
    better = scores + np.array([20, 0, 0, 0, 0, 0])
    assert friedman(better) < 1e-4 < friedman(scores)  # type: ignore[operator]
    assert friedman(scores[:, :2]) is None
    assert friedman(np.ones((9, 4))) is None


@pytest.mark.parametrize(
    ("ranks", "difference", "expected"),
    [
        ([1, 2, 3], 0.5, []),
        ([1, 2, 3], 1.0, []),  # a difference as large as the critical one is significant
        ([1, 2, 3], 1.5, [(0, 1), (1, 2)]),
        ([1, 2, 3], 5.0, [(0, 1, 2)]),
        ([3, 1, 2.9, 1.1], 0.5, [(1, 3), (2, 0)]),
        ([2, 2, 2], 0.1, [(0, 1, 2)]),
    ],
)
def test_cliques_are_maximal(ranks: list[float], difference: float, expected: list[tuple[int, ...]]) -> None:
    assert cliques(ranks, difference) == expected


def test_interval_of_one_data_set_is_the_t_interval() -> None:
    values = np.random.default_rng(1).normal(50, 5, 20)
    mean, half = stratified_mean([values.tolist()])
    low, high = scipy.stats.t.interval(0.95, 19, values.mean(), scipy.stats.sem(values))
    assert half is not None
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_interval_of_two_data_sets_adds_their_variances() -> None:
    values = np.random.default_rng(1).normal(50, 5, 20)
    _, half = stratified_mean([values.tolist(), (values - 30).tolist()])
    assert half == pytest.approx(scipy.stats.t.ppf(0.975, 2 * 19) * values.std(ddof=1) / np.sqrt(2 * 20))


def test_interval_does_not_depend_on_differences_between_data_sets() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(50, 2, 10), rng.normal(50, 2, 10)
    near, far = stratified_mean([first, second]), stratified_mean([first, second + 40])  # type: ignore[list-item]
    assert far[0] == pytest.approx(near[0] + 20)
    assert far[1] == pytest.approx(near[1])
    assert stratified_mean([[50.0], [1.0, 2.0]])[1] is None


def test_comparisons_are_ordered_by_number_of_seen_classes(outcomes: list[Outcome]) -> None:
    found = comparisons(outcomes)
    assert [one.draw.seen for one in found] == [8, 12, "all"]
    assert all(len(one.blocks) == 8 and one.data == ["AWA1 bow512", "CUB res50"] for one in found)
    assert found[0].methods == tuple(sorted(METHODS))


def test_ranks_of_known_results() -> None:
    results = {"ESZSL": [50.0, 30.0], "GFZSL": [40.0, 60.0], "Foresight": [40.0, 70.0]}
    (found,) = comparisons(outcome(name, seed, value) for name, values in results.items() for seed, value in enumerate(values))
    assert dict(zip(found.methods, found.ranks("T1"), strict=True)) == {"ESZSL": 2.0, "GFZSL": 2.25, "Foresight": 1.75}
    assert found.ranks("H").tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "damage",
    [lambda one: [], lambda one: [Outcome(FAILED, one.identity, one.shown, "no memory")]],
)
def test_blocks_without_all_methods_are_left_out(outcomes: list[Outcome], damage: Callable[[Outcome], list[Outcome]]) -> None:
    found = comparisons([*outcomes[1:], *damage(outcomes[0])])
    whole = next(one for one in found if one.draw.seen == "all")
    assert len(whole.blocks) == 7
    assert ("CUB res50", 0) not in whole.blocks
    assert whole.missing == {"ESZSL": 1}
    table = next(table for table in comparison_tables([*outcomes[1:], *damage(outcomes[0])]) if "all seen" in table.title)
    assert any("ESZSL 1" in note for note in table.notes)


def test_only_the_newest_version_is_compared(outcomes: list[Outcome]) -> None:
    newer = [
        outcome("ESZSL", seed, 90.0, 90.0, data=data, version=2) for data in ("CUB res50", "AWA1 bow512") for seed in (0, 1)
    ]
    found = comparisons([*newer, *outcomes])[0]
    position = found.methods.index("ESZSL")
    assert len(found.blocks) == 4
    assert (found.scores["T1"][:, position] == 90.0).all()


def test_newest_version_is_that_on_the_data_set(outcomes: list[Outcome]) -> None:
    newer = [outcome("ESZSL", seed, 90.0, 90.0, version=2) for seed in range(4)]
    found = comparisons([*newer, *outcomes])[0]
    assert len(found.blocks) == 8
    by_data = dict(zip(found.blocks, found.scores["T1"][:, found.methods.index("ESZSL")], strict=True))
    assert {data for (data, _), score in by_data.items() if score == 90.0} == {"CUB res50"}
    assert found.repeated == ()


def test_preset_by_data_set_is_one_method(outcomes: list[Outcome]) -> None:
    presets = {"CUB res50": "paper-cub", "AWA1 bow512": "paper-awa1"}
    trained = [outcome("CVC", seed, 50.0 + seed, data=data, budget=presets[data]) for data in presets for seed in range(4)]
    found = comparisons([one for one in outcomes if one.shown["draw"]["seen"] == 8] + trained)
    assert found[0].methods == ("CVC (paper)", *sorted(METHODS))
    assert (len(found[0].blocks), found[0].missing) == (8, {})


def test_several_results_of_a_method_on_one_data_set_are_in_the_notes(outcomes: list[Outcome]) -> None:
    first = outcomes[0]
    other = {**first.identity, "method": {**first.identity["method"], "settings": {"semantic_penalty": 2.0}}}
    again = Outcome(DONE, other, first.shown, record=first.record)
    by_draw = {one.draw.seen: one.repeated for one in comparisons([*outcomes, again])}
    assert by_draw == {8: (), 12: (), "all": ("ESZSL",)}
    notes = comparison_tables([*outcomes, again])[-1].notes
    assert any("ESZSL have several results" in note for note in notes)


def test_oracle_and_transductive_jobs_are_not_mixed_in(outcomes: list[Outcome]) -> None:
    others = [outcome("SAE", seed, 99.0, selection="oracle") for seed in range(4)]
    others += [outcome(name, 0, 99.0, setting="transductive") for name in ("ALE-tran", "GFZSL-tran")]
    found = comparisons([*outcomes, *others])
    assert [(one.setting, one.methods) for one in found if one.draw.seen == 8] == [
        ("inductive", tuple(sorted(METHODS))),
        ("transductive", ("ALE-tran", "GFZSL-tran")),
    ]


def test_without_draws_there_is_no_comparison(outcomes: list[Outcome]) -> None:
    plain = [
        Outcome(DONE, one.identity, {k: v for k, v in one.shown.items() if k != "draw"}, record=one.record) for one in outcomes
    ]
    assert comparison_tables(plain) == []


def test_table_is_sorted_by_mean_rank_and_has_intervals_and_tests(outcomes: list[Outcome]) -> None:
    table = comparison_tables(outcomes)[0]
    assert table.title == "AWA1 bow512, CUB res50: 8 seen classes, class sizes 1:20, inductive"
    assert list(table.columns) == ["method", "rank T1", "rank H", "T1", "H"]
    ranks = [float(row[2]) for row in table.rows]
    assert ranks == sorted(ranks)
    assert table.rows[0][0] == "ESZSL"
    by_t1 = comparison_tables(outcomes, "zsl")[0]
    assert list(by_t1.columns) == ["method", "rank T1", "T1"]
    assert by_t1.rows[0][0] == "Foresight"
    found = comparisons(outcomes)[0]
    mean, half = found.interval("T1", found.methods.index("Foresight"))
    assert half is not None
    assert by_t1.rows[0][2] == f"{mean:.1f} [{mean - half:.1f}, {mean + half:.1f}]"
    notes = " ".join(table.notes)
    assert f"less than {critical_difference(3, 8):.2f}" in notes
    assert f"T1: p = {found.p_value('T1'):.2g}" in notes


def test_result_tables_have_one_table_per_number_of_seen_classes(outcomes: list[Outcome]) -> None:
    found = tables(outcomes)
    assert [table.title for table in found] == [
        f"{data}, {seen} seen classes, class sizes 1:20, inductive"
        for data in ("AWA1 bow512", "CUB res50")
        for seen in (8, 12, "all")
    ]
    assert "draws" in found[0].columns
    assert not any("pub." in column for column in found[0].columns)
    assert {row[found[0].columns.index("draws")] for row in found[0].rows} == {"4"}
    assert "random class splits" in found[0].notes[0]


def test_draws_and_the_published_split_are_separate_tables(outcomes: list[Outcome]) -> None:
    first = outcomes[0]
    shown = {name: value for name, value in first.shown.items() if name != "draw"}
    plain = Outcome(DONE, {"method": first.identity["method"], "seed": 0}, shown, record=first.record)
    found = tables([plain, *outcomes])
    assert "CUB res50, inductive" in [table.title for table in found]
    assert len(found) == 7
