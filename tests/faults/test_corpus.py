"""Every input of the corpus ends in exit code 0, 1 or 2 with one short error, in time and memory, and leaves nothing behind."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .fuzz_corpus import CORPUS, read_corpus

pytestmark = pytest.mark.slow
CASES = read_corpus()


@pytest.fixture(scope="module")
def replay() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Function that runs a case of the corpus in a process without threads and returns its exit code and failures."""
    command = [sys.executable, "-m", "tests.faults.fuzz_replay"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def answer(name: str) -> dict[str, Any]:
            print(name, file=stdin, flush=True)
            found: dict[str, Any] = json.loads(stdout.readline())
            return found

        yield answer
        stdin.close()


@pytest.mark.parametrize("name", CASES)
def test_input_ends_as_promised(name: str, replay: Callable[[str], dict[str, Any]]) -> None:
    found = replay(name)
    assert not found["failures"], f"exit code {found['code']}: {found['failures']}\n{found['err']}"


def test_files_of_the_corpus_are_small_and_in_use() -> None:
    used = {content for case in CASES.values() for content in case.files.values() if isinstance(content, bytes)}
    stored = {path: path.read_bytes() for path in CORPUS.iterdir() if path.suffix != ".jsonl"}
    assert {path.name: len(content) for path, content in stored.items() if len(content) > 10_000} == {}
    assert [path.name for path, content in stored.items() if content not in used] == []
