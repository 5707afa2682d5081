"""Start-up time: heavy packages are imported only when needed. And closed pipes."""

import subprocess
import sys
from pathlib import Path

import pytest

from sightunseen.benchmark.outcome import SKIPPED, Outcome
from sightunseen.benchmark.store import Store

SHOWN = {
    "data": "CUB",
    "published_name": "CUB",
    "backbone": "ResNet-50",
    "method": "ESZSL",
    "label": "ESZSL",
    "setting": "inductive",
    "selection": "validation",
    "seed": 0,
}
HEAVY = {
    "torch",
    "numpy",
    "scipy",
    "sklearn",
    "pyarrow",
    "rich",
    "safetensors",
    "altair",
    "jinja2",
    "PIL",
    "onnx",
    "onnxruntime",
    "fastapi",
    "uvicorn",
}
CLI = ("-m", "sightunseen")
COMMANDS = (
    "inspect",
    "embed",
    "train",
    "evaluate",
    "adapt",
    "predict",
    "classes",
    "export",
    "report",
    "serve",
    "methods",
    "benchmark",
    "ablate",
    "demo",
)


def imported(*arguments: str) -> set[str]:
    """Packages that a Python process imports."""
    ended = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}


def test_importing_the_package_imports_nothing_heavy() -> None:
    found = imported("-c", "import sightunseen")
    assert "sightunseen" in found
    assert not found & HEAVY


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), *((name, "--help") for name in COMMANDS)], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    found = imported(*CLI, *arguments)
    assert "argparse" in found
    assert not found & HEAVY


def test_inspecting_data_never_imports_torch(desk: Path) -> None:
    found = imported(*CLI, "inspect", "data")
    assert "numpy" in found
    assert "torch" not in found


def test_listing_methods_and_showing_results_never_import_torch(desk: Path) -> None:
    assert "torch" not in imported(*CLI, "methods")
    Store(Path("results")).add(Outcome(SKIPPED, {"skipped": ["CUB", "ESZSL", "validation", 0]}, SHOWN, "the data are missing"))
    found = imported(*CLI, "benchmark", "show", "results")
    assert "rich" in found
    assert not found & {"torch", "sklearn", "scipy"}


@pytest.mark.parametrize("line", ["--help", "train --help", "inspect data", "inspect data --json"])
def test_closed_pipe_is_not_an_error(desk: Path, line: str) -> None:
    with subprocess.Popen(
        [sys.executable, *CLI, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()  # before anything is written
        process.stdout = None
        err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (0, "")


def test_head_of_the_output_prints_no_traceback(desk: Path) -> None:
    piped = f"{sys.executable} -m sightunseen inspect benchmark | head -1"
    ended = subprocess.run(piped, shell=True, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == ("benchmark", "")
