"""Pack the outcomes of results folders into one archive, without what neither tables nor later runs read.

    python benchmarks/pack_outcomes.py RESULTS [RESULTS ...] --out docs/leaderboard/outcomes.tar.xz

Unpacked into a folder, the outcomes are a results folder:

    mkdir results; tar xf docs/leaderboard/outcomes.tar.xz -C results
    sightunseen benchmark show results --layout leaderboard

``benchmark run`` with this folder runs only the jobs that are missing. Of the stopping points that a selection tried, T1 and H
remain, rounded. Failed and skipped jobs are left out. Of several outcomes of the same job, that of the last folder is packed.
"""

import argparse
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.benchmark.store import Store
from sightunseen.core.files import written_atomically

RECORD = ("results", "intervals", "settings", "selection", "data", "engine", "created")  # what is kept of a run record
POINT = ("steps", "T1", "H", "H_at_best_penalty")  # and of a stopping point


def shortened(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run record, and the record of the model that was adapted, with the entries that are kept."""
    found = {name: record[name] for name in RECORD if name in record}
    selection = dict(found.get("selection", {}))
    if "tried" in selection:
        selection["tried"] = [
            {**one, "points": [_rounded(point) for point in one["points"]]} if "points" in one else one
            for one in selection["tried"]
        ]
    found["selection"] = selection
    if record.get("parent"):
        found["parent"] = shortened(record["parent"])
    return found


def _rounded(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(point[name], 2) for name in POINT if name in point}


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove time, owner and permissions, so that the same outcomes give the same bytes."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.mode = 0o644
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Pack the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, help="results folders of `sightunseen benchmark run`")
    parser.add_argument("--out", required=True, type=Path, help="the archive, NAME.tar.xz")
    args = parser.parse_args()
    found: dict[str, Outcome] = {}
    for folder in args.results:
        found |= {job: outcome for job, outcome in Store(folder).outcomes().items() if outcome.state == DONE}
    with TemporaryDirectory() as work:
        store = Store(Path(work))
        store.jobs.mkdir()
        for outcome in found.values():
            store.add(replace(outcome, record=shortened(outcome.record)))
        with written_atomically(args.out) as temporary, tarfile.open(temporary, "w:xz", preset=9) as archive:
            for path in sorted(store.jobs.glob("*.json")):
                archive.add(path, f"jobs/{path.name}", filter=_anonymous)
    print(f"{len(found)} outcomes, {args.out.stat().st_size / 1e6:.1f} MB: {args.out}")


if __name__ == "__main__":
    main()
