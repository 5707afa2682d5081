"""Reading and validation of plan files."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sightunseen.benchmark.entries import DataEntry, MethodEntry
from sightunseen.benchmark.variant_names import OWN
from sightunseen.core.documents import STRICT, DocumentError, parse_document, quoted, validated
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import PLAN_BYTES, PLAN_DOTS
from sightunseen.methods.base.presets import QUICK


@dataclass(frozen=True)
class PlanFile:
    """Content of a plan file."""

    __pydantic_config__ = STRICT

    title: str = ""
    seeds: int = 1
    selection: tuple[str, ...] = ("validation",)
    folds: int | None = None
    seen_classes: tuple[Any, ...] | None = None
    unequal: float | None = None
    budget: tuple[str, ...] = (QUICK,)
    feature_scaling: tuple[str, ...] = (OWN,)
    methods: tuple[str, ...] = ()
    data: tuple[DataEntry, ...] = ()
    method: tuple[MethodEntry, ...] = ()


def parsed_plan(source: str | Path, text: bytes) -> dict[str, Any]:
    """Parse a plan."""
    try:
        if len(text) > PLAN_BYTES:
            raise DocumentError(f"larger than {PLAN_BYTES >> 10} KiB, the limit of plans")
        if max(line.count(b".") for line in text.split(b"\n")) > PLAN_DOTS:
            raise DocumentError(f"a line with more than {PLAN_DOTS:,} dots")
        content: dict[str, Any] = parse_document(text, "toml")
    except DocumentError as error:
        raise SettingsError(f"{quoted(source)} is not a plan: {error}. Correct the file.") from error
    return content


def validated_plan(content: Mapping[str, Any]) -> PlanFile:
    """Validate types and keys; the error lists the keys of the table that it is about."""
    try:
        return validated(PlanFile, content)
    except DocumentError as error:
        tables = {"data": ("[[data]]", DataEntry), "method": ("[[method]]", MethodEntry)}
        where, kind = tables.get(re.split("[.:]", str(error))[0], ("a plan", PlanFile))
        keys = ", ".join(known.name for known in fields(kind))
        raise SettingsError(f"the plan has a key or value that is not allowed: {error}. Keys of {where}: {keys}.") from error


def check_scalars(content: Mapping[str, Any]) -> None:
    """Check that all numbers are finite and have 64 bits, as TOML requires, and that text has no NUL."""
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise SettingsError("the plan has a whole number with more than 64 bits. Give a smaller one.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"the plan has the value {value}; expected finite numbers. Correct it.")
        elif isinstance(value, str) and "\0" in value:
            raise SettingsError(f"'{quoted(value)}' in the plan has a NUL character. Remove it.")
