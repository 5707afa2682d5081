"""Evaluate a model: T1 (ZSL), U, S, H (GZSL), AUSUC and the calibration error, in percent."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import add_data_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add_data_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--per-class", action="store_true", help="also the accuracy of every class")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    from sightunseen.cli._data import open_examined
    from sightunseen.cli._tables import print_calibration, print_results, print_table
    from sightunseen.evaluation import evaluate
    from sightunseen.methods import load_model

    model = load_model(args.model)
    check_semantics(model, args)
    data, _ = open_examined(args, model.table_.use, allowed=recorded_failures(model), model=model)
    say_if_other_data(model, data)
    check_sizes(model, data)
    result = evaluate(model, data)
    if args.json:
        classes = {"per_class": result.by_class} if args.per_class else {}
        protocol = model.record_.protocol if model.record_ else None
        numbers = {**result.summary(), "ECE": round(result.ECE, 2), "protocol": protocol}
        print(json.dumps({**numbers, **classes}, indent=2, ensure_ascii=False))
        return 0
    protocol = f", protocol {model.record_.protocol}" if model.record_ else ""
    print_results(f"{args.model} on {data.name}{protocol}, percent", {"": result.summary()})
    print(f"ECE {result.ECE:.1f}: how far confidence is from accuracy here, among all classes")
    print_calibration(model.calibration_)
    if args.per_class:
        rows = [(part, label, 100 * value) for part, found in result.by_class.items() for label, value in found.items()]
        print_table(
            "Accuracy by class, percent", ["setting", "class", "accuracy"], sorted(rows, key=lambda row: (row[0], -row[2]))
        )
    return 0


def check_semantics(model: Any, args: argparse.Namespace) -> None:
    """Refuse class vectors other than those the model was trained on."""
    from sightunseen.errors import SettingsError

    trained_on = model.table_.use
    if args.semantics is not None and args.semantics not in (trained_on, trained_on.partition(":")[0]):
        raise SettingsError(
            f"the model was trained on the class vectors '{trained_on}', not '{args.semantics}'. Leave --semantics out."
        )


def recorded_failures(model: Any) -> list[str]:
    """The FAILs that were allowed when the model was trained; they need not be allowed again."""
    findings = model.record_.findings if model.record_ else ()
    return sorted({finding["check"] for finding in findings if finding["level"] == "FAIL" and not finding["repaired"]})


def check_sizes(model: Any, data: Any) -> None:
    """Refuse data whose features or class vectors are not of the model's sizes."""
    from sightunseen.errors import DataError

    pairs = {
        "features": (model.n_features_in_, data.features.shape[1]),
        "numbers in a class vector": (model.table_.vectors.shape[1], data.classes.vectors.shape[1]),
    }
    for what, (wanted, found) in pairs.items():
        if wanted != found:
            raise DataError(
                f"the model was trained with {wanted} {what}; {data.name} has {found}. Use the data it was made for."
            )


def say_if_other_data(model: Any, data: Any) -> bool:
    """Say it where the files differ from those the model was trained on; whether they are the same."""
    trained_on = dict(model.record_.data["fingerprints"]) if model.record_ else {}
    other = sorted(name for name, found in data.sources.items() if trained_on.get(name, found) != found)
    other += sorted(set(data.sources) - set(trained_on)) if trained_on else []
    if other:
        print(
            f"note: these differ from what the model was trained on: {', '.join(other)}. Make sure that no test image was a "
            "training image.",
            file=sys.stderr,
        )
    return not other
