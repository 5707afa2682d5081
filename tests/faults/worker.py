"""Process that injects faults into one command and prints what it found as JSON: ``python -m tests.faults.worker``."""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from . import flips
from .campaign import Tally, crash_points, failing_calls, power_losses, random_kills
from .concurrency import first_loads_of_one_table, trainings_to_one_folder, writers_of_one_model
from .runs import Bench
from .shim import Shim

TOGETHER, FLIPPED = "at the same time", "flipped bits"  # in place of the name of a command
FLIPS = 500  # flipped bits of each file
PARTS = {"crash": crash_points, "failing": failing_calls, "power": power_losses}


def main() -> None:
    """Run the parts of a campaign that the arguments ask for; prints one line for each command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs="+", help="NAME, or NAME:POINTS to try that number of points of each part")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--kills", type=int, default=0, help="number of crashes at random times")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    shim = Shim(args.library)
    for number, given in enumerate(args.commands):
        name, _, points = given.partition(":")
        args.points = int(points) if points else None
        started, tally, folder = time.monotonic(), Tally(name), args.folder / str(number)
        operations = KINDS.get(name, _faults)(args, folder, shim, tally)
        found = {"name": name, "operations": operations, "counts": tally.counts, "examples": tally.examples}
        sys.stdout.write(json.dumps({**found, "seconds": round(time.monotonic() - started, 1)}) + "\n")
        sys.stdout.flush()
        shutil.rmtree(folder)


def _faults(args: argparse.Namespace, folder: Path, shim: Shim, tally: Tally) -> int:
    """Inject faults into one command; returns the number of its operations."""
    bench = Bench(tally.name, folder, shim)
    for path in bench.left_without_fault:
        tally.note("leftovers", "without a fault", path)
    for part in args.parts:
        PARTS[part](bench, tally, args.points, args.seed)
    if args.kills:
        random_kills(bench, tally, args.kills, args.seed)
    return len(bench.operations)


def _at_the_same_time(_: argparse.Namespace, folder: Path, shim: Shim, tally: Tally) -> int:
    """Run commands at the same time on the same files."""
    checks = {"classes-add": writers_of_one_model, "train-cvc": trainings_to_one_folder, "train": first_loads_of_one_table}
    for name, check in checks.items():
        check(Bench(name, folder / name, shim), tally)
    return 0


def _flipped_bits(args: argparse.Namespace, folder: Path, shim: Shim, tally: Tally) -> int:
    """Flip bits of stored files."""
    for name, check in flips.KINDS.items():
        check(Bench(name, folder / name, shim), tally, FLIPS if args.points is None else args.points)
    return 0


KINDS = {TOGETHER: _at_the_same_time, FLIPPED: _flipped_bits}

if __name__ == "__main__":
    main()
