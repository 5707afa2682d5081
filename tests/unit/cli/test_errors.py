"""Errors of the command line: one line of limited length, and the exit code that belongs to it."""

import os
import sys

import pytest

from sightunseen.cli import build_parser, main
from sightunseen.core.errors import DataError, MissingDependencyError
from sightunseen.core.limits import MESSAGE_LENGTH


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The only error line on stderr."""
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> int:
    """Run a command that raises an error."""

    def run(_: object) -> int:
        raise error

    monkeypatch.setattr("sightunseen.cli.methods.run", run)
    return main(["methods"])


@pytest.mark.parametrize("error", [DataError("found x"), MissingDependencyError("needs h5py"), FileNotFoundError(2, "gone")])
def test_errors_of_the_user_have_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert fail(monkeypatch, error) == 2
    assert str(error) in error_of(capsys)


@pytest.mark.parametrize("error", [MemoryError("7.28 TiB"), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_lack_of_memory_is_not_called_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert fail(monkeypatch, error) == 2
    assert "not enough memory" in error_of(capsys)


def test_other_errors_are_bugs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(monkeypatch, KeyError("x" * 10**6)) == 70
    printed = capsys.readouterr().err
    assert "This is a bug in sightunseen" in printed
    assert len(printed) < 2 * MESSAGE_LENGTH


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "x" * 100_000],
        ["inspect", "/tmp/" + "x/" * 50_000],
        ["x" * 100_000],
        ["train", "data", "--out", "model", "--folds", "9" * 100_000],
        ["train", "data", "--out", "model", "--unknown", "x" * 100_000],
        ["benchmark", "run", "x" * 100_000, "--out", "results"],
        ["inspect", "a\nb\x1b[31mc"],
    ],
    ids=["a long name", "a long path", "a long command", "a long number", "a long option", "a long plan", "control characters"],
)
def test_error_messages_are_one_printable_line_of_limited_length(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    message = error_of(capsys)
    assert code == 2
    assert len(message) <= MESSAGE_LENGTH
    assert message.isprintable()


def test_arguments_that_are_not_utf8_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", os.fsdecode(b"birds\xff")]) == 2
    assert "is not UTF-8 text" in error_of(capsys)


def test_each_command_has_the_parser_with_limited_messages() -> None:
    commands = build_parser()._subparsers
    assert commands is not None
    (choices,) = [action.choices for action in commands._group_actions if action.choices]
    assert {type(parser).__name__ for parser in dict(choices).values()} == {"_Parser"}  # type: ignore[call-overload]


def test_broken_pipe_is_not_an_error() -> None:
    import subprocess

    command = [sys.executable, "-m", "sightunseen", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
