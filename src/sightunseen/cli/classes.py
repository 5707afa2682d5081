"""List, add or remove classes of a model, or add examples of a class, without retraining."""

import argparse
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sightunseen.semantics.describe import ClassDescriptions

WAIT_SECONDS = 120.0  # for other processes that change the same model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_repeated, add_trust_arguments, new_folder

    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB", dest="verb")
    listing = verbs.add_parser("list", help="list the classes and whether they were seen in training")
    add = verbs.add_parser("add", help="add an unseen class by a description, attributes, or both; add examples of a class")
    remove = verbs.add_parser("remove", help="remove unseen classes")
    for verb in (listing, add, remove):
        verb.add_argument("model", metavar="MODEL", type=Path, help="model folder")
        add_trust_arguments(verb, opens=verb is add)
    add.add_argument("--name", metavar="CLASS", help="name of the class; with --attributes, add only this row of the table")
    add.add_argument("--description", metavar="TEXT", help="description in a sentence, for a model trained on text")
    add_repeated(add, "--attribute", "NAME=NUMBER", "value of an attribute")
    what = "class table (.csv, .parquet or .json) whose rows are added"
    add.add_argument("--attributes", type=Path, metavar="FILE", help=what)
    examples = add.add_mutually_exclusive_group()
    what = "labelled photos of the class --name, which may exist already: folders or files"
    examples.add_argument("--photos", type=Path, nargs="+", default=[], metavar="PATH", help=what)
    what = "features of labelled images of the class --name, as for predict"
    examples.add_argument("--features", type=Path, metavar="FILE", help=what)
    remove.add_argument("--name", action="append", required=True, metavar="CLASS", help="class to remove (may be repeated)")
    for verb in (add, remove):
        verb.add_argument("--out", type=new_folder, metavar="FOLDER", help="model folder to write (default: replace MODEL)")


def run(args: argparse.Namespace) -> int:
    """List, add or remove classes; returns the exit code."""
    return {"list": _list, "add": _add, "remove": _remove}[args.verb](args)


def _list(args: argparse.Namespace) -> int:
    from sightunseen.cli._printing import print_table
    from sightunseen.methods import load_model

    model = load_model(args.model)
    seen, examples = set(model.seen_classes_.tolist()), model.example_counts
    columns = ["class", "seen", "examples"] if examples else ["class", "seen"]
    rows = [(label, "yes" if label in seen else "no", examples.get(label, 0)) for label in model.classes_.tolist()]
    title = f"{len(rows)} classes, class vectors '{model.table_.use}'"
    print_table(title, columns, [row[: len(columns)] for row in rows])
    return 0


def _add(args: argparse.Namespace) -> int:
    from sightunseen.semantics.additions import describe_like

    if args.photos or args.features is not None:
        return _add_examples(args)
    new = _described(args)
    with _changed_model(args) as model:
        model.add_classes(describe_like(model.table_, new))
        _save(model, args, f"added {_some(new.labels)}")
    return 0


def _add_examples(args: argparse.Namespace) -> int:
    """Add examples of a class, and the class itself if it is described."""
    from sightunseen.cli._examples import label_of, load_examples
    from sightunseen.core.errors import SettingsError
    from sightunseen.semantics.additions import describe_like

    if not (args.name or "").strip():
        raise SettingsError("--photos and --features are examples of one class. Give its name as --name CLASS.")
    with _changed_model(args) as model:
        if args.description is not None or args.attribute or args.attributes is not None:
            model.add_classes(describe_like(model.table_, _described(args)))
        label = label_of(model, args.name)
        if label is None:
            raise SettingsError(
                f"'{args.name}' is not a class of {args.model}. To add it, describe it by --description or --attribute as well."
            )
        features = load_examples(model, args.photos, args.features)
        model.add_examples(features, [label] * len(features))
        _save(model, args, f"added {len(features)} example{'s' * (len(features) > 1)} of {args.name}")
    counts = [f"{one} {count}" for one, count in model.example_counts.items()]
    print(f"examples per class: {_some(counts)}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    with _changed_model(args) as model:
        model.remove_classes(args.name)
        _save(model, args, f"removed {_some(list(dict.fromkeys(args.name)))}")
    return 0


def _described(args: argparse.Namespace) -> "ClassDescriptions":
    """Build the descriptions of the new classes from the arguments."""
    import numpy as np

    from sightunseen.core.errors import SettingsError
    from sightunseen.data.class_files import read_class_file
    from sightunseen.semantics.describe import ClassDescriptions

    if args.attributes is not None:
        if args.description is not None or args.attribute:
            raise SettingsError("--attributes FILE describes the classes completely. Leave --description and --attribute out.")
        found = read_class_file(args.attributes)
        return found if args.name is None else found.only([args.name])
    if not (args.name or "").strip():
        raise SettingsError("a new class needs a name. Give --name CLASS, or --attributes FILE for a class table.")
    if args.description is not None and not args.description.strip():
        raise SettingsError("--description is empty. Describe the class in a sentence, or leave --description out.")
    attributes = _attributes(args.attribute)
    return ClassDescriptions(
        (args.name,),
        tuple(attributes) or None,
        np.array([list(attributes.values())]) if attributes else None,
        None if args.description is None else (args.description,),
    )


def _attributes(pairs: list[str]) -> dict[str, float]:
    """Parse ``["stripes=1", "legs=4"]`` to ``{"stripes": 1.0, "legs": 4.0}``; a name may contain ``=``."""
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
            raise SettingsError(f"--attribute must be NAME=NUMBER; got '{pair}'.")
        if name.strip() in attributes:
            raise SettingsError(f"--attribute {name.strip()} is given twice. Give it once.")
        attributes[name.strip()] = value
    return attributes


@contextmanager
def _changed_model(args: argparse.Namespace) -> "Iterator[Any]":
    """Load the model while no other process writes to the folder that will be written, so that no change is lost."""
    from sightunseen.core.errors import StorageError
    from sightunseen.core.locks import locked
    from sightunseen.core.model_files import check_model_folder
    from sightunseen.methods import load_model

    check_model_folder(args.model)
    with locked(args.out or args.model, WAIT_SECONDS):
        if args.out is not None and args.out.exists() and args.out.resolve() != args.model.resolve():
            raise StorageError(f"{args.out} exists. Choose another --out, or leave --out out to change {args.model}.")
        yield load_model(args.model)


def _save(model: Any, args: argparse.Namespace, change: str) -> None:
    out = args.out or args.model
    model.save(out)
    print(f"{change}; {out} has {len(model.classes_)} classes, {len(model.unseen_classes_)} of them unseen")


def _some(names: "Sequence[Any]") -> str:
    return ", ".join(map(str, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
