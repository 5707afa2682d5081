"""Compare methods under one protocol: run a plan, and show its results next to published ones."""

import argparse
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sightunseen.benchmark.outcome import Outcome

BY_ENDING = {".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json"}  # format of a file of tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_repeated, positive
    from sightunseen.cli._cluster import add_cluster_argument
    from sightunseen.cli._jobs import FORMATS, add_job_arguments

    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    run_parser = verbs.add_parser("run", help="run the jobs of a plan that are not done yet")
    names = "foresight, leaderboard, paper-tables, robustness, scalings, two-cores"
    run_parser.add_argument("plan", metavar="PLAN", help=f"TOML file, or one of: {names}")
    add_job_arguments(run_parser)
    run_parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder that contains the data sets of the plan")
    run_parser.add_argument(
        "--seeds", type=positive, metavar="N", help="number of seeds, or of draws, from 0 (default: that of the plan)"
    )
    what = "feature file to use in all xlsa17 folders of the plan, instead of those that it names"
    run_parser.add_argument("--features", metavar="NAME", help=what)
    what = "budget of gradient-trained methods: quick, or full (sizes and steps of the authors) (default: those of the plan)"
    run_parser.add_argument("--budget", choices=("quick", "full"), help=what)
    what = "feature scaling: own, that of each method, or searched, chosen on validation classes (default: those of the plan)"
    run_parser.add_argument("--feature-scaling", choices=("own", "searched"), help=what)
    add_repeated(run_parser, "--method", "NAME", "run only this method of the plan")
    add_cluster_argument(run_parser)
    show = verbs.add_parser("show", help="print tables of results: mean ± standard deviation, ranks, published numbers")
    show.add_argument("results", type=Path, metavar="FOLDER", help="results folder (the --out of a run)")
    show.add_argument(
        "--setting", choices=("zsl", "gzsl"), help="show all metrics of one setting (default: the main metrics of both)"
    )
    what = (
        "paper: T1, U, S and H of all data sets side by side, as in Tables 3 and 4 of the paper; leaderboard: mean ranks over "
        "all data sets, Foresight's lead, and each data set with costs and origins of published numbers (default: one table "
        "per data set and setting)"
    )
    show.add_argument("--layout", choices=("paper", "leaderboard"), help=what)
    what = "format of the tables (default: by the ending of --out: .md, .csv, .tex or .json, otherwise table)"
    show.add_argument("--format", choices=FORMATS, help=what)
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
    plan = plan if args.budget is None else replace(plan, budgets=(args.budget,))
    plan = plan if args.feature_scaling is None else replace(plan, scalings=(args.feature_scaling,))
    plan = plan.only(args.method) if args.method else plan
    with connected(args) as cluster:
        code = run_jobs(plan, args, execute=executing_on(cluster, args.jobs))
    if code != STOPPED:
        print(f"next: sightunseen benchmark show {shlex.quote(str(args.out))}")
    return code


def _show(args: argparse.Namespace) -> int:
    from sightunseen.cli._output import STDOUT, check_output
    from sightunseen.core.errors import SettingsError
    from sightunseen.core.files import written_atomically

    check_output(args.out)
    args.format = args.format or BY_ENDING.get(args.out.suffix.lower(), "table")
    if args.layout and args.setting:
        raise SettingsError(f"--layout {args.layout} has the metrics of both settings. Leave out --setting.")
    layouts = {None: _one_by_one, "paper": _paper_layout, "leaderboard": _leaderboard}
    count, show = layouts[args.layout](args)
    if args.out == STDOUT:
        show()
        return 0
    with written_atomically(args.out) as path, open(path, "w", encoding="utf-8") as file, redirect_stdout(file):
        show()
    print(f"wrote {count} table{'s' * (count > 1)} to {args.out}")
    return 0


def _one_by_one(args: argparse.Namespace) -> "tuple[int, Callable[[], None]]":
    """Number of tables, one per data set and setting, and the function that prints them."""
    from sightunseen.benchmark.comparison_tables import comparison_tables
    from sightunseen.benchmark.result_tables import tables
    from sightunseen.cli._jobs import print_tables

    outcomes = _outcomes(args.results)
    found = [*tables(outcomes, args.setting), *comparison_tables(outcomes, args.setting)]
    return len(found), lambda: print_tables(found, args.format)


def _paper_layout(args: argparse.Namespace) -> "tuple[int, Callable[[], None]]":
    """Number of tables in the layout of the paper, and the function that prints them."""
    from sightunseen.benchmark.paper_formats import TEXT, as_paper, as_table
    from sightunseen.benchmark.paper_layout import paper_tables
    from sightunseen.cli._jobs import print_tables

    found = paper_tables(_outcomes(args.results))
    _check_shown(args, found)
    if args.format == TEXT:
        return len(found), lambda: print_tables([as_table(table) for table in found], TEXT)
    return len(found), lambda: print(as_paper(found, args.format))


def _leaderboard(args: argparse.Namespace) -> "tuple[int, Callable[[], None]]":
    """Number of tables of the leaderboard, and the function that prints them."""
    from sightunseen.benchmark.leaderboard import leaderboard_tables
    from sightunseen.cli._jobs import print_tables

    found = leaderboard_tables(_outcomes(args.results))
    _check_shown(args, found)
    return len(found), lambda: print_tables(found, args.format)


def _outcomes(folder: Path) -> "Collection[Outcome]":
    """Outcomes of a results folder."""
    from sightunseen.benchmark.store import Store
    from sightunseen.core.errors import StorageError

    found = Store(folder).outcomes().values()
    if not found:
        raise StorageError(f"{folder} contains no outcome yet. Run the jobs first: sightunseen benchmark run")
    return found


def _check_shown(args: argparse.Namespace, found: "Collection[object]") -> None:
    """Check that a layout has a table."""
    from sightunseen.core.errors import StorageError

    if not found:
        raise StorageError(
            f"{args.results} has no result for --layout {args.layout}. See its jobs with: "
            f"sightunseen benchmark show {shlex.quote(str(args.results))}"
        )
