"""List the methods with setting, year, cost and paper, and the installed plug-ins."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--setting", choices=("inductive", "transductive"), help="list only the methods of this setting")


def run(args: argparse.Namespace) -> int:
    """Print the methods; returns the exit code."""
    from sightunseen.cli._printing import print_table
    from sightunseen.core.plugins import METHODS, plugins
    from sightunseen.methods.catalogue import CARDS

    rows = [
        (name, card.setting, card.year, f"{card.cost} s", card.estimator, card.paper)
        for name, card in CARDS.items()
        if args.setting in (None, card.setting)
    ]
    print_table(
        "Methods (cost: one fit on CUB, one core)", ["method", "setting", "year", "cost", "class", "paper"], rows, fold=False
    )
    found = [row for point in plugins(METHODS).values() for row in _rows(point) if args.setting in (None, row[1], "-")]
    if found:
        print_table("Plug-ins", ["method", "setting", "class", "package", "state"], found, fold=False)
    print("A method of your own is given as --method package.module:Class; see docs/extending.md.")
    return 0


def _rows(point: "EntryPoint") -> list[tuple[str, str, str, str, str]]:
    """Rows of an installed plug-in: the method and, if it can be adapted, its transductive form."""
    from sightunseen.core.documents import quoted
    from sightunseen.core.errors import SightUnseenError
    from sightunseen.methods import METHODS, AdaptableClassifier, method_class
    from sightunseen.methods.catalogue import ADAPTED, CARDS, INDUCTIVE, TRANSDUCTIVE

    package = "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    if point.name in METHODS or point.name in CARDS:
        return [(point.name, "-", point.value, package, "not used: a method of sightunseen has this name")]
    try:
        method = method_class(point.name)
    except SightUnseenError as error:
        return [(point.name, "-", point.value, package, quoted(error, 200))]
    rows = [(point.name, INDUCTIVE, point.value, package, "ok")]
    if issubclass(method, AdaptableClassifier):
        rows.append((point.name + ADAPTED, TRANSDUCTIVE, point.value, package, "ok"))
    return rows
