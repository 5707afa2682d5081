"""Results as their authors published them: data with their source, shown beside measured ones and never mixed with them."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

NUMBERS = ("T1", "U", "S", "H")


@dataclass(frozen=True)
class Published:
    """One row of a published table for one data set; a number that the source does not give is None."""

    method: str
    data: str
    setting: str
    backbone: str
    source: str
    table: str
    numbers: dict[str, float | None]


@cache
def published() -> tuple[Published, ...]:
    """Every published row."""
    content = tomllib.loads((files("sightunseen.benchmark") / "published.toml").read_text(encoding="utf-8"))
    return tuple(
        Published(method, data, table["setting"], table["backbone"], table["source"], table["table"], _known(numbers))
        for table in content["table"]
        for method, by_data in table["rows"].items()
        for data, numbers in by_data.items()
    )


def published_row(method: str, data: str) -> Published | None:
    """The published row of a method on a data set, where there is one."""
    return next((row for row in published() if (row.method, row.data) == (method, data)), None)


def _known(numbers: list[float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in zip(NUMBERS, numbers, strict=True)}
