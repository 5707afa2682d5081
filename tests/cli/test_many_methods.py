"""Methods other than the default, and the command ``benchmark``."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sightunseen.methods.catalogue import CARDS
from sightunseen.methods.presets import preset

Run = Callable[[str], tuple[int, str, str]]

PLAN = """
seeds = 2
methods = ["ESZSL"]
[[method]]
name = "GFZSL-tran"
adaptation_search = { mean_images = [10.0] }
search = { mean_penalty = [0.1] }
[[data]]
path = "data"
[[data]]
path = "no-such-data"
"""


def succeed(run: Run, line: str) -> str:
    code, out, err = run(line)
    assert code == 0, err
    return out


def error_of(run: Run, line: str) -> str:
    code, out, err = run(line)
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    return err


def record(folder: Path | str) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(folder) / "record.json").read_text())
    return found


# -- train and adapt -----------------------------------------------------------------------------------------------------


def test_closed_form_method_is_trained_evaluated_and_predicts(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --method ESZSL --search feature_penalty=0.1,1,10 --out model-e")
    assert "sightunseen adapt" not in out  # no transductive form
    found = record("model-e")
    assert found["method"] == "ESZSL"
    assert found["selection"]["chosen"].keys() == {"feature_penalty", "seen_penalty"}  # type: ignore[index]
    assert json.loads(succeed(run, "evaluate model-e data --json"))["T1"] == found["results"]["T1"]  # type: ignore[index]
    assert "thing" in succeed(run, "predict model-e data/features.npz --top 2")
    assert "no transductive form" in error_of(run, "adapt model-e data --out model-f")


def test_method_with_transductive_form_is_adapted(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --method GFZSL --out model-g")
    assert "next: sightunseen adapt model-g data --out model-g-t" in out
    out = succeed(run, "adapt model-g data --search mean_images=1,10 --out model-g-t")
    assert "transductive" in out
    found = record("model-g-t")
    assert found["kind"] == "adapt"
    assert found["selection"]["chosen"].keys() == {"mean_images", "seen_penalty"}  # type: ignore[index]
    assert found["parent"]["method"] == "GFZSL"  # type: ignore[index]
    assert json.loads(succeed(run, "evaluate model-g-t data --json"))["H"] == found["results"]["H"]  # type: ignore[index]


def test_gradient_trained_method_has_points_seeds_and_paper_protocol(run: Run, desk: Path) -> None:
    quick = "--method DEM --set hidden=32 --set n_steps=200 --device cpu"
    out = succeed(run, f"train data {quick} --seeds 2 --out model-d")
    assert "seed 1" in out
    assert len(record("model-d")["selection"]["tried"][0]["points"]) > 1  # type: ignore[index]
    assert "selected on TEST data" in succeed(run, f"train data {quick} --protocol paper --out model-p")
    assert "selected on TEST data" in succeed(run, "train data --method ESZSL --protocol paper --out model-o")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method ESZL", "no method 'ESZL'"),
        ("--method ESZSL --preset paper-cub", "ESZSL has no preset 'paper-cub'; choose one of: quick."),
        ("--method ESZSL --seeds 3 --select none", "draws nothing at random"),
        ("--method ESZSL --set hidden=3", "ESZSL has no hyperparameter 'hidden'"),
        ("--method ESZSL --set feature_penalty=-1", "feature_penalty"),
        ("--method ALE --set margin=-1", "margin must be a number from 0"),
    ],
)
def test_unsupported_options_of_a_method_are_an_error(run: Run, desk: Path, options: str, message: str) -> None:
    assert message in error_of(run, f"train data {options} --out model-x")
    assert not Path("model-x").exists()


def test_full_budget_of_another_method(run: Run, desk: Path) -> None:
    succeed(run, "train data --method DEM --preset full --set n_steps=20 --select none --device cpu --out model-f")
    settings = record("model-f")["settings"]
    assert settings["n_steps"] == 20  # type: ignore[index]
    given = {name: value for name, value in preset("full", "DEM").settings.items() if name != "n_steps"}
    assert {name: settings[name] for name in given} == given  # type: ignore[index]


def test_feature_scaling_is_searched_on_request(run: Run, desk: Path) -> None:
    succeed(run, "train data --method ESZSL --search feature_penalty=1 --search-scaling --folds 1 --out model-s")
    tried = [entry["settings"] for entry in record("model-s")["selection"]["tried"]]  # type: ignore[index]
    assert {"unit", "standard", "root"} <= {entry["feature_scaling"] for entry in tried}


def test_unused_device_prints_a_note(run: Run, desk: Path) -> None:
    code, _, err = run("train data --method ESZSL --device cuda --select none --out model-e")
    assert (code, "note: ESZSL runs on the CPU" in err) == (0, True)
    assert run("train data --method ESZSL --device cpu --select none --out model-f")[2] == ""


def test_unknown_adaptation_hyperparameter_is_an_error(run: Run, desk: Path) -> None:
    succeed(run, "train data --method GFZSL --select none --out model-g")
    assert "no hyperparameter 'rounds'" in error_of(run, "adapt model-g data --set rounds=3 --out model-x")


# -- methods and benchmark -----------------------------------------------------------------------------------------------


def test_methods_are_listed(run: Run) -> None:
    out = succeed(run, "methods")
    assert all(f" {name} " in out for name in CARDS)
    assert " ESZSL " not in succeed(run, "methods --setting transductive")


def test_plan_is_run_and_shown_in_all_formats(run: Run, desk: Path) -> None:
    Path("plan.toml").write_text(PLAN)
    code, out, err = run("benchmark run plan.toml --out results --jobs 2")
    assert code == 0, err
    assert "4 done, 0 failed, 4 skipped" in out
    assert "there is no file or folder no-such-data" in err
    assert "next: sightunseen benchmark show results" in out
    rows = list(csv.DictReader(io.StringIO(succeed(run, "benchmark show results --format csv"))))
    done = {row["method"]: row for row in rows if row["table"].startswith("data,")}
    assert done.keys() == {"ESZSL", "GFZSL-tran"}
    assert all(" ± " in row["T1"] and row["seeds"] == "2" for row in done.values())
    assert "| ESZSL | 1 |" in succeed(run, "benchmark show results --format md")
    assert r"\begin{tabular}" in succeed(run, "benchmark show results --format latex")
    assert "H plain" in succeed(run, "benchmark show results --setting gzsl")
    assert "AUSUC" not in succeed(run, "benchmark show results --setting zsl")
    assert "4 of 4 jobs were finished in an earlier run" in run("benchmark run plan.toml --out results")[2]
    assert "6 done" in run("benchmark run plan.toml --out results --seeds 3")[1]


def test_plan_of_random_class_splits_is_run_shown_and_reported(run: Run, desk: Path) -> None:
    Path("plan.toml").write_text(
        'seeds = 3\nseen_classes = [6, "all"]\nunequal = 3\nmethods = ["ESZSL", "GFZSL", "CONSE"]\n[[data]]\npath = "data"\n'
    )
    code, out, err = run("benchmark run plan.toml --out results --seeds 2")
    assert code == 0, err
    assert "12 done, 0 failed, 0 skipped" in out
    assert "6 seen classes, class sizes 1:3, ESZSL, seed 1" in err
    rows = list(csv.DictReader(io.StringIO(succeed(run, "benchmark show results --format csv"))))
    ranks = [row for row in rows if row["table"] == "data: 6 seen classes, class sizes 1:3, inductive"]
    assert {row["method"] for row in ranks} == {"ESZSL", "GFZSL", "CONSE"}
    assert sum(float(row["rank H"]) for row in ranks) == pytest.approx(6, abs=0.02)
    succeed(run, "report results --out page.html")
    assert "Random class splits" in Path("page.html").read_text()


def test_failed_job_gives_exit_code_1(run: Run, desk: Path) -> None:
    settings = "{ learning_rate = 1e30, n_steps = 200, hidden = 8 }"
    Path("plan.toml").write_text(f'[[method]]\nname = "DEM"\nsettings = {settings}\nsearch = {{}}\n[[data]]\npath = "data"\n')
    code, out, err = run("benchmark run plan.toml --out results")
    assert (code, "0 done, 1 failed" in out) == (1, True)
    assert "training diverged" in err
    assert "failed" in succeed(run, "benchmark show results")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("benchmark run no-plan.toml --out results", "there is no plan"),
        ("benchmark run two-cores --out results", "--data"),
        ("benchmark run plan.toml --out data", "left unchanged"),
        ("benchmark show results", "no file or folder results"),
        ("benchmark show data", "no results"),
    ],
)
def test_invalid_benchmark_arguments_are_an_error(run: Run, desk: Path, line: str, message: str) -> None:
    Path("plan.toml").write_text(PLAN)
    assert message in error_of(run, line)
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('name = "ESZSL"\nsettings = { hidden = 3 }', "ESZSL has no hyperparameter 'hidden'"),
        ('name = "ESZSL"\nsearch = { hidden = [3] }', "ESZSL has no hyperparameter 'hidden'"),
        ('name = "ESZSL"\nadaptation = { rounds = 3 }', "adaptation is for transductive methods, and ESZSL is inductive"),
        ('name = "GFZSL-tran"\nadaptation_search = { rounds = [3] }', "adapting GFZSL has no hyperparameter 'rounds'"),
    ],
)
def test_unknown_hyperparameter_of_a_plan_is_an_error_before_any_job(run: Run, desk: Path, entry: str, message: str) -> None:
    Path("plan.toml").write_text(f'[[method]]\n{entry}\n[[data]]\npath = "data"\n')
    assert message in error_of(run, "benchmark run plan.toml --out results")
