"""A kill at file operations of commands that write, and a loss of power after them.

Here every operation of two commands and a sample of the others; ``make chaos`` tries every operation of every command.
"""

from typing import Any

import pytest

from .commands import COMMANDS
from .conftest import Inject

COMPLETE = ("classes-add", "predict-csv")
SLOW = ("report", "ablate", "benchmark")
SAMPLED = tuple(name for name in COMMANDS if name not in (*COMPLETE, *SLOW))
POINTS = 2


@pytest.fixture(scope="module")
def found(inject: Inject) -> dict[str, dict[str, Any]]:
    return inject([*COMPLETE, *(f"{name}:{POINTS}" for name in SAMPLED)], "--parts", "crash", "power")


@pytest.mark.parametrize("name", [*COMPLETE, *SAMPLED])
def test_outputs_are_old_or_new_after_a_crash_and_a_rerun_gives_the_same(found: dict[str, dict[str, Any]], name: str) -> None:
    assert found[name]["counts"]["points"] > 0
    assert found[name]["examples"] == []


def test_every_operation_of_the_complete_commands_was_tried(found: dict[str, dict[str, Any]]) -> None:
    for name in COMPLETE:
        assert found[name]["counts"]["points"] > found[name]["operations"] > 5
