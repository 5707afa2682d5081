"""The whole campaign: a fault at every operation of every command that writes (``python -m tests.faults.chaos``).

Each command is killed before each of its file operations and in the middle of each write; each operation fails with each error
that it can have; each write is short; the disk is full from each write on; power is lost after each operation. Then commands
are killed at random times, and run at the same time on the same files. Exit code 1 if anything is broken, vanished, lost or
left behind, or if a rerun differs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .campaign import COUNTED
from .commands import COMMANDS
from .shim import build, missing_part
from .worker import FLIPPED, TOGETHER

REPOSITORY = Path(__file__).parents[2]


def work_folder() -> str:
    """A folder to work in; in memory if possible, since every run flushes its files to disk."""
    memory = Path("/dev/shm")
    return tempfile.mkdtemp(prefix="sightunseen-faults-", dir=memory if os.access(memory, os.W_OK) else None)


def worker(commands: Sequence[str], library: Path, folder: Path, *options: object) -> dict[str, dict[str, Any]]:
    """Inject faults into commands, in one process.

    Parameters
    ----------
    commands : sequence of str
        Names of the commands, each with the number of points after a colon, if not all are tried.
    library : Path
        The compiled fault injection library.
    folder : Path
        Folder to work in.
    *options : object
        Further arguments of ``worker.py``.

    Returns
    -------
    dict of str to dict
        By command ``operations``, ``counts``, ``examples`` and ``seconds``.
    """
    line = [sys.executable, "-m", "tests.faults.worker", *commands, "--library", library, "--folder", folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}
    ran = subprocess.run(
        [*map(str, line), *map(str, options)], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    found = {one["name"]: one for one in map(json.loads, ran.stdout.splitlines())}
    crashed = f"the worker ended with exit {ran.returncode}: {ran.stderr[-1000:]}"
    nothing = {"operations": 0, "counts": {"broken": 1}, "examples": [crashed], "seconds": 0.0}
    names = [command.partition(":")[0] for command in commands]
    return {name: found.get(name, {"name": name, **nothing}) for name in names}


def main() -> int:
    """Run the campaign and print a table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commands", nargs="+", default=[*COMMANDS, TOGETHER, FLIPPED], help="commands to try (default: all)")
    parser.add_argument("--kills", type=int, default=1000, help="kills at random times, spread over the commands")
    parser.add_argument("--points", type=int, help="number of faults of each kind and command (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="commands tried in parallel")
    args = parser.parse_args()
    console, started = Console(width=160), time.monotonic()
    if missing_part() is not None:
        console.print(missing_part())
        return 1
    base = Path(work_folder())
    library = build(base)
    killed = [name for name in args.commands if name in COMMANDS]
    kills = {name: len(range(number, args.kills, len(killed))) for number, name in enumerate(killed)}
    found = []
    with ThreadPoolExecutor(args.jobs) as pool:
        points = "" if args.points is None else f":{args.points}"
        jobs = [
            pool.submit(worker, [name + points], library, base / name, "--seed", args.seed, "--kills", kills.get(name, 0))
            for name in args.commands
        ]
        for job in as_completed(jobs):
            found += job.result().values()
            console.print(_line(found[-1]), highlight=False)
    shutil.rmtree(base)
    _print(console, found, time.monotonic() - started)
    return int(any(one["counts"].get(kind) for one in found for kind in COUNTED[1:]))


def _line(one: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in one["counts"].items())
    return "\n".join([f"{one['name']}: {counts} ({one['seconds']:.0f} s)", *(f"  {text}" for text in one["examples"])])


def _print(console: Console, found: list[dict[str, Any]], seconds: float) -> None:
    table = Table("command", "operations", *COUNTED, "seconds", title="Faults in commands that write")
    for one in sorted(found, key=lambda one: str(one["name"])):
        counts = [str(one["counts"].get(kind, 0)) for kind in COUNTED]
        table.add_row(one["name"], str(one["operations"]), *counts, f"{one['seconds']:.0f}")
    totals = [sum(one["counts"].get(kind, 0) for one in found) for kind in COUNTED]
    table.add_section()
    table.add_row("all", str(sum(one["operations"] for one in found)), *map(str, totals), f"{seconds:.0f}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
