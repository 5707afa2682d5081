"""The tutorials run from the first block to the last, and print what they show.

Set ``SIGHTUNSEEN_PYTHON`` to the interpreter of an environment in which the built wheel is installed to test that one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .tutorial_runner import blocks_of, shown_outputs

RUNNER = Path(__file__).with_name("tutorial_runner.py")
PAGES = sorted(path for path in (Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md") if path.stem != "index")
SAME = 0.8  # of the lines: on another machine classes can swap and notes of the platform can appear, the wording stays
UPDATE = "Update the page with: python tests/docs/tutorial_runner.py --update"


def masked(text: str) -> list[str]:
    """Lines without numbers, rules and spacing, which differ between machines."""
    lines = (re.sub(r"[─━\s]+", " ", re.sub(r"\d[\d.,]*", "#", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    if "\ncurl " in page.read_text("utf-8") and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    python = os.environ.get("SIGHTUNSEEN_PYTHON", sys.executable)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TRITON_INTERPRET")}
    environment["SIGHTUNSEEN_CACHE"] = str(tmp_path / "cache")
    folder = tmp_path / "work"
    folder.mkdir()
    command = [python, "-P", str(RUNNER), str(page)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{page.name}:\n{done.stderr[-3000:]}"
    outputs = json.loads(done.stdout.splitlines()[-1])
    for index, block in shown_outputs(page.read_text("utf-8")):
        printed, shown = set(masked(outputs[index])), masked(block.content)
        missing = [line for line in shown if line not in printed]
        assert len(missing) <= (1 - SAME) * len(shown), f"{page.name} shows what is not printed: {missing}. {UPDATE} {page}"


def test_the_four_users_have_a_tutorial() -> None:
    assert {page.stem for page in PAGES} == {"embeddings", "operation", "photos", "research"}


def test_the_python_of_the_quickstart_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (PAGES[0].parents[1] / "quickstart.md").read_text("utf-8")
    (block,) = (block for block in blocks_of(page) if block.language == "python")
    exec(block.content, {"__name__": "__main__"})
    assert "'T1'" in capsys.readouterr().out
