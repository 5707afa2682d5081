"""Evaluate a model: zero-shot and generalised zero-shot accuracy and calibration error, in percent."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_download_argument

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add_data_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--per-class", action="store_true", help="also print the accuracy of each class")
    add_download_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate the model and print the results; returns the exit code."""
    from sightunseen.cli._data import open_to_test
    from sightunseen.cli._printing import print_calibration, print_results, print_table
    from sightunseen.methods import load_model
    from sightunseen.selection.evaluation import evaluate

    model = load_model(args.model)
    data = open_to_test(args, model).data
    result = evaluate(model, data)
    if args.json:
        classes = {"per_class": result.by_class} if args.per_class else {}
        protocol = model.record_.protocol if model.record_ else None
        numbers = {**result.summary(), "ECE": round(result.ECE, 2), "protocol": protocol}
        print(json.dumps({**numbers, **classes}, indent=2, ensure_ascii=False))
        return 0
    protocol = f", protocol {model.record_.protocol}" if model.record_ else ""
    print_results(f"{args.model} on {data.name}{protocol}, percent", {"": result.summary()})
    print(f"ECE {result.ECE:.1f}: expected calibration error among all classes, in percent")
    print_calibration(model.calibration_)
    if args.per_class:
        rows = [(part, label, 100 * value) for part, found in result.by_class.items() for label, value in found.items()]
        print_table(
            "Accuracy by class, percent", ["setting", "class", "accuracy"], sorted(rows, key=lambda row: (row[0], -row[2]))
        )
    return 0
