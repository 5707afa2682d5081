"""Jobs of a plan, carried out and shown: what ``benchmark`` and ``ablate`` share."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sightunseen.benchmark.plan import Plan
    from sightunseen.benchmark.result_tables import Table

FORMATS = ("table", "md", "csv", "latex")
STOPPED = 130


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Where outcomes go, and how jobs are carried out."""
    from sightunseen.cli._arguments import positive

    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the outcomes are kept")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="jobs at a time (default: 1)")
    parser.add_argument("--retry", action="store_true", help="try jobs again that failed before")


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """How tables are written."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")


def run_jobs(plan: "Plan", args: argparse.Namespace, counts_to: TextIO | None = None) -> int:
    """Carry out the jobs of a plan, a line each on stderr; the exit code: 0, 1 if some failed, 130 if it was stopped."""
    from sightunseen.benchmark.runner import run_plan
    from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Store

    try:
        counts = run_plan(
            plan, Store(args.out), args.jobs, args.retry, tell=lambda line: print(line, file=sys.stderr, flush=True)
        )
    except KeyboardInterrupt:
        print(f"stopped; what is done is kept in {args.out}. The same command goes on from there.", file=sys.stderr)
        return STOPPED
    print(f"{counts[DONE]} done, {counts[FAILED]} failed, {counts[SKIPPED]} skipped", file=counts_to)
    return 1 if counts[FAILED] else 0


def print_tables(tables: Sequence["Table"], form: str) -> None:
    """Tables with their notes, in one of ``FORMATS``."""
    from sightunseen.benchmark import formats
    from sightunseen.cli._printing import print_table

    if form != "table":
        print(formats.FORMATS[form](tables))
        return
    for table in tables:
        print_table(table.title, table.columns, table.rows, fold=False)
        for note in table.notes:
            print(note)
        print()
