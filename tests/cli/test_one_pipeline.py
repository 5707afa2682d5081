"""The same method, data and seed give identical numbers in every command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.store import Store

Run = Callable[[str], tuple[int, str, str]]

QUICK = {"CVC": {"hidden": 16, "n_steps": 200, "learning_rate": 0.01}}
METHODS = ("ESZSL", "Foresight", "CVC")
NUMBERS = ("T1", "U", "S", "H", "AUSUC")


def results(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "record.json").read_text("utf-8"))["results"]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_train_and_adapt_equal_the_benchmark(method: str, run: Run, desk: Path) -> None:
    settings = QUICK.get(method, {})
    transductive = {"Foresight": "Foresight-tran", "CVC": "CVC-tran-GXE"}.get(method)
    quick_adapt = {"rounds": 2, "steps_per_round": 20} if method == "CVC" else {}
    entries = [f'[[method]]\nname = "{method}"\nsettings = {_toml(settings)}\n']
    if transductive:
        entries.append(
            f'[[method]]\nname = "{transductive}"\nsettings = {_toml(settings)}\nadaptation = {_toml(quick_adapt)}\n'
        )
    Path("plan.toml").write_text("seeds = 2\n" + "".join(entries) + '[[data]]\npath = "data"\n')
    assert run("benchmark run plan.toml --out results")[0] == 0
    found = {(o.shown["label"], o.shown["seed"]): o.record["results"] for o in Store(Path("results")).outcomes().values()}
    assert len(found) == 2 * len(entries)
    for seed in (0, 1):
        options = " ".join(f"--set {name}={value}" for name, value in settings.items())
        assert run(f"train data --method {method} {options} --seed {seed} --out model-{seed}")[0] == 0
        assert results(f"model-{seed}") == found[method, seed]
        if transductive:
            options = " ".join(f"--set {name}={value}" for name, value in quick_adapt.items())
            assert run(f"adapt model-{seed} data {options} --out adapted-{seed}")[0] == 0
            assert results(f"adapted-{seed}") == found[transductive, seed]
    assert len({json.dumps(value) for value in found.values()}) > 1  # results are not constant


@pytest.mark.parametrize("method", METHODS)
def test_several_seeds_equal_single_runs(method: str, run: Run, desk: Path) -> None:
    options = f"train data --method {method} " + " ".join(
        f"--set {name}={value}" for name, value in QUICK.get(method, {}).items()
    )
    assert run(f"{options} --seeds 2 --out both")[0] == 0
    both = json.loads(Path("both", "record.json").read_text("utf-8"))["seeds"]["results"]
    for seed in (0, 1):
        assert run(f"{options} --seed {seed} --out alone-{seed}")[0] == 0
        assert results(f"alone-{seed}") == both[seed]


def _toml(values: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }"
