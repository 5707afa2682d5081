"""Compare methods under one protocol: run a plan, and show its results next to published ones."""

import argparse
import shlex
from contextlib import redirect_stdout
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import positive
    from sightunseen.cli._cluster import add_cluster_argument
    from sightunseen.cli._jobs import add_format_argument, add_job_arguments

    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    run_parser = verbs.add_parser("run", help="run the jobs of a plan that are not done yet")
    run_parser.add_argument("plan", metavar="PLAN", help="TOML file, or one of: foresight, paper-tables, robustness, two-cores")
    add_job_arguments(run_parser)
    run_parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder that contains the data sets of the plan")
    run_parser.add_argument(
        "--seeds", type=positive, metavar="N", help="number of seeds, or of draws, from 0 (default: that of the plan)"
    )
    what = "feature file to use in all xlsa17 folders of the plan, instead of those that it names"
    run_parser.add_argument("--features", metavar="NAME", help=what)
    add_cluster_argument(run_parser)
    show = verbs.add_parser("show", help="print tables of results: mean ± standard deviation, ranks, published numbers")
    show.add_argument("results", type=Path, metavar="FOLDER", help="results folder (the --out of a run)")
    show.add_argument(
        "--setting", choices=("zsl", "gzsl"), help="show all metrics of one setting (default: the main metrics of both)"
    )
    add_format_argument(show)
    show.add_argument("--out", type=Path, default=Path("-"), metavar="FILE", help="file to write (default: -, stdout)")


def run(args: argparse.Namespace) -> int:
    """Run a plan or show its results; returns the exit code."""
    return _run(args) if args.verb == "run" else _show(args)


def _run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from sightunseen.benchmark.plan import read_plan
    from sightunseen.cli._cluster import connected, executing_on
    from sightunseen.cli._jobs import STOPPED, run_jobs

    plan = read_plan(args.plan, args.data)
    plan = plan if args.seeds is None else replace(plan, seeds=args.seeds)
    plan = plan if args.features is None else plan.using_features(args.features)
    with connected(args) as cluster:
        code = run_jobs(plan, args, execute=executing_on(cluster, args.jobs))
    if code != STOPPED:
        print(f"next: sightunseen benchmark show {shlex.quote(str(args.out))}")
    return code


def _show(args: argparse.Namespace) -> int:
    from sightunseen.benchmark.comparison_tables import comparison_tables
    from sightunseen.benchmark.result_tables import tables
    from sightunseen.benchmark.store import Store
    from sightunseen.cli._jobs import print_tables
    from sightunseen.cli._output import STDOUT, check_output
    from sightunseen.core.files import written_atomically

    check_output(args.out)
    outcomes = Store(args.results).outcomes().values()
    found = [*tables(outcomes, args.setting), *comparison_tables(outcomes, args.setting)]
    if args.out == STDOUT:
        print_tables(found, args.format)
        return 0
    with written_atomically(args.out) as path, open(path, "w", encoding="utf-8") as file, redirect_stdout(file):
        print_tables(found, args.format)
    print(f"wrote {len(found)} tables to {args.out}")
    return 0
