"""Sections on trust, training and the run record, from synthetic records."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from sightunseen.analysis.reruns import Rerun, Reruns
from sightunseen.core.records import RunRecord
from sightunseen.data.doctor import FAIL, PASS, WARN, Finding
from sightunseen.methods import ESZSL
from sightunseen.report.page import DataTable, Note, Verbatim
from sightunseen.report.run_sections import record_section, training_section, trust_section

RECORD = RunRecord("train", "ESZSL", {"feature_penalty": 1.0, "note": "<b>"}, 0, "honest", {"name": "birds"})


def with_record(record: RunRecord | None = RECORD, **changes: Any) -> ESZSL:
    model = ESZSL()
    model.record_ = None if record is None else replace(record, **changes)
    return model


def notes(model: ESZSL, **others: Any) -> list[tuple[str, str]]:
    return [(block.level, block.text) for block in trust_section(model, **others).blocks if isinstance(block, Note)]


def tables(blocks: Any) -> dict[str, DataTable]:
    return {block.name: block for block in blocks if isinstance(block, DataTable)}


# -- trust -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "level", "words"),
    [
        (with_record(), PASS, "selected on validation classes"),
        (with_record(protocol="paper"), WARN, "selected on the TEST images"),
        (with_record(None), WARN, "no run record"),
    ],
    ids=["honest", "paper", "no record"],
)
def test_the_level_depends_on_the_protocol(model: ESZSL, level: str, words: str) -> None:
    ((found, text),) = notes(model)
    assert found == level
    assert words in text


@pytest.mark.parametrize(("agreement", "level"), [(1.0, PASS), (0.995, WARN), (0.5, WARN)])
def test_disagreement_with_the_repeated_training_is_a_warning(agreement: float, level: str) -> None:
    _, (found, text) = notes(with_record(), agreement=agreement)
    assert found == level
    assert f"{100 * agreement:.1f}% of the test images" in text


@pytest.mark.parametrize(("differs", "level"), [(False, PASS), (True, WARN)])
def test_a_difference_between_validation_and_test_beyond_chance_is_a_warning(differs: bool, level: str) -> None:
    found = {"expected_T1": 70.25, "found_T1": 51.0, "allowed_difference": 12.5, "differs": differs}
    _, (shown, text) = notes(with_record(compared={"validation_and_test": found}))
    assert shown == level
    assert all(number in text for number in ("70.2", "51.0", "12.5"))
    _, (shown, text) = notes(with_record(compared={"validation_and_test": {"differs": "yes"}}))
    assert shown == WARN
    assert "cannot be shown" in text


def finding(level: str, check: str, repaired: bool = False) -> Finding:
    return Finding(check, level, f"what of {check}", "", f"remedy of {check}", repaired)


def test_findings_are_sorted_by_level() -> None:
    found = [finding(PASS, "a"), finding(WARN, "b"), finding(FAIL, "c", repaired=True), finding(PASS, "d")]
    table = tables(trust_section(with_record(), found).blocks)["findings"]
    assert table.columns["level"] == [FAIL, WARN, PASS, PASS]
    assert table.columns["check"] == ["c", "b", "a", "d"]
    assert table.columns["finding"][0] == "what of c (repaired)"
    assert table.columns["what to do"] == ["remedy of c", "remedy of b", "", ""]
    assert not table.folded


def test_findings_are_folded_if_all_pass() -> None:
    table = tables(trust_section(with_record(), [finding(PASS, "a")]).blocks)["findings"]
    assert table.folded
    assert "all PASS" in table.title
    assert not tables(trust_section(with_record()).blocks)


def test_the_seeds_table_has_results_mean_and_standard_deviation() -> None:
    results = [{"T1": 50.0, "H": 40.0}, {"T1": 52.0, "H": 40.0}]
    seeds = {"seeds": [0, 1], "results": results, "mean": {"T1": 51.0, "H": 40.0}, "std": {"T1": 1.4142, "H": 0.0}}
    table = tables(trust_section(with_record(seeds=seeds)).blocks)["seeds"]
    assert table.rows == [("0", "50.0", "40.0"), ("1", "52.0", "40.0"), ("mean", "51.0", "40.0"), ("± std", "1.4", "0.0")]


# -- training --------------------------------------------------------------------------------------------------------------


def point(h: float, steps: int | None = None) -> dict[str, Any]:
    numbers = {"T1": h + 1, "U": h, "S": h, "H": h, "AUSUC": h, "best_penalty": 0.5, "H_at_best_penalty": h + 2}
    return numbers if steps is None else {"steps": steps, "loss": 1.0, **numbers}


def test_hyperparameters_tried_are_shown_at_their_best_point() -> None:
    tried = [
        {"settings": {"q": 0.5}, "points": [point(30, 10), point(33, 20)]},
        {"settings": {"q": 0.7}, "points": [point(41, 10), point(40, 20)]},
    ]
    selection = {"folds": [{}], "tried": tried, "chosen": {"q": 0.7, "steps": 1000, "seen_penalty": 0.5}}
    curve, table = training_section(with_record(selection=selection), Reruns()).blocks
    assert curve.name == "validation-curve"
    assert curve.columns["H"] == [41, 40]  # of the selected hyperparameters
    assert "(1,000)" in curve.caption
    assert table.rows == [  # the selected ones first
        ("q 0.7", "yes", "42.0", "41.0", "41.0", "41.0", "43.0", "41.0"),
        ("q 0.5", "", "34.0", "33.0", "33.0", "33.0", "35.0", "33.0"),
    ]
    assert list(table.highlighted) == [0]


def test_hyperparameters_tried_are_sorted_by_the_criterion_after_the_selected_ones() -> None:
    tried = [{"settings": {"q": q}, "points": [point(h)]} for q, h in ((1, 30), (2, 40), (3, 50), (4, 35))]
    selection = {"folds": [{}], "tried": tried, "chosen": {"q": 2, "seen_penalty": 0.5}}
    (table,) = training_section(with_record(selection=selection), Reruns()).blocks
    assert table.columns["hyperparameters"] == ["q 2", "q 3", "q 4", "q 1"]
    assert table.columns["selected"] == ["yes", "", "", ""]
    assert list(table.highlighted) == [0]


def test_a_closed_form_method_has_no_validation_curve() -> None:
    tried = [{"settings": {"q": q}, "points": [point(q)]} for q in (1, 2)]
    selection = {"folds": [{}], "tried": tried, "chosen": {"q": 2, "seen_penalty": 0.5}}
    (table,) = training_section(with_record(selection=selection), Reruns()).blocks
    assert isinstance(table, DataTable)
    assert table.columns["selected"] == ["yes", ""]


def test_combinations_of_left_out_classes_are_shown_without_accuracies_at_no_penalty() -> None:
    measured = [{"T1": t1, "AUSUC": 20.0, "best_penalty": 0.5, "H_at_best_penalty": 30.0} for t1 in (50.0, 55.0)]
    tried = [{"settings": {"q": q}, "points": [point]} for q, point in enumerate(measured)]
    chosen = {"q": 1, "seen_penalty": 0.5}
    selection = {"by": "T1 + H on validation classes", "folds": [{}], "tried": tried, "chosen": chosen}
    (table,) = training_section(with_record(selection=selection), Reruns()).blocks
    assert list(table.columns) == ["hyperparameters", "selected", "T1", "H at best penalty", "AUSUC"]
    assert table.rows == [("q 1", "yes", "55.0", "30.0", "20.0"), ("q 0", "", "50.0", "30.0", "20.0")]
    assert "selected by T1 + H at best penalty" in table.caption


def test_without_selection_the_section_is_empty() -> None:
    assert training_section(with_record(), Reruns()).blocks == []
    assert training_section(with_record(None), Reruns()).blocks == []
    alone = {"folds": [{}], "tried": [{"settings": {}, "points": [point(3)]}], "chosen": {"seen_penalty": 0.5}}
    assert training_section(with_record(selection=alone), Reruns()).blocks == []
    by_the_authors = {"tried": [{"settings": {}, "points": [point(30, 10), point(33, 20)]}], "chosen": {"steps": 20}}
    assert training_section(with_record(selection=by_the_authors), Reruns()).blocks == []


def test_comparison_of_methods_is_shown_with_its_reason() -> None:
    best = {"method": "Foresight", "T1": 50.0, "H": 30.0, "T1 + H": 80.0, "standard_error": 2.0}
    other = {"method": "ESZSL", "T1": 45.0, "H": 30.25, "T1 + H": 75.25, "standard_error": 2.5}
    compared = [best, {**other, "difference": -4.75, "difference_standard_error": 1.0}]
    comparison = {"folds": 5, "chosen": "Foresight", "why": "Foresight was chosen.", "compared": compared, "left_out": {}}
    note, table = training_section(with_record(selection={"methods": comparison}), Reruns()).blocks
    assert (note.level, note.text) == (PASS, "Foresight was chosen.")
    assert list(table.columns) == ["method", "T1", "H", "T1 + H", "± s.e.", "above Foresight ± s.e."]
    assert table.rows == [
        ("Foresight", "50.0", "30.0", "80.0", "2.0", ""),
        ("ESZSL", "45.0", "30.2", "75.2", "2.5", "-4.8 ± 1.0"),
    ]
    assert list(table.highlighted) == [0]
    _, table = training_section(with_record(selection={"methods": {**comparison, "chosen": "ESZSL"}}), Reruns()).blocks
    assert list(table.highlighted) == [1]
    comparison = {**comparison, "left_out": {"SAE": "Singular matrix"}}
    note, _ = training_section(with_record(selection={"methods": comparison}), Reruns()).blocks
    assert (note.level, note.text) == (WARN, "Foresight was chosen. SAE was left out: Singular matrix")


ROUNDS = (
    {"round": 1, "loss": 2.0, "pool": 10, "changed_labels": 0},
    {"round": 2, "loss": 1.0, "pool": 20, "changed_labels": 1},
)


def names(model: ESZSL, reruns: Reruns) -> list[str]:
    return [block.name for block in training_section(model, reruns).blocks]


def test_an_adapted_model_shows_its_rounds_and_the_selection_of_its_parent() -> None:
    tried = [{"settings": {}, "points": [point(30, 10), point(33, 20)]}]
    trained = replace(RECORD, selection={"folds": [{}], "tried": tried, "chosen": {"steps": 20}})
    adapted = with_record(kind="adapt", parent=asdict(trained), history=ROUNDS)
    assert names(adapted, Reruns()) == ["validation-curve", "self-training"]
    again = Rerun(None, [{**entry, "T1": 50.0, "pool_accuracy": 0.5} for entry in ROUNDS])  # type: ignore[arg-type]
    (_, figure) = training_section(adapted, Reruns(adaptation=again)).blocks
    assert figure.columns["T1"] == [50.0, 50.0]  # only the rerun has T1


def test_a_history_without_rounds_is_not_drawn() -> None:
    assert names(with_record(kind="adapt", history=(-10.0, -9.5)), Reruns()) == []  # of GFZSL: objective values
    assert names(with_record(kind="train", history=ROUNDS), Reruns()) == []


# -- run record -------------------------------------------------------------------------------------------------------------


def test_the_complete_record_is_shown() -> None:
    table, whole = record_section(with_record()).blocks
    assert table.rows == [("feature_penalty", "1.0"), ("note", "<b>")]
    assert isinstance(whole, Verbatim)
    assert RunRecord.from_json(whole.text) == RECORD


def test_without_a_record_the_hyperparameters_of_the_model_are_shown() -> None:
    (table,) = record_section(with_record(None)).blocks
    assert dict(table.rows) == {name: str(value) for name, value in ESZSL().get_params().items()}
