"""Adapt a model to unlabelled images of its unseen classes (transductive setting)."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_run_arguments, add_trust_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add_data_arguments(parser)
    add_run_arguments(parser)
    what = "features of unlabelled images to adapt to (default: the test images of unseen classes)"
    parser.add_argument("--unlabelled", type=Path, metavar="FILE", help=what)
    what = "fraction of the test images of unseen classes to evaluate on instead of adapting to, such as 0.5 (default: 0)"
    parser.add_argument("--hold-out", type=float, default=0.0, metavar="FRACTION", help=what)
    add_trust_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Adapt, save and print the results; returns the exit code."""
    from sightunseen.cli._arguments import parse_settings, selecting_of
    from sightunseen.cli._data import load_unlabelled, open_to_test
    from sightunseen.cli._long_run import long_work, output_folder
    from sightunseen.core.errors import ModelError
    from sightunseen.core.files import sha256_of
    from sightunseen.data.tables import fingerprint_of
    from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, load_model
    from sightunseen.methods.base.presets import preset_of
    from sightunseen.pipeline import AdaptationSpecification, adapt

    with output_folder(args) as workspace:
        model = load_model(args.model)
        if not isinstance(model, AdaptableClassifier):
            raise ModelError(
                f"{args.model} is a model of {type(model).__name__}, which has no transductive form. See: sightunseen methods"
            )
        parameters = {**preset_of(type(model), args.preset).adaptation, **parse_settings(args.set)}
        specification = AdaptationSpecification(parameters=parameters, hold_out=args.hold_out, **selecting_of(args))
        specification.check(model)
        opened = open_to_test(args, model)
        unlabelled = None if args.unlabelled is None else load_unlabelled(args.unlabelled, model)
        identity = {
            **asdict(specification),
            "model": sha256_of(args.model / "weights.safetensors"),
            "unlabelled": None if args.unlabelled is None else fingerprint_of(args.unlabelled),
            "data": opened.data.describe(),
        }
        with long_work(workspace, identity, isinstance(model, GradientAdaptableClassifier)) as hooks:
            adapted = adapt(specification, model, opened.data, workspace, unlabelled, opened.findings, hooks)
        adapted.save(args.out)
    _report(adapted, opened.data, args)
    return 0


def _report(adapted: Any, data: Any, args: argparse.Namespace) -> None:
    from sightunseen.cli._printing import print_calibration, print_choice, print_results, print_verdict

    record = adapted.record_
    print_verdict(record.verdict)
    print_choice(record, args.verbose)
    print_calibration(adapted.calibration_, args.verbose)
    for warning in record.selection.get("warnings", ()):
        print(f"warning: {warning}", file=sys.stderr)
    if args.verbose:
        _print_last_round(record.history)
    if record.results:
        rows = {"inductive": record.compared["before"], "transductive": record.results}
        held = f", {args.hold_out:.0%} of the images of unseen classes held out" if args.hold_out else ""
        print_results(f"{data.name}, protocol {record.protocol}{held}, percent", rows, record.intervals)
    print(f"saved {args.out} after {record.wall_seconds:.0f} s")


def _print_last_round(history: Sequence[Mapping[str, Any]]) -> None:
    """Print how many labels changed in the last round of self-training, if the method has rounds."""
    last = history[-1] if history and isinstance(history[-1], Mapping) else {}
    if "changed_labels" in last:
        trusted = f"{last['pool']} confident images, " if "pool" in last else ""
        print(f"Adapted in {len(history)} rounds; in the last one: {trusted}{last['changed_labels']} labels changed.")
