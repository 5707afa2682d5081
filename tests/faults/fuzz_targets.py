"""Targets of the fuzzer: functions that make a case from random numbers, one for each kind of input."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import fuzz_data as data
from . import fuzz_files as made
from . import fuzz_training as work
from .fuzz_arguments import random_arguments
from .fuzz_case import Case
from .fuzz_shelf import BACKBONE, CVC_RUN, PLAN
from .fuzz_values import SAFE_DTYPES, damaged, odd_text, odd_value, random_edits

Make = Callable[[random.Random, Path], Case]


def plans(r: random.Random, _: Path) -> Case:
    """Plans of a benchmark."""
    plan = json.loads(json.dumps(PLAN))
    if r.random() < 0.8:
        plan["data"][0]["path"] = "nowhere"  # jobs are skipped, which takes no time
    content = made.plan_text(r, plan)
    if r.random() < 0.3:
        return Case(["call:sightunseen.benchmark.plan:read_plan", "plan.toml"], {"plan.toml": content})
    return Case(["benchmark", "run", "plan.toml", "--out", "results"], {"plan.toml": content}, ["results"], long=True)


def results(r: random.Random, shelf: Path) -> Case:
    """Outcomes of jobs."""
    jobs = sorted((shelf / "results" / "jobs").glob("*.json"))
    files: dict[str, Any] = {}
    for path in jobs:
        if not files or r.random() < 0.5:
            kept = json.loads(path.read_text("utf-8"))
            odd = {"kind": "outcome", "of": f"results/jobs/{path.name}", "edits": random_edits(r, kept)}
            files[f"results/jobs/{path.name}"] = odd if r.random() < 0.85 else damaged(r, path.read_bytes())
    if r.random() < 0.05:
        files[f"results/jobs/{r.choice(('x.json', 'é.json', '0.json'))}"] = made.document(r, odd_value(r))
    command = r.choice(
        (
            ["benchmark", "show", "results", "--format", r.choice(("table", "md", "csv", "latex"))],
            ["benchmark", "show", "results", "--setting", r.choice(("zsl", "gzsl"))],
            ["report", "results", "--out", "page.html"],
        )
        if r.random() < 0.9
        else (["benchmark", "run", "plan.toml", "--out", "results", "--retry"],)
    )
    if command[1] == "run":
        files["plan.toml"] = b'methods = ["ESZSL"]\nselection = "none"\n[[data]]\npath = "nowhere"\n'
    return Case(command, files, ["page.html", "results"], long=True)


def models(r: random.Random, shelf: Path) -> Case:
    """Model folders with valid checksums and odd content, of every method."""
    of = r.choice(("model", "seer", *(f"methods/{path.name}" for path in sorted((shelf / "methods").iterdir()))))
    recipe: dict[str, Any] = {"kind": "model", "of": of}
    kind = r.randrange(10)
    if kind < 5:
        recipe["edits"] = random_edits(r, json.loads((shelf / of / "model.json").read_text("utf-8")))
    elif kind < 8:
        recipe["arrays"] = [_array_change(r, _array_names(shelf / of)) for _ in range(r.choice((1, 1, 2)))]
    elif kind == 8:
        recipe["record"] = random_edits(r, json.loads((shelf / of / "record.json").read_text("utf-8")))
    else:
        recipe[r.choice(("weights", "record_text"))] = damaged(
            r, r.choice((b"", b"{}", b"\xff" * 9, b"[" * 9999, b"\x10\x00\x00\x00\x00\x00\x00\x00{}"))
        ).hex()
    images = "{shelf}/photos/seen/red/0.png" if of == "seer" else "{shelf}/data/features.npz"
    data = ["{shelf}/photos", "--classes", "{shelf}/colours.csv"] if of == "seer" else ["{shelf}/data"]
    command = r.choice(
        (
            *(
                ["classes", "list", "m"],
                ["predict", "m", images, "--top", "2"],
                ["predict", "m", images, "--out", "answers.csv"],
            ),
            *(["evaluate", "m", *data], ["export", "m", "--linear", "l.npz"], ["export", "m", "--onnx", "m.onnx"]),
            ["classes", "add", "m", "--name", "new", *[f"--attribute=a{k}=1" for k in range(6)], "--out", "new"],
            ["classes", "remove", "m", "--name", r.choice(("thing 009", "white")), "--out", "new"],
            ["predict", "m", images, "--reasons", "2"],
        )
        if r.random() < 0.95
        else (
            ["adapt", "m", *data, "--out", "new", "--select", "none"],
            ["report", "m", *data, "--quick", "--out", "page.html"],
        )
    )
    return Case(command, {"m": recipe}, ["answers.csv", "l.npz", "m.onnx", "new", "page.html"], long=command[0] == "adapt")


def checkpoints(r: random.Random, shelf: Path) -> Case:
    """Checkpoints of a run that is resumed."""
    from safetensors import safe_open

    recipe: dict[str, Any] = {"kind": "checkpoint", "of": "checkpoint"}
    with safe_open(next((shelf / "checkpoint").glob("*.safetensors")), framework="numpy") as file:
        names, progress = list(file.keys()), json.loads(file.metadata()["progress"])
    kind = r.randrange(6)
    if kind < 3:
        recipe["edits"] = random_edits(r, progress)
    elif kind < 5:
        recipe["arrays"] = [_array_change(r, names) for _ in range(r.choice((1, 1, 2)))]
    else:
        recipe |= r.choice(
            (
                {"metadata": False},
                {"progress": r.choice(("", "[]", "{", "[" * 5000, odd_text(r, 400).encode("utf-8", "replace").decode()))},
            )
        )
    return Case([*CVC_RUN, "--resume"], {"new.checkpoint": recipe}, ["new", "new.checkpoint"])


def arguments(r: random.Random, _: Path) -> Case:
    """Arguments of every command."""
    return random_arguments(r)


def damaged_files(r: random.Random, shelf: Path) -> Case:
    """Valid files with changed bytes."""
    choices: list[tuple[str, str, list[str]]] = [
        ("data", "data/features.npz", ["inspect", "data"]),
        ("data", "data/classes.csv", ["inspect", "data"]),
        ("benchmark", "benchmark/res101.mat", ["inspect", "benchmark"]),
        ("benchmark", "benchmark/att_splits.mat", ["inspect", "benchmark"]),
        ("model", "model/model.json", ["classes", "list", "model"]),
        ("model", "model/weights.safetensors", ["classes", "list", "model"]),
        ("model", "model/record.json", ["evaluate", "model", "{shelf}/data"]),
        (
            "mean.onnx",
            "mean.onnx",
            ["embed", "{shelf}/photos/seen/red", "--backbone", "onnx:mean.onnx?size=8", "--out", "f.npz"],
        ),
        ("photos", "photos/seen/red/0.png", ["inspect", "photos", "--classes", "{shelf}/colours.csv", "--backbone", BACKBONE]),
        ("new.checkpoint", "new.checkpoint/training-on-all-seen-classes.safetensors", [*CVC_RUN, "--resume"]),
    ]
    folder, name, command = r.choice(choices)
    source = name.replace("new.checkpoint", "checkpoint")
    files: dict[str, Any] = {}
    if folder != name:
        root = shelf / folder.replace("new.checkpoint", "checkpoint")
        files = {f"{folder}/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*") if path.is_file()}
    files[name] = damaged(r, (shelf / source).read_bytes())
    return Case(command, files, ["f.npz", "new", "new.checkpoint"])


def _array_names(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(folder / "weights.safetensors", framework="numpy") as file:
        return list(file.keys())


def _array_change(r: random.Random, names: list[str]) -> list[Any]:
    operation = r.choice(("delete", "rename", "dtype", "shape", "shape", "fill"))
    value = {
        "delete": lambda: None,
        "rename": lambda: odd_text(r, 100).encode("utf-8", "replace").decode(),
        "dtype": lambda: r.choice(SAFE_DTYPES),
        "shape": lambda: list(r.choice(((), (0,), (1,), (3,), (2, 3), (0, 5), (1, 1, 1), (40, 40), (12,), (12, 6), (8, 5)))),
        "fill": lambda: r.choice((0.0, float("nan"), float("inf"), 1e38, 1e300, -1.0)),
    }[operation]()
    return [r.choice(names), operation, value]


TARGETS: dict[str, Make] = {
    "tables": data.tables,
    "features": data.features,
    "class files": data.class_files,
    "benchmark folders": data.benchmark_folders,
    "plans": plans,
    "results": results,
    "models": models,
    "checkpoints": checkpoints,
    "photos": data.photos,
    "backbones": data.backbones,
    "candidates": data.candidates,
    "arguments": arguments,
    "training": work.training,
    "evaluation": work.evaluation,
    "caches": work.caches,
    "damaged files": damaged_files,
}
