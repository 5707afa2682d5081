"""Methods of other packages: by import path and as entry points, in all commands, plans and model folders."""

import csv
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.benchmark.jobs import identity_of
from sightunseen.benchmark.plan import read_plan
from sightunseen.benchmark.store import Store
from sightunseen.core import plugins
from sightunseen.core.errors import ModelError
from sightunseen.methods import load_model

Run = Callable[[str], tuple[int, str, str]]

EXAMPLES = Path(__file__).parents[2] / "examples"
PATH = "nearest_mean:NearestMean"
MODULES = ("nearest_mean", "mine", "broken")
ADAPTABLE = "from sightunseen.methods import Foresight\n\n\nclass Mine(Foresight):\n    pass\n"


def forget() -> None:
    """Forget imported plug-ins, as a new process would."""
    for name in MODULES:
        sys.modules.pop(name, None)
    plugins.plugins.cache_clear()
    importlib.invalidate_caches()


@pytest.fixture
def desk(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The desk with the example, and a plug-in that can be adapted."""
    shutil.copy(EXAMPLES / "nearest_mean.py", desk)
    (desk / "mine.py").write_text(ADAPTABLE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    yield desk
    forget()


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the example, as ``pip install examples`` makes it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(EXAMPLES / "nearest_mean.py", folder)
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    info = folder / f"nearest_mean-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in points.items()) for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def fresh(run: Run) -> Run:
    """Function that runs a command without plug-ins of earlier commands."""

    def command(line: str) -> tuple[int, str, str]:
        forget()
        return run(line)

    return command


def answers(path: str) -> list[str]:
    with open(path, newline="") as file:
        return [row["class"] for row in csv.DictReader(file)]


def test_example_has_thirty_lines_of_code() -> None:
    lines = (EXAMPLES / "nearest_mean.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith(('"""', "#", "import ", "from "))]
    assert len(code) <= 30


def test_method_is_given_by_its_path(fresh: Run, desk: Path) -> None:
    code, _, err = fresh(f"train data --method {PATH} --out mean")
    assert code == 0, err
    assert json.loads(Path("mean/model.json").read_text())["method"] == PATH
    assert json.loads(Path("mean/record.json").read_text())["method"] == "NearestMean"
    for command in ("evaluate mean data", "classes list mean", "predict mean data/features.npz --never-none --out a.csv"):
        code, _, err = fresh(f"{command} --allow-plugin {PATH}")
        assert code == 0, err
    method = importlib.import_module("nearest_mean").NearestMean
    model = method.load("mean")
    assert answers("a.csv") == model.predict(np.load("data/features.npz")["X"]).tolist()
    assert "penalty" in model.record_.selection["chosen"]


def test_model_of_a_plugin_is_loaded_with_permission_only(fresh: Run, desk: Path) -> None:
    assert fresh(f"train data --method {PATH} --select none --out mean")[0] == 0
    for line in ("predict mean data/features.npz", f"predict mean data/features.npz --allow-plugin {PATH}2"):
        code, _, err = fresh(line)
        assert (code, f"--allow-plugin {PATH}" in err) == (2, True), err
        assert "nearest_mean" not in sys.modules
    with pytest.raises(ModelError, match="not installed as an entry point"):
        load_model("mean")
    assert type(load_model("mean", allow=[PATH])).__name__ == "NearestMean"
    assert type(load_model("mean")).__name__ == "NearestMean"  # the program has imported it itself


@pytest.mark.parametrize(
    "path", ["os:system", "antigravity:geohash", "sightunseen.methods.eszsl:ESZSL", "no_such_module:Method"]
)
def test_model_of_a_stranger_imports_nothing(fresh: Run, desk: Path, path: str) -> None:
    assert fresh(f"train data --method {PATH} --select none --out mean")[0] == 0
    from sightunseen.core.model_files import read_model, write_model

    files = read_model(Path("mean"))
    write_model(Path("mean"), type(files)(path, files.content, files.arrays, files.record))
    code, _, err = fresh("evaluate mean data")
    assert code == 2, err
    assert "antigravity" not in sys.modules


def test_scores_of_a_wrong_shape_name_the_method(fresh: Run, desk: Path) -> None:
    source = (desk / "nearest_mean.py").read_text()
    lines = source.replace("return lambda X: 2 * X", "return lambda X: np.ones((len(X), 3)) + 0 * X[:, :1]  #")
    (desk / "broken.py").write_text(lines)
    code, _, err = fresh("train data --method broken:NearestMean --select none --out new")
    assert code == 2
    assert "NearestMean returned scores of shape" in err


def test_plugin_can_be_adapted(fresh: Run, desk: Path) -> None:
    code, out, err = fresh("train data --method mine:Mine --select none --out mean")
    assert code == 0, err
    suggested = out.partition("next: sightunseen ")[2]
    assert "--allow-plugin mine:Mine" in suggested
    code, _, err = fresh(f"{suggested} --select none --out adapted")
    assert code == 0, err
    assert json.loads(Path("adapted/record.json").read_text())["kind"] == "adapt"


def test_report_of_a_plugin(fresh: Run, desk: Path) -> None:
    assert fresh(f"train data --method {PATH} --select none --out mean")[0] == 0
    code, _, err = fresh(f"report mean data --out report.html --allow-plugin {PATH}")
    assert code == 0, err
    assert "NearestMean" in Path("report.html").read_text()


def test_installed_plugin_is_given_by_its_name(desk: Path, site: Path) -> None:
    (desk / "nearest_mean.py").unlink()

    def command(line: str) -> str:
        words = [sys.executable, "-m", "sightunseen", *line.split()]
        done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = command("methods")
    assert f"nearest-mean   inductive   {PATH}   nearest-mean 1.0   ok" in listed
    command("train data --method nearest-mean --select none --out mean")
    command("predict mean data/features.npz --out a.csv")  # installed: needs no permission
    assert len(answers("a.csv")) == len(np.load("data/features.npz")["X"])


def test_plan_with_plugins(fresh: Run, desk: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    Path("plan.toml").write_text(
        'methods = ["nearest-mean", "mine:Mine", "mine:Mine-tran"]\nselection = "none"\n[[data]]\npath = "data"\n'
    )
    code, out, err = fresh("benchmark run plan.toml --out results --jobs 2")
    assert (code, "3 done" in out) == (0, True), err
    outcomes = {outcome.shown["method"]: outcome for outcome in Store(Path("results")).outcomes().values()}
    assert {name: one.identity["method"]["name"] for name, one in outcomes.items()} == {
        "nearest-mean": PATH,
        "mine:Mine": "mine:Mine",
        "mine:Mine-tran": "mine:Mine",
    }
    assert outcomes["mine:Mine-tran"].shown["setting"] == "transductive"
    code, out, err = fresh("benchmark show results --format csv")
    assert (code, "nearest-mean" in out) == (0, True), err
    assert fresh("report results --out report.html")[0] == 0


def test_changed_plugin_is_another_job(desk: Path) -> None:
    Path("plan.toml").write_text('methods = ["mine:Mine"]\n[[data]]\npath = "data"\n')
    (job,) = read_plan("plan.toml").jobs()
    before = identity_of(job)
    assert identity_of(job) == before
    Path("mine.py").write_text(ADAPTABLE + "# another version\n")
    assert identity_of(job) != before


def test_transductive_plugin_must_be_adaptable(fresh: Run, desk: Path) -> None:
    Path("plan.toml").write_text(f'methods = ["{PATH}-tran"]\n[[data]]\npath = "data"\n')
    code, _, err = fresh("benchmark run plan.toml --out results")
    assert (code, "no transductive form" in err) == (2, True), err


INVALID = {
    "": "cannot be imported",
    "raise SystemExit(3)": "SystemExit",
    "def": "SyntaxError",
    "import no_such_module_of_anyone": "no_such_module_of_anyone",
    "Method = 3": "not a subclass of sightunseen.methods.ZeroShotClassifier",
    "class Method:\n  pass": "not a subclass of sightunseen.methods.ZeroShotClassifier",
    "from sightunseen.methods import ZeroShotClassifier\nclass Method(ZeroShotClassifier):\n  pass": "fit, _scorer, _arrays",
    "from mine import Mine\nclass Method(Mine):\n  def __init__(self, noise=1.0): pass": "seen_penalty",
    "from mine import Mine\nclass Method(Mine):\n  def __init__(self, noise, seen_penalty=0.0): pass": "noise without",
    "from mine import Mine\nclass Method(Mine):\n  def __init__(self, *all, seen_penalty=0.0): pass": "all without",
    "from mine import Mine\nclass Method(Mine):\n  def __init__(self, p=float('inf'), seen_penalty=0.0): pass": "p without",
}


@pytest.mark.parametrize("code", INVALID)
def test_invalid_plugin_is_an_error(fresh: Run, desk: Path, code: str) -> None:
    Path("broken.py").write_text(code)
    exit_code, _, err = fresh("train data --method broken:Method --out other")
    assert (exit_code, INVALID[code] in err, err.count("error: ")) == (2, True, 1), err
    assert not Path("other").exists()


def test_error_of_a_plugin_names_it(fresh: Run, desk: Path) -> None:
    text = Path("nearest_mean.py").read_text()
    Path("nearest_mean.py").write_text(text.replace("means = np.stack", "means = np.stick"))
    code, _, err = fresh(f"train data --method {PATH} --out other")
    assert code == 2
    assert f"the plug-in {PATH} failed: AttributeError" in err
    assert "nearest_mean.py:" in err


def test_unknown_method_is_an_error(fresh: Run, desk: Path) -> None:
    code, _, err = fresh("train data --method nowhere:Method --out other")
    assert (code, "'nowhere:Method' cannot be imported" in err) == (2, True), err
    code, _, err = fresh("train data --method nearest-mean --out other")
    assert (code, "no method 'nearest-mean'" in err) == (2, True), err


def test_examples_of_the_documentation_run() -> None:
    text = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    labels, seen = np.array(["cat", "cat", "okapi"]), np.array(["cat"])
    assert names["worst_class"](labels, np.array(["cat", "dog", "okapi"]), seen) == 50
    assert names["colours"]().size == 3
    assert names["Letters"]()(["Owl", "okapi"]).shape == (2, 26)
    from fastapi.testclient import TestClient

    with TestClient(names["app"]) as client:
        assert client.get("/unseen").json() == ["okapi"]


def test_encoders_of_the_documentation_are_used(fresh: Run, desk: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "docs" / "extending.md").read_text(), re.DOTALL)
    Path("mine.py").write_text("\n".join(block for block in blocks if "colours" in block or "Letters" in block))
    colours = {"red": (200, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 200), "grey": (90, 90, 90), "wine": (120, 0, 40)}
    for name, colour in colours.items():
        folder = Path("photos", "unseen" if name == "wine" else "seen", name)
        folder.mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (8, 8), tuple(part + number for part in colour)).save(folder / f"{number}.png")
    Path("photos/classes.csv").write_text("class\nred\ngreen\nblue\ngrey\nwine\n")
    options = "--backbone mine:colours --semantics names:mine:Letters"
    code, _, err = fresh(f"train photos {options} --method ESZSL --select none --out colours")
    assert code == 0, err
    code, _, err = fresh("evaluate colours photos")
    assert (code, "--allow-plugin mine:" in err) == (2, True), err
    code, _, err = fresh("evaluate colours photos --allow-plugin mine:colours --allow-plugin mine:Letters")
    assert code == 0, err
