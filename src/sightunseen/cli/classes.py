"""List the classes of a model, add one by describing it, remove one; nothing is retrained."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.semantics.describe import ClassDescriptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    listing = verbs.add_parser("list", help="the classes, and whether they were trained on")
    add = verbs.add_parser("add", help="make a class recognisable by a description, by attributes, or by both")
    remove = verbs.add_parser("remove", help="take unseen classes out of the model")
    for verb in (listing, add, remove):
        verb.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    add.add_argument("--name", metavar="CLASS", help="its name; with --attributes, the only row to add")
    add.add_argument("--description", metavar="TEXT", help="a sentence, for a model trained on text")
    add.add_argument(
        "--attribute", action="append", default=[], metavar="NAME=NUMBER", help="one attribute; may be given several times"
    )
    add.add_argument(
        "--attributes", type=Path, metavar="FILE", help="a table of classes (.csv, .parquet or .json): adds every row"
    )
    remove.add_argument("--name", action="append", required=True, metavar="CLASS", help="may be given several times")
    for verb in (add, remove):
        verb.add_argument("--out", type=Path, metavar="FOLDER", help="the new model folder (default: MODEL is replaced)")


def run(args: argparse.Namespace) -> int:
    """List, add or remove."""
    return {"list": _list, "add": _add, "remove": _remove}[args.verb](args)


def _list(args: argparse.Namespace) -> int:
    from sightunseen.cli._printing import print_table
    from sightunseen.methods import load_model

    model = load_model(args.model)
    seen = set(model.seen_classes_.tolist())
    rows = [(label, "yes" if label in seen else "no") for label in model.classes_.tolist()]
    print_table(f"{len(rows)} classes, known by '{model.table_.use}'", ["class", "seen"], rows)
    return 0


def _add(args: argparse.Namespace) -> int:
    from sightunseen.methods import load_model
    from sightunseen.semantics.additions import describe_like

    _check_output(args)
    new = _described(args)
    model = load_model(args.model)
    model.add_classes(describe_like(model.table_, new))
    _save(model, args, "added", list(new.labels))
    return 0


def _remove(args: argparse.Namespace) -> int:
    from sightunseen.methods import load_model

    _check_output(args)
    model = load_model(args.model).remove_classes(args.name)
    _save(model, args, "removed", list(dict.fromkeys(args.name)))
    return 0


def _described(args: argparse.Namespace) -> "ClassDescriptions":
    """What the arguments say of the new classes."""
    import numpy as np

    from sightunseen.core.errors import SettingsError
    from sightunseen.data.class_files import read_class_file
    from sightunseen.semantics.describe import ClassDescriptions

    if args.attributes is not None:
        if args.description is not None or args.attribute:
            raise SettingsError("--attributes FILE says all of its classes. Leave --description and --attribute out.")
        found = read_class_file(args.attributes)
        return found if args.name is None else found.only([args.name])
    if not (args.name or "").strip():
        raise SettingsError("a new class needs a name: give --name CLASS, or --attributes FILE for a table of classes.")
    if args.description is not None and not args.description.strip():
        raise SettingsError("--description is empty. Describe the class in a sentence, or leave it out.")
    attributes = _attributes(args.attribute)
    return ClassDescriptions(
        (args.name,),
        tuple(attributes) or None,
        np.array([list(attributes.values())]) if attributes else None,
        None if args.description is None else (args.description,),
    )


def _attributes(pairs: list[str]) -> dict[str, float]:
    """``["stripes=1", "legs=4"]`` -> ``{"stripes": 1.0, "legs": 4.0}``; a name may hold a ``=``, a number cannot."""
    from math import isfinite

    from sightunseen.core.errors import SettingsError

    attributes: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not name.strip() or not isfinite(value):
            raise SettingsError(f"--attribute must look like NAME=NUMBER; got '{pair}'.")
        if name.strip() in attributes:
            raise SettingsError(f"--attribute {name.strip()} is given twice.")
        attributes[name.strip()] = value
    return attributes


def _check_output(args: argparse.Namespace) -> None:
    from sightunseen.core.errors import StorageError

    if args.out is not None and args.out.exists() and args.out.resolve() != args.model.resolve():
        raise StorageError(f"{args.out} exists. Choose another name, or leave --out out to change {args.model} itself.")


def _save(model: Any, args: argparse.Namespace, verb: str, labels: list[str]) -> None:
    out = args.out or args.model
    model.save(out)
    shown = ", ".join(labels[:5]) + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")
    print(f"{verb} {shown}; {out} chooses among {len(model.classes_)} classes, {len(model.unseen_classes_)} of them unseen")
