"""Take a method apart on any data: CVC as the paper's Tables 2 and 5 do, or Foresight, ingredient by ingredient."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightunseen.benchmark.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import add_data_arguments, positive
    from sightunseen.cli._jobs import add_format_argument, add_job_arguments

    add_data_arguments(parser)
    add_job_arguments(parser)
    parser.add_argument(
        "--of",
        choices=("CVC", "Foresight"),
        default="CVC",
        help="the method to take apart (default: CVC, by the paper's Tables 2 and 5)",
    )
    parser.add_argument("--seeds", type=positive, default=3, metavar="N", help="seeds 0 to N - 1 (default: 3)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting of all variants, such as n_steps=500; may be given several times (with --of Foresight: "
        "of CVC beside it)",
    )
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out what is not done yet, and print the tables."""
    from sightunseen.benchmark.ingredients import study_tables
    from sightunseen.benchmark.paper_ablation import ablation_tables
    from sightunseen.benchmark.store import Store
    from sightunseen.cli._jobs import STOPPED, print_tables, run_jobs

    code = run_jobs(_plan(args), args, counts_to=sys.stderr)
    if code == STOPPED:
        return code
    tables = study_tables if args.of == "Foresight" else ablation_tables
    print_tables(tables(Store(args.out).outcomes().values()), args.format)
    following = f"next: sightunseen report {shlex.quote(str(args.out))} --out ablation.html"
    print(following, file=sys.stdout if args.format == "table" else sys.stderr)
    return code


def _plan(args: argparse.Namespace) -> "Plan":
    """The plan for these data; hyperparameters that a variant does not have or cannot take are an error before any job."""
    from sightunseen.benchmark.ingredients import study_plan
    from sightunseen.benchmark.jobs import opened, specifications_of
    from sightunseen.benchmark.paper_ablation import ablation_plan
    from sightunseen.benchmark.plan import DataEntry
    from sightunseen.cli._arguments import parse_settings

    classes = None if args.classes is None else str(args.classes)
    entry = DataEntry(
        str(args.data.resolve()), args.features, args.splits, args.semantics, classes, backbone=args.backbone or ""
    )
    make = study_plan if args.of == "Foresight" else ablation_plan
    plan = make(entry, len(opened(entry).data.seen), args.seeds, parse_settings(args.set))
    for job in plan.jobs():
        specifications_of(job)
    return plan
