"""List the methods with setting, year, cost and paper."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--setting", choices=("inductive", "transductive"), help="list only the methods of this setting")


def run(args: argparse.Namespace) -> int:
    """Print the methods; returns the exit code."""
    from sightunseen.cli._printing import print_table
    from sightunseen.methods.catalogue import CARDS

    rows = [
        (name, card.setting, card.year, f"{card.cost} s", card.estimator, card.paper)
        for name, card in CARDS.items()
        if args.setting in (None, card.setting)
    ]
    print_table(
        "Methods (cost: one fit on CUB, one core)", ["method", "setting", "year", "cost", "class", "paper"], rows, fold=False
    )
    return 0
