"""List the methods: setting, paper, year and cost."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--setting", choices=("inductive", "transductive"), help="only those of this setting")


def run(args: argparse.Namespace) -> int:
    """Print the catalogue."""
    from sightunseen.cli._printing import print_table
    from sightunseen.methods.catalogue import CARDS

    rows = [
        (name, card.setting, card.year, f"{card.cost} s", card.estimator, card.paper)
        for name, card in CARDS.items()
        if args.setting in (None, card.setting)
    ]
    print_table(
        "Methods (cost: a fit on CUB, one core)", ["method", "setting", "year", "cost", "class", "paper"], rows, fold=False
    )
    return 0
