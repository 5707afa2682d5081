"""``benchmark run paper-tables`` and ``benchmark show --layout paper`` on the data sets that are there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def results(run: Run, shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of three methods of the plan on a folder that has one of its five data sets."""
    folder = tmp_path_factory.mktemp("paper")
    shutil.copytree(shelf / "benchmark", folder / "xlsa17" / "CUB")
    (folder / "xlsa17/CUB/res101.mat").rename(folder / "xlsa17/CUB/res50.mat")
    methods = "--method ESZSL --method SAE --method GFZSL-tran"
    code, out, err = run(
        f"benchmark run paper-tables --data {folder}/xlsa17 --features res50 {methods} --seeds 3 --out {folder}/results"
    )
    assert code == 0, err
    assert out.startswith("9 done, 0 failed, 36 skipped")
    assert [name for name in ("SUN", "CUB", "AWA1", "AWA2", "APY") if f"skipped: all jobs on {name}" in err] == [
        *("SUN", "AWA1", "AWA2", "APY")
    ]
    return folder / "results"


def test_layout_of_the_paper_as_text(run: Run, results: Path) -> None:
    code, out, err = run(f"benchmark show {results} --layout paper")
    assert code == 0, err
    assert "Zero-shot learning accuracy" in out
    assert "Transductive zero-shot learning accuracy" in out
    assert "CUB res50 T1" in " ".join(out.split())
    assert "SUN" not in out
    assert "GFZSL-tran" in out.split("Transductive")[1]


def test_layout_of_the_paper_as_latex_file(run: Run, results: Path, tmp_path: Path) -> None:
    code, out, err = run(f"benchmark show {results} --layout paper --format latex --out {tmp_path}/tables.tex")
    assert (code, out) == (0, f"wrote 2 tables to {tmp_path}/tables.tex\n"), err
    text = (tmp_path / "tables.tex").read_text("utf-8")
    assert r"\label{tab:inductive}" in text
    assert r"\textbf{" in text


@pytest.mark.parametrize("layout", ["", "--layout paper", "--layout leaderboard"])
def test_folder_without_outcomes_is_an_error(run: Run, tmp_path: Path, layout: str) -> None:
    (tmp_path / "jobs").mkdir()
    code, out, err = run(f"benchmark show {tmp_path} {layout}")
    assert (code, out, "contains no outcome yet. Run the jobs first: sightunseen benchmark run" in err) == (2, "", True)


@pytest.mark.parametrize("layout", ["paper", "leaderboard"])
def test_folder_without_results_points_to_the_reasons(run: Run, tmp_path: Path, layout: str) -> None:
    (tmp_path / "nothing").mkdir()
    code, out, err = run(f"benchmark run paper-tables --data {tmp_path}/nothing --method ESZSL --out {tmp_path}/results")
    assert (code, out.startswith("0 done, 0 failed, 15 skipped")) == (1, True), err
    code, out, err = run(f"benchmark show {tmp_path}/results --layout {layout}")
    assert (code, out) == (2, "")
    assert f"no result for --layout {layout}. See its jobs with: sightunseen benchmark show {tmp_path}/results" in err


@pytest.mark.parametrize("layout", ["paper", "leaderboard"])
def test_layout_with_one_setting_is_an_error(run: Run, results: Path, layout: str) -> None:
    code, out, err = run(f"benchmark show {results} --layout {layout} --setting zsl")
    assert (code, out) == (2, "")
    assert f"--layout {layout} has the metrics of both settings. Leave out --setting." in err
