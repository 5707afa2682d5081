"""The leaderboard: ranks over data sets, marks, costs, Foresight's lead and published numbers, from made-up outcomes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sightunseen.benchmark.formats import as_json, as_latex
from sightunseen.benchmark.leaderboard import PARTIAL, lead_table, leaderboard_tables, overviews
from sightunseen.benchmark.outcome import DONE, FAILED, Outcome
from sightunseen.benchmark.result_tables import Table, tables
from sightunseen.benchmark.rows import short_of_training
from sightunseen.benchmark.store import Store
from sightunseen.core.metrics import RECORDED


def outcome(method: str, t1: float, h: float, seed: int = 0, data: str = "CUB", **changes: Any) -> Outcome:
    """Outcome of a variant; ``cost`` and ``record`` are parts of the outcome, the other changes are shown."""
    cost, record = changes.pop("cost", {}), changes.pop("record", {})
    shown = {
        "data": data,
        "published_name": "CUB",
        "backbone": "ResNet-50",
        "method": method,
        "label": method,
        "setting": "inductive",
        "selection": "validation",
        "seed": seed,
        **changes,
    }
    variant = [shown.get(name) for name in ("budget", "scaling", "selection", "data")]
    method_identity = {"name": method, "settings": {"seed": seed}, "version": changes.get("version", 1)}
    identity = {"method": method_identity, "seed": seed, "data": {"semantics": "att"}, "search": variant}
    results = dict.fromkeys(RECORDED, 10.0) | {"T1": t1, "H": h}
    return Outcome(DONE, identity, shown, record={"results": results, **record}, seconds=4.0, cost=cost)


def rows(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def row(table: Table, **wanted: str) -> dict[str, str]:
    (found,) = [one for one in rows(table) if one.items() >= wanted.items()]
    return found


def stopped(steps: int, **settings: Any) -> dict[str, Any]:
    """Record of a training of 200 steps whose best stopping point is ``steps``."""
    chosen = {**settings, "steps": steps, "seen_penalty": 0.3}
    return {"settings": {"n_steps": 200, **settings}, "selection": {"chosen": chosen}}


def test_ranks_are_means_over_data_sets() -> None:
    found = [
        *(outcome("ESZSL", 50.0 + seed, 40.0, seed) for seed in range(3)),
        outcome("ESZSL", 30.0, 20.0, data="AWA1"),
        outcome("ALE", 55.0, 30.0),
        outcome("ALE", 20.0, 25.0, data="AWA1"),
        outcome("SAE", 60.0, 60.0),
    ]
    (table,) = overviews(found)
    assert table.title == "Leaderboard, inductive"
    eszsl, ale, sae = row(table, method="ESZSL"), row(table, method="ALE"), row(table, method="SAE")
    # SAE has no result on AWA1, and does not count in the ranks of the others.
    assert (eszsl["rank H"], ale["rank H"], sae["rank H"]) == ("1.5", "1.5", "1.0*")  # 1 and 2; 2 and 1; 1
    assert (eszsl["rank T1"], ale["rank T1"]) == ("1.5", "1.5")  # 2 and 1; 1 and 2
    assert eszsl["CUB: T1"] == "51.0 ± 1.0"
    assert sae["AWA1: T1"] == "-"
    assert (eszsl["year"], eszsl["s"]) == ("2015", "4")
    assert [one["method"] for one in rows(table)][-1] == "SAE"  # complete rows come first
    assert PARTIAL in table.notes


def test_incomplete_rows_are_sorted_by_the_ranks_that_they_have() -> None:
    found = [
        outcome("ESZSL", 50.0, 40.0),
        outcome("ESZSL", 30.0, 20.0, data="AWA1"),
        outcome("ALE", 45.0, 35.0),
        outcome("SAE", 60.0, 60.0),
    ]
    (table,) = overviews(found)
    assert [one["method"] for one in rows(table)] == ["ESZSL", "SAE", "ALE"]
    assert [one["rank H"] for one in rows(table)] == ["1.0", "1.0*", "3.0*"]  # incomplete rows are ranked among all


def test_row_without_seen_test_images_has_no_rank_by_h() -> None:
    without = outcome("SAE", 60.0, 60.0)
    without.record["results"]["H"] = None
    (table,) = overviews([outcome("ESZSL", 50.0, 40.0), outcome("ESZSL", 50.0, 40.0, data="AWA1"), without])
    ranks = [(one["method"], one["rank T1"], one["rank H"]) for one in rows(table)]
    assert ranks == [("ESZSL", "1.0", "1.0"), ("SAE", "1.0*", "-")]


def test_last_of_several_results_is_shown() -> None:
    """Changed hyperparameters under the same label leave the former result in the folder."""
    former = [outcome("ALE", 50.0, 40.0, seed, record={"created": "2026-11-01T10:00:00+00:00"}) for seed in range(2)]
    again = outcome("ALE", 60.0, 45.0, record={"created": "2026-11-01T11:00:00+00:00"})
    changed = replace(again, identity={**again.identity, "search": "another"})
    for found in ([*former, changed], [changed, *former]):
        assert [one["CUB: T1"] for one in rows(overviews(found)[0])] == ["60.0"]


def test_oracle_draws_and_older_versions_are_left_out() -> None:
    draw = {"seen": 8, "unequal": 1.0}
    found = [
        outcome("ESZSL", 50.0, 40.0),
        outcome("ESZSL", 10.0, 10.0, version=0),
        outcome("ESZSL", 99.0, 99.0, selection="oracle"),
        outcome("ESZSL", 98.0, 98.0, draw=draw),
    ]
    for order in (found, found[::-1]):
        assert [one["CUB: T1"] for one in rows(overviews(order)[0])] == ["50.0"]
    assert [table.title for table in leaderboard_tables(found)] == ["Leaderboard, inductive", "CUB, inductive"]
    assert leaderboard_tables([Outcome(FAILED, found[0].identity, found[0].shown, "no memory")]) == []


def test_tables_show_budget_scaling_and_cost() -> None:
    found = [
        outcome("CVC", 50.0, 40.0, budget="quick", cost={"flops": 2.5e12}),
        outcome("CVC", 60.0, 50.0, budget="full", cost={"joules_gpu": 1500.0, "joules_cpu": 500.0}),
        outcome("ESZSL", 45.0, 35.0),
        outcome("ESZSL", 47.0, 37.0, scaling="searched"),
    ]
    for table in (tables(found)[0], overviews(found)[0]):
        full, quick = row(table, method="CVC", budget="full"), row(table, method="CVC", budget="quick")
        assert (full["kJ"], full["TFLOP"]) == ("2", "-")
        assert (quick["kJ"], quick["TFLOP"]) == ("-", "2.5")
        assert row(table, method="ESZSL", scaling="searched")["budget"] == "-"
        assert any("counters of CPU and GPU" in note for note in table.notes)
        assert any(note.startswith("budget: quick") for note in table.notes)
    (plain,) = tables(found[2:3])
    assert not {"budget", "scaling", "kJ", "TFLOP"} & set(plain.columns)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (stopped(200, margin=1.0), True),
        (stopped(100, margin=1.0), False),
        (stopped(200, n_steps=400), False),  # the number of steps was searched, too
        ({"selection": {}, "parent": stopped(200)}, True),
        ({"selection": {}, "parent": stopped(100)}, False),
        ({**stopped(200), "parent": stopped(100)}, False),  # steps of an adaptation, and of the training before
        ({"settings": {"n_steps": 200}, "selection": {"chosen": {"margin": 1.0}}}, False),
        ({"settings": {}, "selection": {"chosen": {"steps": 200}}}, False),
        ({"settings": {}, "selection": {"chosen": {}}}, False),
        ({"settings": [200], "selection": {"chosen": {"steps": 200}}}, False),
        ({"settings": {"n_steps": 200}, "selection": {"chosen": [200]}}, False),
        ({"selection": None, "parent": "none"}, False),
        ({}, False),
    ],
)
def test_training_is_short_if_the_best_stopping_point_is_its_end(record: dict[str, Any], expected: bool) -> None:
    assert short_of_training(record) is expected


def test_rows_are_marked_if_most_seeds_are_short_of_training() -> None:
    def ale(*steps: int) -> list[Outcome]:
        return [outcome("ALE", 50.0, 40.0, seed, record=stopped(end)) for seed, end in enumerate(steps)]

    marked = ale(200, 200, 100)
    (table,) = tables(marked)
    assert table.rows[0][0] == "ALE‡"
    assert any(note.startswith("‡ may be undertrained") for note in table.notes)
    assert "‡" not in as_latex([table])
    assert row(overviews(marked)[0], method="ALE")["CUB: H"] == "40.0 ± 0.0‡"
    for steps in ((200, 100, 100), (200, 100)):
        (table,) = tables(ale(*steps))
        assert table.rows[0][0] == "ALE"
        assert not any("‡" in note for note in table.notes)


def test_lead_is_the_difference_to_the_best_other_method_with_each_scaling() -> None:
    found = [
        outcome("Foresight", 60.0, 50.0),
        outcome("ALE", 50.0, 30.0, budget="quick"),
        outcome("ALE", 55.0, 35.0, budget="full"),
        outcome("ALE", 58.0, 36.0, budget="full", scaling="searched"),
        outcome("SAE", 40.0, 45.0),
    ]
    table = lead_table(found)
    assert table is not None
    own, searched = row(table, scaling="own"), row(table, scaling="searched")
    assert (own["T1 best other"], own["T1 lead"]) == ("55.0 ALE (full)", "+5.0")
    assert (own["H best other"], own["H lead"]) == ("45.0 SAE", "+5.0")
    assert (searched["T1 best other"], searched["T1 lead"]) == ("58.0 ALE (full, searched scaling)", "+2.0")
    assert searched["H best other"] == "45.0 SAE"  # which has no searched scaling
    assert lead_table(found[:1]) is None
    assert lead_table(found[1:]) is None


def test_variants_of_foresight_are_not_the_best_other_method() -> None:
    found = [
        outcome("Foresight", 60.0, 50.0),
        outcome("Foresight", 70.0, 55.0, label="Foresight, more folds"),
        outcome("SAE", 40.0, 45.0),
    ]
    table = lead_table(found)
    assert table is not None
    assert row(table)["T1 best other"] == "40.0 SAE"
    assert lead_table(found[:2]) is None


def test_preset_by_data_set_is_one_row_and_names_its_kind() -> None:
    found = [
        outcome("CVC", 50.0, 40.0, budget="paper-cub"),
        outcome("CVC", 60.0, 50.0, budget="paper-awa1", data="AWA1"),
        outcome("CVC", 45.0, 35.0, budget="quick"),
        outcome("CVC", 55.0, 45.0, budget="quick", data="AWA1"),
    ]
    table = leaderboard_tables(found)[0]
    results = [(line["budget"], line["rank T1"], line["CUB: T1"], line["AWA1: T1"]) for line in rows(table)]
    assert results == [("paper", "1.0", "50.0", "60.0"), ("quick", "2.0", "45.0", "55.0")]


def test_failed_job_of_a_newer_version_does_not_hide_earlier_results() -> None:
    newer = outcome("ESZSL", 99.0, 99.0, version=2)
    table = leaderboard_tables([outcome("ESZSL", 50.0, 40.0), Outcome(FAILED, newer.identity, newer.shown, "no memory")])[0]
    assert [line["CUB: T1"] for line in rows(table)] == ["50.0"]


def test_published_numbers_have_their_conditions() -> None:
    ours = [outcome("ESZSL", 50.0, 40.0), outcome("Foresight", 60.0, 50.0)]
    detail = leaderboard_tables(ours)[-1]
    assert row(detail, method="ESZSL")["published with"].startswith("ResNet-101, attributes, selected on ")
    assert row(detail, method="Foresight")["published with"] == "-"
    assert "published with" not in tables(ours)[0].columns


def test_published_numbers_with_other_class_vectors_are_marked() -> None:
    made = outcome("ESZSL", 50.0, 40.0, backbone="ResNet-101")
    names = ("att", "original_att*2", "sent_splits:att", "att+sent_splits:att", "names")
    identities = [{**made.identity, "data": {"semantics": name}} for name in names]
    found = [tables([replace(made, identity=identity)])[0] for identity in identities]
    assert [row(table, method="ESZSL")["T1 pub."] for table in found] == ["53.9", "53.9", "53.9†", "53.9†", "53.9†"]
    note = "† published with ResNet-101 and attributes; measured with ResNet-101 and {}."
    for table, kind in zip(found[2:], ("sentences", "other class vectors", "other class vectors"), strict=True):
        assert note.format(kind) in table.notes


def test_json_has_the_cells_of_the_tables() -> None:
    found = leaderboard_tables([outcome("ESZSL", 50.0, 40.0)])
    read = json.loads(as_json(found))
    assert [(one["title"], one["columns"], one["rows"], one["notes"]) for one in read] == [
        (one.title, list(one.columns), [list(line) for line in one.rows], list(one.notes)) for one in found
    ]


def test_cost_and_budget_are_stored(tmp_path: Any) -> None:
    store = Store(tmp_path / "results")
    made = outcome("CVC", 50.0, 40.0, budget="full", cost={"joules_gpu": 12.5})
    store.add(made)
    (read,) = store.outcomes().values()
    assert (read.cost, read.budget, read.variant) == ({"joules_gpu": 12.5}, "full", "CVC (full)")
