"""Adapt a model to unlabelled images of its unseen classes (transductive; of CVC, Algorithm 2)."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import add_data_arguments, add_run_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add_data_arguments(parser)
    add_run_arguments(parser)
    parser.add_argument(
        "--unlabelled",
        type=Path,
        metavar="FILE",
        help="features of unlabelled images (default: unseen classes' test images)",
    )
    parser.add_argument(
        "--hold-out",
        type=float,
        default=0.0,
        metavar="PART",
        help="keep this part of them from adapting, and measure on it alone, such as 0.5 (default: 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Adapt, save, and say what changed."""
    from sightunseen.cli._arguments import check_names, combinations, parse_settings, search_of
    from sightunseen.cli._data import load_unlabelled, open_examined
    from sightunseen.cli._run import long_work, prepare_output
    from sightunseen.cli._tables import print_calibration, print_choice, print_results
    from sightunseen.cli.evaluate import check_semantics, check_sizes, recorded_failures, say_if_other_data
    from sightunseen.dataset import apart
    from sightunseen.errors import ModelError
    from sightunseen.files import sha256_of
    from sightunseen.methods import AdaptableClassifier, TrainedClassifier, load_model
    from sightunseen.methods.cvc import CVC
    from sightunseen.methods.transductive import Adaptation
    from sightunseen.presets import preset
    from sightunseen.protocols import results_on_test, run_adaptation
    from sightunseen.seeds import seed_of

    workspace = prepare_output(args)
    model = load_model(args.model)
    if not isinstance(model, AdaptableClassifier):
        raise ModelError(f"{args.model} holds a {type(model).__name__} model, which has no transductive form.")
    check_semantics(model, args)
    settings = {**preset(args.preset).adaptation, **parse_settings(args.set)}
    grid = search_of(args, model.unasked_adaptation_search(settings))
    check_names(f"adapting a {type(model).__name__} model", {**settings, **grid}, model.adaptation_settings())
    if isinstance(model, CVC):
        for combination in combinations(grid):
            Adaptation(**{**settings, **combination})  # refuses what cannot be meant
    data, findings = open_examined(args, model.table_.use, [*args.allow, *recorded_failures(model)], model=model)
    say_if_other_data(model, data)
    check_sizes(model, data)
    unlabelled = None if args.unlabelled is None else load_unlabelled(args.unlabelled, model)
    images = None if args.unlabelled is None else sha256_of(args.unlabelled)
    sources = {"model": sha256_of(args.model / "weights.safetensors"), "unlabelled": images, "data": data.describe()}
    options: dict[str, Any] = {
        "protocol": args.protocol,
        "select": args.select == "validation",
        "grid": grid,
        "n_folds": args.folds,
        "hold_out": args.hold_out,
    }
    by_tasks = isinstance(model, TrainedClassifier)
    with long_work(workspace, {"settings": settings, **options, **sources}, by_tasks) as hooks:
        adapted = run_adaptation(model, data, workspace, unlabelled, settings, findings=findings, hooks=hooks, **options)
    adapted.save(args.out)
    shutil.rmtree(workspace, ignore_errors=True)
    record = adapted.record_
    assert record is not None
    print_choice(record)
    print_calibration(adapted.calibration_)
    if isinstance(model, CVC):
        _print_last_round(record.history)
    if record.results:
        measured_on = apart(data, args.hold_out, seed_of(model))[1]
        rows = {"inductive": results_on_test(model, measured_on), "transductive": record.results}
        held = f", {args.hold_out:.0%} of the unseen classes' images held out" if args.hold_out else ""
        print_results(f"{data.name}, protocol {record.protocol}{held}, percent", rows)
    print(f"saved {args.out} after {record.wall_seconds:.0f} s")
    return 0


def _print_last_round(history: Sequence[Mapping[str, Any]]) -> None:
    last = history[-1]
    print(f"{len(history)} rounds; {last['pool']} images trusted in the last one, {last['changed_labels']} labels changed")
