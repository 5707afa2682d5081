"""The command line: parse arguments, call the library, print results.

Commands import what they need when they run, so that ``--help`` is fast.
"""

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module

from sightunseen._version import __version__
from sightunseen.core.errors import SightUnseenError

COMMANDS = (  # modules of this package, in the order of --help
    *("inspect", "embed", "train", "evaluate", "adapt", "predict", "classes", "export", "report", "serve"),
    *("methods", "benchmark", "ablate", "demo"),
)
USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 70, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command-line arguments. Default: those of the process.

    Returns
    -------
    int
        Exit code: 0 for success, 1 if a check or a job failed, 2 for errors of the user, 70 for internal errors, 130 if
        interrupted.
    """
    parsed = build_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            return int(parsed.run(parsed))
    except (SightUnseenError, OSError) as error:
        if parsed.debug:
            raise
        if isinstance(error, BrokenPipeError):
            # The reader of the output has exited, as in `| head`.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(error if _is_interruption(error) else f"error: {error}", file=sys.stderr)
        return INTERRUPTED if _is_interruption(error) else USER_ERROR
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if parsed.debug:
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"internal error: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno}). This is a bug in "
            "sightunseen, not an error in your data. Please report it with the output of --debug.",
            file=sys.stderr,
        )
        return INTERNAL_ERROR


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser of all commands.

    Returns
    -------
    argparse.ArgumentParser
        Parser; parsed arguments have the function of the command as ``run``.
    """
    parser = argparse.ArgumentParser(
        prog="sightunseen",
        description="Zero-shot image classification: recognise classes that have a description but no images.",
    )
    parser.add_argument("--version", action="version", version=f"sightunseen {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        command = import_module(f"sightunseen.cli.{name}")
        summary = (command.__doc__ or "").partition("\n")[0]
        subparser = commands.add_parser(name, help=summary, description=summary)
        command.add_arguments(subparser)
        subparser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        subparser.set_defaults(run=command.run)
    return parser


def _show_warning(message: Warning | str, *_where: object) -> None:
    print(f"note: {message}", file=sys.stderr)


def _is_interruption(error: Exception) -> bool:
    return type(error).__name__ == "TrainingInterrupted"  # by name: importing it would import torch
