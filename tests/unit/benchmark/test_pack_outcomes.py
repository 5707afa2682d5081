"""Packed outcomes give the same tables, and none of their jobs is repeated."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sightunseen.benchmark.formats import as_json
from sightunseen.benchmark.leaderboard import leaderboard_tables
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED
from sightunseen.benchmark.plan import plan_of
from sightunseen.benchmark.runner import run_plan
from sightunseen.benchmark.store import Store

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "pack_outcomes.py"
BROKEN = {"name": "DEM", "settings": {"learning_rate": 1e30, "n_steps": 200, "hidden": 8}, "search": {}}
TRAINED = {"name": "ALE-tran", "settings": {"n_steps": 40}, "search": {}, "adaptation_search": {"alpha": [0.5, 0.9]}}


def test_packed_outcomes_are_a_smaller_results_folder(world_folder: Path, tmp_path: Path) -> None:
    content = {"method": [{"name": "ESZSL"}, TRAINED], "data": [{"path": "world"}]}
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    run_plan(plan_of({**content, "seeds": 2}, world_folder), first)
    run_plan(plan_of({"method": [BROKEN, {"name": "SAE"}], "data": [{"path": "world"}]}, world_folder), second)
    archive, unpacked = tmp_path / "outcomes.tar.xz", Store(tmp_path / "unpacked")
    subprocess.run([sys.executable, PROGRAM, first.folder, second.folder, "--out", archive], check=True)
    unpacked.folder.mkdir()
    with tarfile.open(archive) as found:
        assert {(entry.mtime, entry.uid, entry.mode) for entry in found} == {(0, 0, 0o644)}
        found.extractall(unpacked.folder, filter="data")

    whole = {job: one for store in (first, second) for job, one in store.outcomes().items() if one.state == DONE}
    packed = unpacked.outcomes()
    assert packed.keys() == whole.keys()
    assert as_json(leaderboard_tables(packed.values())) == as_json(leaderboard_tables(whole.values()))
    assert all(len(str(packed[job].record)) < len(str(whole[job].record)) for job in whole)
    printed: list[str] = []
    assert run_plan(plan_of({**content, "seeds": 2}, world_folder), unpacked, tell=printed.append) == {
        DONE: 4,
        FAILED: 0,
        SKIPPED: 0,
    }
    assert printed == ["4 of 4 jobs were finished in an earlier run"]
