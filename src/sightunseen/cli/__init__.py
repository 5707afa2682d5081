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
from pathlib import Path
from typing import Any, NoReturn

from sightunseen._version import __version__
from sightunseen.core.documents import printable, quoted
from sightunseen.core.errors import DataError, SightUnseenError
from sightunseen.core.limits import MESSAGE_LENGTH
from sightunseen.core.plugins import allow_plugins, plugin_of
from sightunseen.core.trust import allow_downloads

COMMANDS = (  # modules of this package, in the order of --help
    *("inspect", "embed", "train", "evaluate", "adapt", "predict", "classes", "export", "report", "serve"),
    *("methods", "benchmark", "ablate", "demo"),
)
INPUTS = (  # arguments of all commands that name existing files or folders
    *("data", "subject", "photos", "images", "results", "unlabelled"),
    *("classes", "attributes", "features", "tls_cert", "tls_key"),
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
    given = sys.argv[1:] if arguments is None else arguments
    undecodable = next((word for word in given if not _is_text(word)), None)
    if undecodable is not None:
        _print_error(f"the argument '{quoted(undecodable)}' is not UTF-8 text. Rename the file, or write the word in UTF-8.")
        return USER_ERROR
    parsed = build_parser().parse_args(given)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            _check_inputs(parsed)
            if getattr(parsed, "allow_downloads", False):
                allow_downloads()
            allow_plugins(getattr(parsed, "allow_plugin", ()))
            return int(parsed.run(parsed))
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if parsed.debug:
            raise
        return _exit_code(error)


def _check_inputs(parsed: argparse.Namespace) -> None:
    """Check that the files and folders that a command reads exist, before anything else."""
    if getattr(parsed, "model", None) is not None:
        from sightunseen.core.model_files import check_model_folder

        check_model_folder(parsed.model)
    for name in INPUTS:
        given = getattr(parsed, name, None)
        for path in given if isinstance(given, list) else [given]:
            if isinstance(path, Path) and not path.exists() and "{" not in path.name:  # shard-{000..127}.tar names many files
                raise DataError(f"there is no file or folder {path}. Check the path; the current folder is {Path.cwd()}.")


def _exit_code(error: Exception) -> int:
    """Print an error; return the exit code that it stands for."""
    if isinstance(error, BrokenPipeError):
        # The reader of the output has exited, as in `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if _is_interruption(error):
        print(error, file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # of numpy, or of torch
        _print_error(f"there is not enough memory ({error}). Use fewer images or a machine with more memory.")
        return USER_ERROR
    if isinstance(error, (SightUnseenError, OSError)):
        _print_error(str(error))
        return USER_ERROR
    what = f"{type(error).__name__}: {quoted(error, 200)}"
    plugin = plugin_of(error)
    if plugin is not None:
        _print_error(f"the plug-in {plugin[0]} failed: {what} ({plugin[1]}). Correct it; --debug shows the traceback.")
        return USER_ERROR
    frame = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"internal error: {what} ({frame.filename}:{frame.lineno}). This is a bug in sightunseen, not an error in your data. "
        "Please report it with the output of --debug.",
        file=sys.stderr,
    )
    return INTERNAL_ERROR


def _print_error(message: str) -> None:
    """Print an error message in one line of limited length: it may quote a file or an argument of any size."""
    text = printable(message[:MESSAGE_LENGTH], " ")
    most = MESSAGE_LENGTH - len("error: ")
    shown = text if len(message) <= most else f"{text[: most - 5]} ..."
    print(f"error: {shown}", file=sys.stderr)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8
        return False
    return "\0" not in word


class _Parser(argparse.ArgumentParser):
    """Argument parser whose error messages are limited in length, like all others."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments; a command reports unknown ones itself, with its own usage."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        _print_error(f"{message}. See: {self.prog} --help")
        raise SystemExit(USER_ERROR)


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser of all commands.

    Returns
    -------
    argparse.ArgumentParser
        Parser; parsed arguments have the function of the command as ``run``.
    """
    parser = _Parser(
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
    print(f"note: {quoted(message, MESSAGE_LENGTH)}", file=sys.stderr)


def _is_interruption(error: Exception) -> bool:
    return type(error).__name__ == "TrainingInterrupted"  # by name: importing it would import torch
