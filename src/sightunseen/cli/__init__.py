"""The command line. Thin: parse, call, print. Commands import what they need when they run, so ``--help`` is quick."""

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from sightunseen._version import __version__
from sightunseen.cli import (
    ablate,
    adapt,
    benchmark,
    classes,
    demo,
    embed,
    evaluate,
    export,
    inspect,
    methods,
    predict,
    report,
    serve,
    train,
)
from sightunseen.core.errors import SightUnseenError

COMMANDS = (inspect, embed, train, evaluate, adapt, predict, classes, export, report, serve, methods, benchmark, ablate, demo)
USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 70, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            return int(parsed.run(parsed))
    except (SightUnseenError, OSError) as error:
        if parsed.debug:
            raise
        if isinstance(error, BrokenPipeError):
            # The reader of our output has gone (as in `| head`); nothing is wrong here.
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
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"internal error: {type(error).__name__}: {error} ({place.filename}:{place.lineno}). This is a fault of "
            "sightunseen, not of your data; --debug shows where it happened. Please report it.",
            file=sys.stderr,
        )
        return INTERNAL_ERROR


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="sightunseen", description="Recognise classes you have no pictures of (zero-shot learning)."
    )
    parser.add_argument("--version", action="version", version=f"sightunseen {__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback on errors")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        name = command.__name__.rsplit(".", 1)[-1]
        summary = (command.__doc__ or "").strip().splitlines()[0]
        parser_of_command = commands.add_parser(name, help=summary, description=summary)
        command.add_arguments(parser_of_command)
        parser_of_command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        parser_of_command.set_defaults(run=command.run)
    return parser


def _show_warning(message: Warning | str, *_where: object) -> None:
    print(f"note: {message}", file=sys.stderr)


def _is_interruption(error: Exception) -> bool:
    return type(error).__name__ == "TrainingInterrupted"  # by name: importing it would import torch
