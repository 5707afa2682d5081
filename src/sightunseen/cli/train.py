"""Train a model; by default honestly: everything chosen on validation classes, one look at the test data."""

import argparse
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import add_data_arguments, add_run_arguments, positive

    add_data_arguments(parser)
    add_run_arguments(parser)
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="one of: sightunseen methods (default: Foresight; CVC with a preset or the protocol of the paper)",
    )
    parser.add_argument("--points", type=positive, default=10, help="times the model is measured along training (default: 10)")
    parser.add_argument(
        "--seed", type=int, default=0, help="all randomness, that of choosing too, follows from it (default: 0)"
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        default=1,
        metavar="N",
        help="train models of this many seeds, from --seed up, and report mean ± std; the first one is saved (default: 1)",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if there is one")


def run(args: argparse.Namespace) -> int:
    """Train, save, and say what came out."""
    from sightunseen.cli._data import open_examined
    from sightunseen.cli._run import long_work, prepare_output
    from sightunseen.methods import TrainedClassifier
    from sightunseen.presets import preset
    from sightunseen.protocols import run_training
    from sightunseen.seeds import check_seeds

    workspace = prepare_output(args)
    args.method = args.method or ("CVC" if args.preset != "fast" or args.protocol == "paper" else "Foresight")
    method, chosen = _method(args), preset(args.preset)
    settings, grid = _settings(args, method, chosen.settings)
    check_seeds(method(**settings), args.seeds, args.select == "validation")
    data, findings = open_examined(args, chosen.semantics, args.allow)
    options: dict[str, Any] = {
        "protocol": args.protocol,
        "select": args.select == "validation",
        "grid": grid,
        "n_folds": args.folds,
        "points": args.points,
        "n_seeds": args.seeds,
        "seed": args.seed,
    }
    identity = {"method": args.method, "settings": settings, "data": data.describe(), **options}
    with long_work(workspace, identity, issubclass(method, TrainedClassifier)) as hooks:
        model = run_training(method(**settings), data, workspace, findings=findings, hooks=hooks, **options)
    model.save(args.out)
    shutil.rmtree(workspace, ignore_errors=True)
    _report(model, args)
    return 0


def _method(args: argparse.Namespace) -> Any:
    """The class of the method asked for."""
    from sightunseen.catalogue import card_of
    from sightunseen.errors import SettingsError
    from sightunseen.methods import METHODS

    method = METHODS[card_of(args.method).estimator]
    if args.preset != "fast" and method is not METHODS["CVC"]:
        raise SettingsError(f"preset {args.preset} is one of CVC; {args.method} takes its settings by --set.")
    if args.device == "cuda" and "device" not in method._get_param_names():
        print(f"note: {args.method} computes on the processor; --device cuda changes nothing.", file=sys.stderr)
    return method


def _settings(args: argparse.Namespace, method: Any, preset: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The settings of the model, and those to choose among; what the method cannot mean is refused."""
    from sightunseen.cli._arguments import check_names, combinations, parse_settings, search_of
    from sightunseen.methods import METHODS

    options = {"seed": args.seed, "device": args.device}
    known, of_cvc = (set(kind._get_param_names()) for kind in (method, METHODS["CVC"]))
    given = parse_settings(args.set)
    grid = search_of(args, method.unasked_search(given))
    check_names(args.method, {**given, **grid}, known - options.keys(), of_cvc - options.keys())
    settings = {**preset, **given, **{name: value for name, value in options.items() if name in known}}
    for combination in combinations(grid):
        method(**{**settings, **combination}).check_settings()
    return settings, grid


def _report(model: Any, args: argparse.Namespace) -> None:
    from sightunseen.cli._arguments import shown_data
    from sightunseen.cli._tables import print_calibration, print_choice, print_results
    from sightunseen.methods import AdaptableClassifier

    record = model.record_
    print_choice(record)
    print_calibration(model.calibration_)
    if record.results:
        by = "chosen on TEST data" if record.protocol == "paper" else "test data looked at once"
        title = f"{record.data['name']}, protocol {record.protocol} ({by}), percent"
        print_results(title, _rows(record))
    of_seed = f", the model of seed {record.seed}," if record.seeds else ""
    print(f"saved {args.out}{of_seed} after {record.wall_seconds:.0f} s")
    if record.results and isinstance(model, AdaptableClassifier):
        model_folder, adapted = shlex.quote(str(args.out)), shlex.quote(f"{args.out}-t")
        print(f"next: sightunseen adapt {model_folder} {shown_data(args)} --out {adapted}")


def _rows(record: Any) -> dict[str, dict[str, Any]]:
    """The results; of several seeds each, then their mean and standard deviation."""
    if not record.seeds:
        return {"inductive": record.results}
    found = dict(zip(record.seeds["seeds"], record.seeds["results"], strict=True))
    return {
        **{f"seed {seed}": results for seed, results in found.items()},
        "mean": record.seeds["mean"],
        "± std": record.seeds["std"],
    }
