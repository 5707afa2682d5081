"""Compare methods under one protocol: run a plan, show its results beside the published ones."""

import argparse
import shlex
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import positive

    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    run_parser = verbs.add_parser("run", help="carry out the jobs of a plan; go on where an earlier run stopped")
    run_parser.add_argument("plan", metavar="PLAN", help="a TOML file, or a ready plan: paper-tables, two-cores")
    run_parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the outcomes are kept")
    run_parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder that the plan's data sets are in")
    run_parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="jobs at a time (default: 1)")
    run_parser.add_argument("--seeds", type=positive, metavar="N", help="seeds 0 to N - 1 instead of the plan's")
    run_parser.add_argument("--retry", action="store_true", help="try jobs again that failed before")
    show = verbs.add_parser("show", help="tables of what came out: mean ± std, ranks, the published numbers")
    show.add_argument("results", type=Path, metavar="FOLDER", help="the --out of a run")
    show.add_argument("--setting", choices=("zsl", "gzsl"), help="only this setting's numbers, in full")
    show.add_argument("--format", choices=("table", "md", "csv", "latex"), default="table", help="default: table")


def run(args: argparse.Namespace) -> int:
    """Run or show."""
    return _run(args) if args.verb == "run" else _show(args)


def _run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from sightunseen.benchmark.plan import read_plan
    from sightunseen.benchmark.runner import run_plan
    from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Store

    plan = read_plan(args.plan, args.data)
    plan = plan if args.seeds is None else replace(plan, seeds=args.seeds)
    try:
        counts = run_plan(
            plan, Store(args.out), args.jobs, args.retry, tell=lambda line: print(line, file=sys.stderr, flush=True)
        )
    except KeyboardInterrupt:
        print(f"stopped; what is done is kept in {args.out}. The same command goes on from there.", file=sys.stderr)
        return 130
    print(f"{counts[DONE]} done, {counts[FAILED]} failed, {counts[SKIPPED]} skipped")
    print(f"next: sightunseen benchmark show {shlex.quote(str(args.out))}")
    return 1 if counts[FAILED] else 0


def _show(args: argparse.Namespace) -> int:
    from sightunseen.benchmark.formats import FORMATS
    from sightunseen.benchmark.store import Store
    from sightunseen.benchmark.tables import tables
    from sightunseen.cli._tables import print_table

    found = tables(Store(args.results).outcomes().values(), args.setting)
    if args.format != "table":
        print(FORMATS[args.format](found))
        return 0
    for table in found:
        print_table(table.title, table.columns, table.rows, fold=False)
        for note in table.notes:
            print(note)
        print()
    return 0
