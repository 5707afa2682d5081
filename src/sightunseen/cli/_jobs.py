"""Running the jobs of a plan and printing their tables, for ``benchmark`` and ``ablate``."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sightunseen.benchmark.plan import Plan
    from sightunseen.benchmark.result_tables import Table
    from sightunseen.benchmark.runner import Execute

FORMATS = ("table", "md", "csv", "latex", "json")
STOPPED = 130


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of running jobs.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    """
    from sightunseen.cli._arguments import new_folder, positive

    parser.add_argument(
        "--out", type=new_folder, required=True, metavar="FOLDER", help="results folder; finished jobs in it are not repeated"
    )
    what = "number of jobs that run at the same time, on a cluster per node (default: 1)"
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help=what)
    parser.add_argument("--retry", action="store_true", help="run jobs again that failed in an earlier run")


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option of the table format.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    """
    parser.add_argument("--format", choices=FORMATS, default="table", help="format of the tables (default: table)")


def run_jobs(plan: "Plan", args: argparse.Namespace, counts_to: TextIO | None = None, execute: "Execute | None" = None) -> int:
    """Run the jobs of a plan, with one line per job on stderr.

    Parameters
    ----------
    plan : Plan
        The plan.
    args : argparse.Namespace
        Parsed arguments.
    counts_to : file, optional
        Where to print the numbers of jobs by state. Default: stdout.
    execute : callable, optional
        Carries out the jobs, see :func:`~sightunseen.benchmark.runner.run_plan`. Default: processes of this machine.

    Returns
    -------
    int
        Exit code: 0, 1 if a job failed or all were skipped, 130 if interrupted.
    """
    from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED
    from sightunseen.benchmark.runner import run_plan
    from sightunseen.benchmark.store import Store

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        counts = run_plan(plan, Store(args.out), args.jobs, args.retry, tell, execute)
    except KeyboardInterrupt:
        print(f"interrupted; finished jobs are in {args.out}. The same command resumes the run.", file=sys.stderr)
        return STOPPED
    print(f"{counts[DONE]} done, {counts[FAILED]} failed, {counts[SKIPPED]} skipped", file=counts_to)
    return 1 if counts[FAILED] or not counts[DONE] else 0


def print_tables(tables: Sequence["Table"], form: str) -> None:
    """Print tables with their notes.

    Parameters
    ----------
    tables : sequence of Table
        Tables to print.
    form : {"table", "md", "csv", "latex", "json"}
        Output format.
    """
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
