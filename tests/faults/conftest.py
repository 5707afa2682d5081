"""Fixtures of the tests with injected faults."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from .chaos import work_folder, worker
from .shim import build, missing_part

collect_ignore_glob = ["fuzz*.py"]  # scripts, some of which need packages that not every system has
Inject = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def inject() -> Iterator[Inject]:
    """Function that injects faults into commands and returns what was found; skips where faults cannot be injected."""
    reason = missing_part()
    if reason is not None:
        pytest.skip(reason)
    folder = Path(work_folder())
    library = build(folder)

    def run(commands: Sequence[str], *options: object) -> dict[str, dict[str, Any]]:
        return worker(commands, library, folder / "work", *options)

    yield run
    shutil.rmtree(folder)
