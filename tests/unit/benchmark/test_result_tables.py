"""Result tables: means, standard deviations, ranks and published numbers of made-up outcomes."""

import csv
import io
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.formats import as_csv, as_latex, as_markdown
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
from sightunseen.benchmark.result_tables import Table, tables
from sightunseen.benchmark.store import DamagedOutcomeError, Store
from sightunseen.core.metrics import RECORDED


def outcome(method: str, seed: int, t1: float, h: float, selection: str = "validation", **changes: Any) -> Outcome:
    shown = {
        "data": "CUB res50",
        "published_name": "CUB",
        "backbone": "ResNet-50",
        "method": method,
        "label": method,
        "setting": "inductive",
        "selection": selection,
        "seed": seed,
        **changes,
    }
    identity = {"method": {"name": method, "settings": {"seed": seed}}, "seed": seed, "selection": selection}
    results = dict.fromkeys(RECORDED, 10.0) | {"T1": t1, "H": h}
    return Outcome(DONE, identity, shown, record={"results": results}, seconds=2.0)


def column(table: Table, name: str) -> dict[str, str]:
    position = table.columns.index(name)
    return {row[0]: row[position] for row in table.rows}


OUTCOMES = [
    *(outcome("ESZSL", seed, t1, 40.0 + seed) for seed, t1 in enumerate([50.0, 52.0, 51.0])),
    *(outcome("ALE", seed, 48.0, 44.0) for seed in range(3)),
    outcome("SAE", 0, 30.0, 20.0),
    outcome("SAE", 0, 60.0, 60.0, selection="oracle"),
]


def test_mean_and_standard_deviation_over_seeds() -> None:
    (table,) = tables(OUTCOMES, "zsl")
    shown = column(table, "T1")
    assert shown["ESZSL"] == f"51.0 ± {statistics.stdev([50, 52, 51]):.1f}"
    assert shown["ALE"] == "48.0 ± 0.0"
    assert shown["SAE"] == "30.0"
    assert column(table, "seeds") == {"ESZSL": "3", "ALE": "3", "SAE": "1", "SAE (oracle)": "1"}


def test_rank_metric_depends_on_setting_and_oracle_is_ranked_separately() -> None:
    by_t1, by_h = tables(OUTCOMES, "zsl")[0], tables(OUTCOMES, "gzsl")[0]
    assert column(by_t1, "rank") == {"ESZSL": "1", "ALE": "2", "SAE": "3", "SAE (oracle)": "1"}
    assert column(by_h, "rank") == {"ALE": "1", "ESZSL": "2", "SAE": "3", "SAE (oracle)": "1"}
    assert [row[0] for row in by_h.rows] == ["ALE", "ESZSL", "SAE", "SAE (oracle)"]
    assert any("TEST" in note for note in by_h.notes)


def test_published_numbers_of_another_backbone_are_marked() -> None:
    (table,) = tables(OUTCOMES, "zsl")
    assert column(table, "T1 pub.")["ESZSL"] == "53.9†"
    same = [outcome("ESZSL", 0, 50.0, 40.0, backbone="ResNet-101")]
    assert column(tables(same, "zsl")[0], "T1 pub.")["ESZSL"] == "53.9"
    own = [outcome("ESZSL", 0, 50.0, 40.0, published_name="my photos")]
    assert "T1 pub." not in tables(own, "zsl")[0].columns


def test_without_published_numbers_their_columns_are_left_out() -> None:
    (table,) = tables([outcome("ESZSL", 0, 50.0, 40.0, published_name="my-photos")])
    assert not [name for name in table.columns if "pub." in name]
    assert "published" not in " ".join(table.notes)


def test_inductive_and_transductive_methods_have_separate_tables() -> None:
    found = tables([*OUTCOMES, outcome("ALE-tran", 0, 55.0, 50.0, setting="transductive")])
    assert [table.title for table in found] == ["CUB res50, inductive", "CUB res50, transductive"]


def test_failed_and_skipped_jobs_are_in_the_notes() -> None:
    failed = Outcome(
        FAILED, {"method": {"name": "SJE", "settings": {}}, "seed": 0}, OUTCOMES[0].shown | {"label": "SJE"}, "no memory"
    )
    skipped = Outcome(SKIPPED, {"skipped": ["x"]}, OUTCOMES[0].shown | {"label": "DEM"}, "no such file")
    (table,) = tables([*OUTCOMES, failed, skipped])
    assert "SJE: failed: no memory" in table.notes
    assert "DEM: skipped: no such file" in table.notes
    assert column(table, "T1")["SJE"] == "-"


def test_skipped_job_with_a_result_of_an_earlier_run_has_no_row() -> None:
    skipped = Outcome(SKIPPED, {"skipped": ["x"]}, OUTCOMES[0].shown, "no such file")
    assert tables([*OUTCOMES, skipped]) == tables(OUTCOMES)


