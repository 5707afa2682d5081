"""Commands that change one model at the same time: nothing that was acknowledged is lost."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sightunseen.core.locks import locked
from sightunseen.methods import load_model

Run = Callable[[str], tuple[int, str, str]]
WRITERS = 16


def command(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sightunseen", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_all_classes_that_concurrent_writers_add_are_there(desk: Path) -> None:
    attribute = load_model("model").table_.attribute_names[0]
    writers = {
        f"new class {number}": command(
            "classes", "add", "model", "--name", f"new class {number}", "--attribute", f"{attribute}={number}"
        )
        for number in range(WRITERS)
    }
    acknowledged = [name for name, writer in writers.items() if writer.communicate()[1] is not None and not writer.returncode]
    assert len(acknowledged) == WRITERS
    assert set(acknowledged) <= set(load_model("model").classes_.tolist())
    assert not [path.name for path in desk.iterdir() if path.name.startswith(".")]


def test_second_run_with_the_same_output_is_refused(run: Run, desk: Path) -> None:
    before = sorted(desk.rglob("*"))
    with locked(Path("other")):
        code, _, error = run("train data --out other")
    assert code == 2
    assert re.search(r"another process is writing to .*other\. Wait until it has finished", error)
    assert sorted(desk.rglob("*")) == before
