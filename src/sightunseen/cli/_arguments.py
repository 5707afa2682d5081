"""Arguments that several commands share."""

import argparse
import ast
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightunseen.core.errors import SettingsError


def add_data_arguments(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    """Where the data are and which of their files to use."""
    what = "benchmark folder, folder of tables, table of features, or folder of photos"
    parser.add_argument("data", metavar="DATA", type=Path, nargs=None if needed else "?", help=what)
    parser.add_argument("--features", metavar="NAME", help="a benchmark folder's feature file (default: res101)")
    parser.add_argument("--splits", metavar="NAME", help="split file (default: att_splits)")
    parser.add_argument(
        "--semantics", metavar="NAME", help="class vectors: att (default), original_att, or FILE:KEY such as sent_splits:att"
    )
    parser.add_argument("--classes", type=Path, metavar="FILE", help="table of classes, for a table of features or photos")
    parser.add_argument("--backbone", metavar="NAME", help="what turns photos into features, such as efficientnet_lite0")


def shown_data(args: argparse.Namespace) -> str:
    """The data arguments as they were given, to be shown in a command."""
    given = [str(args.data)]
    for name in ("features", "splits", "classes", "backbone"):
        if getattr(args, name) is not None:
            given += [f"--{name}", str(getattr(args, name))]
    return shlex.join(given)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """What training commands share."""
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the model folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier model or checkpoint of that name")
    parser.add_argument("--resume", action="store_true", help="go on where an interrupted run of this command stopped")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="NAME=V1,V2,...",
        help="choose among these values instead of the method's own search space; may be given several times",
    )
    parser.add_argument(
        "--protocol",
        choices=("honest", "paper"),
        default="honest",
        help="paper: keep the model that is best on the test data, as the authors did, and say so (default: honest)",
    )
    parser.add_argument("--preset", default="fast", help="fast (default), or paper-awa1, -awa2, -cub, -sun, -apy")
    parser.add_argument(
        "--select",
        choices=("validation", "none"),
        default="validation",
        help="none: choose nothing, take hyperparameters as given (default: validation)",
    )
    parser.add_argument(
        "--folds",
        type=positive,
        metavar="K",
        help="class folds (default: 1 for gradient-trained methods; else up to 5, until they have 50 validation classes)",
    )
    parser.add_argument(
        "--allow", action="append", default=[], metavar="CHECK", help="go on although the split doctor FAILs this check"
    )


def positive(text: str) -> int:
    """A whole number from one up, for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["q=0.5", "loss=xe"]`` -> ``{"q": 0.5, "loss": "xe"}``."""
    return {name: _value(text) for name, text in map(_pair, pairs)}


def parse_grid(pairs: list[str]) -> dict[str, Sequence[Any]]:
    """``["q=0.5,0.7"]`` -> ``{"q": [0.5, 0.7]}``."""
    grid = {name: text.split(",") for name, text in map(_pair, pairs)}
    empty = [name for name, values in grid.items() if not all(value.strip() for value in values)]
    if empty:
        raise SettingsError(f"--search {empty[0]}= must be followed by values with commas between them, none of them empty.")
    return {name: [_value(value.strip()) for value in values] for name, values in grid.items()}


def selecting_of(args: argparse.Namespace) -> dict[str, Any]:
    """What the arguments say of how hyperparameters are chosen, as fields of a specification."""
    grid = parse_grid(args.search)
    return {"search": grid or None, "select": args.select, "protocol": args.protocol, "folds": args.folds}


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise SettingsError(f"'{text}' must look like NAME=VALUE.")
    return name.strip().replace("-", "_"), value.strip()


def _value(text: str) -> Any:
    """A number, True, False or None where it reads as one; else the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
