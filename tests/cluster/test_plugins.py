"""Plug-ins on a cluster: workers import them by their name."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.store import Store

Run = Callable[[str], tuple[int, str, str]]

EXAMPLE = Path(__file__).parents[2] / "examples" / "nearest_mean.py"


def test_plan_with_a_plugin(cluster: Any, tables: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLE, tables)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("plan.toml").write_text(
        'methods = ["nearest_mean:NearestMean"]\nseeds = 2\nselection = "none"\n[[data]]\npath = "features.npz"\n'
    )
    try:
        code, out, err = run("benchmark run plan.toml --out results --cluster ray --jobs 2")
    finally:
        sys.modules.pop("nearest_mean", None)
    assert (code, "2 done" in out) == (0, True), err
    names = {outcome.identity["method"]["name"] for outcome in Store(Path("results")).outcomes().values()}
    assert names == {"nearest_mean:NearestMean"}
