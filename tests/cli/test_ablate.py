"""The command ``ablate``: run, resumed, and invalid arguments."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[[str], tuple[int, str, str]]

QUICK = "--set n_steps=5 --set hidden=8"
ABLATE = f"ablate data --out ablation --seeds 2 --jobs 2 {QUICK}"


def test_finished_ablation_is_shown_again_without_running(run: Run, desk: Path) -> None:
    code, out, err = run(ABLATE)
    assert code == 0, err
    # 12 seen classes: episodes of 4, 8 and all classes; the last are those of the 13 rows of Table 2.
    assert "[30/30] data, " in err
    assert "30 done, 0 failed" in err
    assert out.count("V→I←A") >= 4
    assert "12 (all)" in out
    assert "next: sightunseen report ablation --out ablation.html" in out
    written = {path: path.stat().st_mtime_ns for path in Path("ablation/jobs").iterdir()}
    assert len(written) == 30

    code, again, err = run(ABLATE)
    assert (code, again) == (0, out)
    assert "30 of 30 jobs were finished in an earlier run" in err
    assert "[" not in err
    assert {path: path.stat().st_mtime_ns for path in Path("ablation/jobs").iterdir()} == written

    code, out, err = run(f"{ABLATE} --format csv")
    rows = list(csv.DictReader(io.StringIO(out)))  # stdout has nothing else
    assert len(rows) == 13 + 3
    assert all(" ± " in row["T1"] and row["seeds"] == "2" for row in rows)
    whole, _ = (row for row in rows if (row["space"], row["score"], row["episodes"]) == ("A→V", "cosine", "yes"))
    assert whole["T1"] == next(row["T1"] for row in rows if row["classes per episode"] == "12 (all)")
    assert whole["T1 paper†"] == "70.9"
    assert "next: " in err
    shown = run("benchmark show ablation --format csv")[1]
    assert {row["seeds"] for row in csv.DictReader(io.StringIO(shown))} == {"2"}


def test_ablation_of_foresight(run: Run, desk: Path) -> None:
    study = f"ablate data --of Foresight --out study --seeds 1 --jobs 2 --format csv {QUICK}"
    code, out, err = run(study)
    assert code == 0, err
    assert "45 done, 0 failed" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 24 + 7 + 16
    found = {row["variant"]: row for row in rows}
    assert len(found) == 45  # Foresight is in all three tables
    assert all(row["seeds"] == "1" and float(row["T1 val."]) > 0 and float(row["H test"]) >= 0 for row in rows)
    assert len({(row["T1 val."], row["H val."], row["H test"]) for row in rows}) > 10  # variants differ
    again = run(study)
    assert again[1] == out
    assert "45 of 45 jobs were finished in an earlier run" in again[2]
    assert run("report study --out study.html")[0] == 0
    assert "Study of Foresight on data" in Path("study.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("ablate nowhere", "no file or folder"),
        ("ablate benchmark --features res50", "res50"),
        ("ablate data --features res50", "Leave --features"),
        ("ablate data --set n_step=5", "no hyperparameter 'n_step'; it has"),
        ("ablate data --set initialisation=he", "'initialisation' is varied"),
        ("ablate data --set similarity=dot", "'similarity' is varied or searched by the ablation"),
        ("ablate data --set adaptation=x", "no hyperparameter 'adaptation'"),
        ("ablate data --set n_steps=0", "n_steps"),
        ("ablate data --set n_steps", "NAME=VALUE"),
        ("ablate data --of Foresight --set shrinkage=0.5", "no hyperparameter 'shrinkage'"),
        ("ablate data --of Foresight --set output=relu", "'output' is varied"),
        ("ablate model", "is a model folder"),
        ("ablate data --seeds 1000000", "seeds must be at most 10,000"),
        ("ablate data --jobs 100000", "Lower --jobs"),
    ],
)
def test_invalid_arguments_are_an_error_before_any_job(run: Run, desk: Path, options: str, message: str) -> None:
    code, out, err = run(f"{options} --out ablation")
    assert (code, out) == (2, ""), err
    assert message in err
    assert "Traceback" not in err
    assert not Path("ablation").exists()


@pytest.mark.parametrize("out", ["data/classes.csv", "data/classes.csv/ablation", "data"])
def test_output_that_cannot_be_written_is_an_error_before_data_are_opened(run: Run, desk: Path, out: str) -> None:
    Path("nothing").mkdir()
    before = sorted(desk.rglob("*"))
    code, _, err = run(f"ablate nothing --out {out}")
    assert code == 2, err
    assert "classes.csv is a file" in err or "data is not a results folder" in err
    assert sorted(desk.rglob("*")) == before


def test_three_seen_classes_is_an_error(run: Run, desk: Path) -> None:
    with np.load("data/features.npz") as file:
        arrays = dict(file)
    seen = np.unique(arrays["y"][arrays["split"] == "train"])[:3]
    kept = np.isin(arrays["y"], seen) | (arrays["split"] == "test_unseen")
    np.savez("data/features.npz", **{name: array[kept] for name, array in arrays.items()})
    code, out, err = run("ablate data --out ablation")
    assert (code, out) == (2, ""), err
    assert "at least 4 seen classes; data has 3" in err
    assert not Path("ablation").exists()


def test_projection_can_be_trained(run: Run, desk: Path) -> None:
    assert " Projection " in run("methods")[1]
    code, out, err = run(f"train data --method Projection --set space=between {QUICK} --out model-p")
    assert code == 0, err
    assert "T1" in out
    assert "thing" in run("predict model-p data/features.npz --top 2")[1]
