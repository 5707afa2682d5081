"""Run an ablation study: of CVC as in the paper's Tables 2 and 5, or of Foresight."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightunseen.benchmark.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_repeated, positive
    from sightunseen.cli._jobs import add_format_argument, add_job_arguments

    add_data_arguments(parser)
    add_job_arguments(parser)
    what = "method to study (default: CVC, as in the paper's Tables 2 and 5)"
    parser.add_argument("--of", choices=("CVC", "Foresight"), default="CVC", help=what)
    parser.add_argument("--seeds", type=positive, default=3, metavar="N", help="number of seeds, from 0 (default: 3)")
    add_repeated(parser, "--set", "NAME=VALUE", "set a hyperparameter of all CVC variants, such as n_steps=500")
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the jobs that are not done yet and print the tables; returns the exit code."""
    from sightunseen.benchmark.ingredients import study_tables
    from sightunseen.benchmark.paper_ablation import ablation_tables
    from sightunseen.benchmark.store import Store
    from sightunseen.cli._jobs import STOPPED, print_tables, run_jobs

    Store(args.out).check()
    code = run_jobs(_plan(args), args, counts_to=sys.stderr)
    if code == STOPPED:
        return code
    tables = study_tables if args.of == "Foresight" else ablation_tables
    print_tables(tables(Store(args.out).outcomes().values()), args.format)
    hint = f"next: sightunseen report {shlex.quote(str(args.out))} --out ablation.html"
    print(hint, file=sys.stdout if args.format == "table" else sys.stderr)
    return code


def _plan(args: argparse.Namespace) -> "Plan":
    """Build the plan and validate all hyperparameters before any job runs."""
    from dataclasses import replace

    from sightunseen.benchmark.entries import DataEntry
    from sightunseen.benchmark.ingredients import study_plan
    from sightunseen.benchmark.jobs import opened, specifications_of
    from sightunseen.benchmark.paper_ablation import ablation_plan
    from sightunseen.cli._arguments import parse_settings

    classes = None if args.classes is None else str(args.classes)
    entry = DataEntry(
        str(args.data.resolve()), args.features, args.splits, args.semantics, classes, backbone=args.backbone or ""
    ).located()
    make = study_plan if args.of == "Foresight" else ablation_plan
    plan = make(entry, len(opened(entry).data.seen), args.seeds, parse_settings(args.set))
    for job in replace(plan, seeds=1).jobs():
        specifications_of(job)
    return plan
