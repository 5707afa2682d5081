"""Arguments shared by several commands."""

import argparse
import ast
import shlex
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import COUNT, FOLDS, VALUE_LENGTH
from sightunseen.core.plugins import is_path
from sightunseen.methods.base.presets import QUICK


def add_data_arguments(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    """Add the data set and the options that select its files.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    needed : bool, default=True
        Whether the data set is required.
    """
    what = "xlsa17 folder, folder of tables, table of features, or folder of photos"
    parser.add_argument("data", metavar="DATA", type=Path, nargs=None if needed else "?", help=what)
    parser.add_argument("--features", metavar="NAME", help="feature file of an xlsa17 folder (default: res101)")
    parser.add_argument("--splits", metavar="NAME", help="split file of an xlsa17 folder (default: att_splits)")
    what = (
        "what describes a class. In a class table: attributes (its columns of numbers), text (its column of descriptions, by "
        "a text encoder), names (the names of the classes, by a text encoder), both (attributes and text), or one of the last "
        "three with an encoder, such as text:NAME; default: attributes, else text, else names. In an xlsa17 folder: att "
        "(default), original_att, or FILE:KEY such as sent_splits:att"
    )
    parser.add_argument("--semantics", metavar="NAME", help=what)
    parser.add_argument("--classes", type=Path, metavar="FILE", help="class table, for a table of features or for photos")
    what = "network that extracts features of photos (default: that of the model; without a model efficientnet_lite0)"
    parser.add_argument("--backbone", metavar="NAME", help=what)


def shown_data(args: argparse.Namespace) -> str:
    """Format the data arguments, and the permission to import a plug-in, for a command line.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.

    Returns
    -------
    str
        Quoted arguments.
    """
    given = [str(args.data)]
    for name in ("features", "splits", "classes", "backbone"):
        if getattr(args, name) is not None:
            given += [f"--{name}", str(getattr(args, name))]
    if is_path(getattr(args, "method", None) or ""):
        given += ["--allow-plugin", args.method]
    return shlex.join(given)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``train`` and ``adapt`` share.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    """
    parser.add_argument("--out", type=new_folder, required=True, metavar="FOLDER", help="model folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing model or checkpoint of that name")
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run of the same command")
    parser.add_argument("--verbose", action="store_true", help="print how hyperparameters were chosen, and the calibration")
    add_repeated(parser, "--set", "NAME=VALUE", "set a hyperparameter")
    add_repeated(parser, "--search", "NAME=V1,V2,...", "search these values instead of the default search space of the method")
    what = "honest (default): evaluate the test images once; paper: select on the test images, as the authors' code does"
    parser.add_argument("--protocol", choices=("honest", "paper"), default="honest", help=what)
    what = (
        "named hyperparameters of the method: quick (default), full (the authors' sizes and number of steps where they are "
        "known, otherwise wider networks and longer training; for a GPU) or, of CVC, paper-awa1, -awa2, -cub, -sun, -apy"
    )
    parser.add_argument("--preset", default=QUICK, metavar="NAME", help=what)
    what = "select hyperparameters on validation classes (default), or use them as given (none)"
    parser.add_argument("--select", choices=("validation", "none"), default="validation", help=what)
    what = "number of class folds (default: Foresight 16 to 40, gradient-trained methods 1, others up to 5)"
    parser.add_argument("--folds", type=at_most(FOLDS), metavar="K", help=what)
    add_repeated(parser, "--allow", "CHECK", "ignore this failed check of the split doctor")


def add_trust_arguments(parser: argparse.ArgumentParser, opens: bool = True) -> None:
    """Add the consents to use what a model names and what is not part of this package.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    opens : bool, default=True
        Whether the command opens the backbone or text encoder of the model.
    """
    if opens:
        what = (
            "open the backbone or text encoder that the model names, even if that downloads it; only for models that you trust"
        )
        parser.add_argument("--allow-downloads", action="store_true", help=what)
    what = "import this method, which runs its code, if the model is one of it; installed plug-ins need no permission"
    add_repeated(parser, "--allow-plugin", "MODULE:CLASS", what)


def add_repeated(parser: argparse.ArgumentParser, name: str, metavar: str, text: str) -> None:
    """Add an option that can be given several times; its values are a list.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    name : str
        Name of the option.
    metavar : str
        Form of a value.
    text : str
        Help text.
    """
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"{text} (may be repeated)")


def new_folder(text: str) -> Path:
    """Parse the name of a folder to write for argparse.

    Parameters
    ----------
    text : str
        Argument.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    argparse.ArgumentTypeError
        If the argument is ``-``, standard output.
    """
    if text == "-":
        raise argparse.ArgumentTypeError("this command writes a folder, which cannot go to standard output; give its name")
    return Path(text)


def positive(text: str) -> int:
    """Parse a positive integer for argparse.

    Parameters
    ----------
    text : str
        Argument.

    Returns
    -------
    int
        The number, at least 1.

    Raises
    ------
    argparse.ArgumentTypeError
        If the argument is not a positive integer, or too large.
    """
    return at_most(COUNT)(text)


def at_most(most: int) -> Callable[[str], int]:
    """Make a parser of positive integers with an upper bound, for argparse.

    Parameters
    ----------
    most : int
        The largest allowed number.

    Returns
    -------
    callable
        Function from an argument to the number.

    Examples
    --------
    >>> at_most(10)("3")
    3
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = 0
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most:,}; got {quoted(text)!r}")
        return value

    return parse


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse the values of ``--set``.

    Parameters
    ----------
    pairs : list of str
        Arguments of the form NAME=VALUE.

    Returns
    -------
    dict
        Hyperparameters.

    Raises
    ------
    SettingsError
        If an argument has another form.

    Examples
    --------
    >>> parse_settings(["q=0.5", "loss=xe"])
    {'q': 0.5, 'loss': 'xe'}
    """
    return {name: _value(text) for name, text in map(_pair, pairs)}


def parse_grid(pairs: list[str]) -> dict[str, Sequence[Any]]:
    """Parse the values of ``--search``.

    Parameters
    ----------
    pairs : list of str
        Arguments of the form NAME=V1,V2,...

    Returns
    -------
    dict of str to list
        Search space.

    Raises
    ------
    SettingsError
        If an argument has another form or an empty value.

    Examples
    --------
    >>> parse_grid(["q=0.5,0.7"])
    {'q': [0.5, 0.7]}
    """
    grid = {name: text.split(",") for name, text in map(_pair, pairs)}
    empty = [name for name, values in grid.items() if not all(value.strip() for value in values)]
    if empty:
        raise SettingsError(f"--search {quoted(empty[0])} has an empty value; expected NAME=V1,V2,... Remove the extra comma.")
    return {name: [_value(value.strip()) for value in values] for name, values in grid.items()}


def selecting_of(args: argparse.Namespace) -> dict[str, Any]:
    """Collect the options of hyperparameter selection as fields of a specification.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments of ``train`` or ``adapt``.

    Returns
    -------
    dict
        Keyword arguments ``search``, ``select``, ``protocol`` and ``folds``.
    """
    return {"search": parse_grid(args.search) or None, "select": args.select, "protocol": args.protocol, "folds": args.folds}


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise SettingsError(f"found '{quoted(text)}'; expected NAME=VALUE.")
    return name.strip().replace("-", "_"), value.strip()


def _value(text: str) -> Any:
    """Parse a Python literal, or true, false or none in any case; return other text unchanged."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if len(text) > VALUE_LENGTH:
        raise SettingsError(f"'{quoted(text)}' has {len(text):,} characters; a value has at most {VALUE_LENGTH:,}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (MemoryError, RecursionError) as error:  # hundreds of brackets or signs
        raise SettingsError(f"'{quoted(text)}' is nested too deeply.") from error
    except (ValueError, SyntaxError, TypeError):
        return text
