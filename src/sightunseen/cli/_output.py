"""Output files of commands; ``-`` is standard output."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from sightunseen.core.errors import SettingsError
from sightunseen.core.files import check_writable

STDOUT = Path("-")


def check_output(path: Path, check_ending: Callable[[Path], None] = lambda _: None, binary: bool = False) -> None:
    """Check that a file can be written, before any work is done.

    Parameters
    ----------
    path : Path
        File to write, or ``-``.
    check_ending : callable, optional
        Raises an error for names that have a wrong ending; not called for ``-``.
    binary : bool, default=False
        Whether the content is no text, which a terminal cannot show.

    Raises
    ------
    SettingsError
        If the ending is wrong, or if the content is binary and standard output is a terminal.
    StorageError
        If the file cannot be written.
    """
    if path != STDOUT:
        check_ending(path)
        check_writable(path)
    elif binary and sys.stdout.isatty():
        raise SettingsError("standard output is a terminal, which cannot show this file. Add > FILE or | COMMAND.")


@contextmanager
def output_file(path: Path, ending: str) -> Iterator[Path]:
    """Provide the file to write; what is written for ``-`` is copied to standard output.

    Parameters
    ----------
    path : Path
        File to write, or ``-``.
    ending : str
        Format of standard output, such as ``.csv``.

    Yields
    ------
    Path
        The file itself; for ``-`` a temporary file.
    """
    if path != STDOUT:
        yield path
        return
    with TemporaryDirectory() as folder:
        file = Path(folder, f"output{ending}")
        yield file
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            with open(file, "rb") as content:
                shutil.copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:  # replaced by a text stream
            sys.stdout.write(file.read_bytes().decode("utf-8", "replace"))


def messages_of(path: Path | None) -> TextIO:
    """Return the stream for messages: stderr if the output itself goes to stdout.

    Parameters
    ----------
    path : Path or None
        File to write, or ``-``.

    Returns
    -------
    file
        stdout or stderr.
    """
    return sys.stderr if path == STDOUT else sys.stdout
