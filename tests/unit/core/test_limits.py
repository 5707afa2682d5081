"""The table of limits in the documentation."""

import re
from pathlib import Path

import pytest

from sightunseen.core import limits

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def number(text: str) -> float:
    """Parse a limit as the page writes it: ``1,000``, ``64 MiB``, ``1e15`` or ``2^63 - 1``."""
    if "^" in text:
        base, power, less = map(int, re.findall(r"\d+", text))
        return float(base**power - less)
    value, _, unit = text.partition(" ")
    return float(value.replace(",", "")) * UNITS.get(unit, 1)


def test_documentation_lists_every_limit_with_its_value() -> None:
    if not PAGE.is_file():
        pytest.skip("the documentation is not part of an installed package")
    listed = {name: number(text) for name, text in re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", PAGE.read_text("utf-8"), re.M)}
    assert listed == {name: float(value) for name, value in vars(limits).items() if name.isupper()}
