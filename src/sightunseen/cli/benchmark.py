"""Compare methods under one protocol: run a plan, show its results beside the published ones."""

import argparse
import shlex
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import positive
    from sightunseen.cli._jobs import add_format_argument, add_job_arguments

    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    run_parser = verbs.add_parser("run", help="carry out the jobs of a plan; go on where an earlier run stopped")
    run_parser.add_argument("plan", metavar="PLAN", help="a TOML file, or a ready plan: foresight, paper-tables, two-cores")
    add_job_arguments(run_parser)
    run_parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder that the plan's data sets are in")
    run_parser.add_argument("--seeds", type=positive, metavar="N", help="seeds 0 to N - 1 instead of the plan's")
    show = verbs.add_parser("show", help="tables of what came out: mean ± std, ranks, the published numbers")
    show.add_argument("results", type=Path, metavar="FOLDER", help="the --out of a run")
    show.add_argument("--setting", choices=("zsl", "gzsl"), help="only this setting's numbers, in full")
    add_format_argument(show)


def run(args: argparse.Namespace) -> int:
    """Run or show."""
    return _run(args) if args.verb == "run" else _show(args)


def _run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from sightunseen.benchmark.plan import read_plan
    from sightunseen.cli._jobs import STOPPED, run_jobs

    plan = read_plan(args.plan, args.data)
    code = run_jobs(plan if args.seeds is None else replace(plan, seeds=args.seeds), args)
    if code != STOPPED:
        print(f"next: sightunseen benchmark show {shlex.quote(str(args.out))}")
    return code


def _show(args: argparse.Namespace) -> int:
    from sightunseen.benchmark.result_tables import tables
    from sightunseen.benchmark.store import Store
    from sightunseen.cli._jobs import print_tables

    print_tables(tables(Store(args.results).outcomes().values(), args.setting), args.format)
    return 0
