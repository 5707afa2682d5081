"""A light installation: everything but gradient-trained methods and torch backbones works without PyTorch."""

import subprocess
import sys
from pathlib import Path

from release.smoke import TABLES

WITHOUT_TORCH = """
import sys

class Blocked:  # as if it were not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + code], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_methods_in_closed_form_fit_and_others_name_the_extra(tmp_path: Path) -> None:
    printed = run_python(
        """
from sightunseen import evaluate
from sightunseen.core.errors import MissingDependencyError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import METHODS, load_model
from sightunseen.methods.catalogue import CARDS

data = make_world(World(n_seen=8, n_unseen=3, n_features=12, images_per_class=6))
for name in METHODS:
    try:
        estimator = METHODS[name]()
    except MissingDependencyError as error:
        assert str(error) == f"{name} needs PyTorch: pip install 'sightunseen[deep]'", error
        continue
    if name == "CLIP":  # needs features of a dual encoder
        continue
    estimator.fit(data.train.X, data.train.y, data.classes).save(name)
    assert evaluate(load_model(name), data).T1 is not None
    print(name)
assert all(METHODS[card.estimator] for card in CARDS.values() if card.quick)
""",
        tmp_path,
    )
    assert {"Foresight", "ESZSL", "SAE", "GFZSL", "SYNC", "CONSE", "DAP"} <= set(printed.split())
    assert not {"CVC", "FCLSWGAN", "ALE"} & set(printed.split())


def test_pipeline_of_the_command_line_runs(tmp_path: Path) -> None:
    run_python(
        TABLES
        + """
sightunseen("inspect", *where)
sightunseen("train", *where, "--out", "model")
sightunseen("adapt", "model", *where, "--out", "adapted")
sightunseen("evaluate", "model", *where)
sightunseen("predict", "adapted", "features.csv", "--out", "answers.csv")
assert main(["train", *where, "--method", "CVC", "--out", "deep"]) == 2
""",
        tmp_path,
    )
    assert (tmp_path / "answers.csv").exists()


def test_importing_the_package_imports_no_heavy_library(tmp_path: Path) -> None:
    printed = run_python("import sightunseen; print(*{'numpy', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules))", tmp_path)
    assert printed.strip() == ""
