"""The complete pipeline on real features: training, adaptation, and the results of the README."""

import json
from pathlib import Path

import pytest

from sightunseen.cli import main
from sightunseen.methods.cvc.cvc import CVC

pytestmark = pytest.mark.real_data


def test_training_and_adaptation_reach_the_documented_results_on_cub(
    benchmark_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [str(benchmark_folder / "CUB"), "--features", "res50"]
    model, adapted = str(tmp_path / "model"), str(tmp_path / "adapted")
    brief = ["--set", "n_steps=1000", "--set", "initial_scale=30"]
    assert main(["train", *data, "--method", "CVC", *brief, "--out", model]) == 0
    assert main(["adapt", model, *data, "--set", "rounds=5", "--set", "classes_per_episode=64", "--out", adapted]) == 0
    results = {}
    for folder in (model, adapted):
        capsys.readouterr()
        assert main(["evaluate", folder, *data, "--json"]) == 0
        results[folder] = json.loads(capsys.readouterr().out)
    before, after = results[model], results[adapted]
    # Half the default steps and rounds, and no search: lower bounds below the results of docs/results.md.
    assert before["T1"] >= 48
    assert before["H"] >= 41
    assert all(after[name] > before[name] for name in ("T1", "U", "S", "H"))
    record = CVC.load(model).record_
    assert record is not None
    assert record.protocol == "honest"
    assert record.selection["by"] == "H on validation classes"


def test_leak_of_awa1_is_repaired_in_training(
    benchmark_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [str(benchmark_folder / "AWA1"), "--features", "bow512"]
    quick = ["--method", "CVC", "--set", "n_steps=600", "--set", "hidden=400"]
    assert main(["train", *data, "--out", str(tmp_path / "model"), *quick]) == 0
    assert "validation-leak" in capsys.readouterr().err
    record = CVC.load(tmp_path / "model").record_
    assert record is not None
    assert [finding["repaired"] for finding in record.findings if finding["check"] == "validation-leak"] == [True]
    chance = 100 / 10
    assert record.results["T1"] > 2 * chance
