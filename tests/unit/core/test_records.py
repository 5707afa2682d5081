"""Run records: JSON round trip, and errors on invalid records."""

import dataclasses
import json
import platform
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sightunseen.core.errors import ModelError
from sightunseen.core.records import RunRecord


@pytest.fixture
def record() -> RunRecord:
    return RunRecord(
        kind="adapt",
        method="CVC",
        settings={"n_steps": 100, "learning_rate": 1e-3, "clip_norm": None},
        seed=7,
        protocol="honest",
        data={"name": "Tiere, südlich", "sources": {"res101.mat": "ab12"}},
        selection={"folds": 2, "tried": [{"seen_penalty": 0.5}]},
        findings=({"level": "WARN", "text": "a"}, {"level": "FAIL", "text": "b"}),
        results={"T1": 61.25, "S": None},
        intervals={"T1": [50.5, 70.25]},
        verdict=("49 of 80 photos of unseen classes right.",),
        compared={"before": {"T1": 58.0}},
        seeds={"seeds": [7, 8], "mean": {"T1": 60.5}},
        history=({"round": 1, "trusted": 0.3},),
        parent={"kind": "train"},
        engine="cpu, float32",
        wall_seconds=1.5,
    )


def changed(record: RunRecord, **parts: object) -> str:
    return json.dumps({**json.loads(record.to_json()), **parts})


def test_json_round_trip(record: RunRecord) -> None:
    assert RunRecord.from_json(record.to_json()) == record


def test_json_has_all_fields_sorted_and_unescaped(record: RunRecord) -> None:
    content = json.loads(record.to_json())
    assert list(content) == sorted(field.name for field in dataclasses.fields(RunRecord))
    assert content["settings"] == {"clip_norm": None, "learning_rate": 0.001, "n_steps": 100}
    assert content["findings"] == [{"level": "WARN", "text": "a"}, {"level": "FAIL", "text": "b"}]
    assert "südlich" in record.to_json()


def test_record_has_time_and_versions(record: RunRecord) -> None:
    assert timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(record.created) < timedelta(minutes=1)
    assert record.versions["python"] == platform.python_version()
    assert record.versions["numpy"] == np.__version__
    assert set(record.versions) == {"python", "sightunseen", "torch", "numpy", "scikit-learn"}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_raise_an_error(record: RunRecord, number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dataclasses.replace(record, results={"H": number}).to_json()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"words"'])
def test_text_that_is_not_a_record_raises_an_error(text: str) -> None:
    with pytest.raises(ModelError, match="not a run record"):
        RunRecord.from_json(text)


@pytest.mark.parametrize("version", [0, 4, 99, None, "1"])
def test_other_record_version_raises_an_error(record: RunRecord, version: object) -> None:
    with pytest.raises(ModelError, match=f"version {version}; this version of sightunseen reads 1, 2, 3"):
        RunRecord.from_json(changed(record, record_version=version))


def test_version_1_is_read_without_seeds_and_engine(record: RunRecord) -> None:
    content = json.loads(changed(record, record_version=1))
    del content["seeds"], content["engine"], content["intervals"], content["verdict"], content["compared"]
    expected = dataclasses.replace(record, seeds={}, engine="", intervals={}, verdict=(), compared={}, record_version=1)
    assert RunRecord.from_json(json.dumps(content)) == expected


def test_version_2_is_read_without_intervals_verdict_and_comparison(record: RunRecord) -> None:
    content = json.loads(changed(record, record_version=2))
    del content["intervals"], content["verdict"], content["compared"]
    expected = dataclasses.replace(record, intervals={}, verdict=(), compared={}, record_version=2)
    assert RunRecord.from_json(json.dumps(content)) == expected


@pytest.mark.parametrize("part", ["kind", "settings", "findings", "history"])
def test_missing_field_raises_an_error(record: RunRecord, part: str) -> None:
    content = json.loads(record.to_json())
    del content[part]
    with pytest.raises(ModelError, match=f"damaged: .*{part}"):
        RunRecord.from_json(json.dumps(content))


def test_unknown_or_invalid_field_raises_an_error(record: RunRecord) -> None:
    with pytest.raises(ModelError, match=r"damaged: .*mood"):
        RunRecord.from_json(changed(record, mood="good"))
    with pytest.raises(ModelError, match="damaged"):
        RunRecord.from_json(changed(record, findings=None))
    with pytest.raises(ModelError, match="damaged"):
        RunRecord.from_json(changed(record, seed="7"))


@pytest.mark.parametrize(
    "parts",
    [
        {"data": {"fingerprints": ["ab12"]}},
        {"data": {"fingerprints": {"res101.mat": 3}}},
        {"data": {"backbone": "resnet"}},
        {"data": {"backbone": {"name": 3}}},
        {"data": None},
        {"settings": {"seen_penalty": "much"}},
        {"settings": {"adaptation": [1]}},
        {"settings": []},
        {"findings": [{"check": 3}]},
        {"findings": ["none"]},
        {"history": ["none"]},
        {"parent": {"kind": "adapt", "parent": {"settings": {"seen_penalty": []}}}},
        {"parent": [1]},
        {"selection": 3},
        {"results": {"T1": float("nan")}},
        {"intervals": {"T1": [50.0]}},
        {"intervals": {"T1": [50.0, "60"]}},
        {"intervals": [50.0, 60.0]},
        {"verdict": "92 of 180 right"},
        {"verdict": [92]},
        {"compared": []},
        {"history": [{"loss": float("inf")}]},
        {"method": "\ud800"},
        {"versions": {"python": 3}},
        {"wall_seconds": 10**400},
    ],
    ids=str,
)
def test_wrong_content_raises_an_error(record: RunRecord, parts: dict[str, object]) -> None:
    with pytest.raises(ModelError, match=r"the run record is damaged: .* Train the model again"):
        RunRecord.from_json(changed(record, **parts))


def test_history_can_be_a_list_of_numbers(record: RunRecord) -> None:
    assert RunRecord.from_json(changed(record, history=[1.5, 2])).history == (1.5, 2)


def test_parent_is_a_record(record: RunRecord) -> None:
    child = dataclasses.replace(record, parent=json.loads(record.to_json()))
    assert RunRecord.of(child.parent) == record
    with pytest.raises(ModelError, match="version None"):
        RunRecord.of(record.parent)


def test_deeply_nested_text_raises_an_error() -> None:
    with pytest.raises(ModelError, match="nested deeper"):
        RunRecord.from_json("[" * 100_000)