@pytest.mark.parametrize(
    ("flops", "shown"),
    [
        (0.0, "0"),
        (2e7, "<0.001"),
        (1.234e11, "0.123"),
        (1.234e13, "12.3"),
        (9.994e14, "999"),
        (9.996e14, "1000"),
        (1.2345e16, "12345"),
    ],
)
def test_amounts_are_no_powers_of_ten(flops: float, shown: str) -> None:
    (table,) = tables([replace(outcome("ALE", 0, 50.0, 40.0), cost={"flops": flops})])
    assert column(table, "TFLOP") == {"ALE": shown}


def test_seconds_of_transductive_methods_may_lack_the_selection() -> None:
    inductive, transductive = tables([*OUTCOMES, outcome("ALE-tran", 0, 55.0, 50.0, setting="transductive")])
    assert "s: seconds of a job." in inductive.notes[0]
    assert "s: seconds of a job, without the selection" in transductive.notes[0]


def test_versions_of_a_method_are_not_averaged() -> None:
    first = outcome("ESZSL", 0, 20.0, 10.0)
    identity = {**first.identity, "method": {"name": "ESZSL", "version": 2, "settings": {}}}
    newer = Outcome(DONE, identity, first.shown, record=first.record)
    (table,) = tables([*OUTCOMES, newer], "zsl")
    assert sorted(row[2] for row in table.rows if row[0] == "ESZSL") == ["20.0", "51.0 ± 1.0"]


def test_notes_define_the_metrics_that_are_shown() -> None:
    both, zsl = tables(OUTCOMES)[0].notes, tables(OUTCOMES, "zsl")[0].notes
    assert any("H: harmonic mean of U and S" in note and "AUSUC: area" in note for note in both)
    assert any(note.startswith("T1: per-class") and "harmonic" not in note for note in zsl)


def test_formats_have_the_same_cells() -> None:
    found = tables(OUTCOMES)
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [row["method"] for row in rows] == [row[0] for row in found[0].rows]
    assert rows[0]["T1"] == found[0].rows[0][2]
    lines = as_markdown(found).splitlines()
    assert lines[0] == "### CUB res50, inductive"
    assert lines[4].split(" | ")[0] == f"| {found[0].rows[0][0]}"
    latex = as_latex(found)
    assert latex.count(r"\\") == len(found[0].rows) + 1
    assert "±" not in latex
    assert "†" not in latex


def bounded(method: str, seed: int, **results: Any) -> Outcome:
    """Outcome with 95% intervals and results of metric plug-ins."""
    made = outcome(method, seed, 50.0, 40.0)
    record = {"results": {**made.record["results"], **results}, "intervals": {"T1": [44.25, 57.9], "H": [30.0, 48.0]}}
    return replace(made, record=record)


def test_mean_bounds_of_the_seeds_intervals_are_a_column() -> None:
    wider = bounded("ALE", 1)
    wider = replace(wider, record={**wider.record, "intervals": {"T1": [40.25, 61.9]}})
    (table,) = tables([bounded("ESZSL", 0), bounded("ALE", 0), wider, outcome("SAE", 0, 30.0, 20.0)])
    assert column(table, "T1 95%") == {"ESZSL": "44.2-57.9", "ALE": "42.2-59.9", "SAE": "-"}
    assert column(table, "H 95%") == {"ESZSL": "30.0-48.0", "ALE": "-", "SAE": "-"}
    assert any(note.startswith("95%: interval, bootstrap over the tested classes") for note in table.notes)
    assert "T1 95%" not in tables(OUTCOMES)[0].columns
    assert [name for name in tables([bounded("ESZSL", 0)], "zsl")[0].columns if "95%" in name] == ["T1 95%"]


def test_results_of_metric_plugins_are_columns() -> None:
    found = [bounded("ESZSL", 0, macro_f1=61.25), bounded("ESZSL", 1, macro_f1=63.25), bounded("ALE", 0, macro_f1=None)]
    (table,) = tables([*found, outcome("SAE", 0, 30.0, 20.0), bounded("CMT", 0, macro_f1="<b>")])
    assert column(table, "macro f1") == {"ESZSL": "62.2 ± 1.4", "ALE": "-", "SAE": "-", "CMT": "-"}
    assert "macro f1" not in tables(found, "zsl")[0].columns


def test_intervals_and_plugin_results_are_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    store.add(bounded("ESZSL", 0, macro_f1=61.25))
    (read,) = store.outcomes().values()
    assert read.record["intervals"] == {"T1": [44.25, 57.9], "H": [30.0, 48.0]}
    assert column(tables([read])[0], "macro f1") == {"ESZSL": "61.2"}


@pytest.mark.parametrize("intervals", [{"T1": [1.0]}, {"T1": "wide"}, [1.0, 2.0], {"T1": [1.0, None]}])
def test_damaged_intervals_of_an_outcome_raise_an_error(intervals: Any, tmp_path: Path) -> None:
    store, made = Store(tmp_path / "results"), bounded("ESZSL", 0)
    store.add(replace(made, record={**made.record, "intervals": intervals}))
    with pytest.raises(DamagedOutcomeError, match="intervals"):
        store.outcomes()
