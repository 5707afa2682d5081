"""Evaluate a model: zero-shot and generalised zero-shot accuracy and calibration error, in percent."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_trust_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add_data_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--per-class", action="store_true", help="also print the accuracy of each class")
    parser.add_argument("--verbose", action="store_true", help="also print the calibration of the model")
    add_trust_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate the model and print the results; returns the exit code."""
    from sightunseen.cli._data import open_to_test
    from sightunseen.cli._printing import print_calibration, print_results, print_table, print_verdict
    from sightunseen.core.metrics import METRICS
    from sightunseen.methods import load_model
    from sightunseen.pipeline.results import called
    from sightunseen.selection.evaluation import evaluate
    from sightunseen.selection.verdict import verdict

    model = load_model(args.model)
    data = open_to_test(args, model).data
    result, record = evaluate(model, data), model.record_
    protocol = None if record is None else record.protocol
    same = record is not None and record.data.get("fingerprints") == dict(data.sources)
    sentences = verdict(result, record.selection if record else {}, called(data), protocol if protocol and same else "honest")
    numbers = {**result.summary(), **result.further}
    if args.json:
        classes = {"per_class": result.by_class} if args.per_class else {}
        others = {"ECE": round(result.ECE, 2), "protocol": protocol, "intervals": result.intervals, "verdict": sentences}
        print(json.dumps({**numbers, **others, **classes}, indent=2, ensure_ascii=False))
        return 0
    print_verdict(sentences)
    title = f"{args.model} on {data.name}{f', protocol {protocol}' if protocol else ''}, percent"
    print_results(title, {"": numbers}, result.intervals)
    print(f"ECE {result.ECE:.1f}: {METRICS['ECE'].definition}, in percent")
    print_calibration(model.calibration_, args.verbose)
    if args.per_class:
        rows = [(part, label, 100 * value) for part, found in result.by_class.items() for label, value in found.items()]
        print_table(
            "Accuracy by class, percent", ["setting", "class", "accuracy"], sorted(rows, key=lambda row: (row[0], -row[2]))
        )
    return 0
