"""The run record: what was run, on which data, how it was chosen, and what came out. Plain JSON, versioned."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sightunseen._version import __version__
from sightunseen.core.errors import ModelError

RECORD_VERSION = 2
READABLE = (1, 2)  # version 1 had no seeds and no engine


@dataclass(frozen=True)
class RunRecord:
    """One run. Every field is JSON; ``results`` are in percent."""

    kind: str  # train, adapt, evaluate, demo
    method: str
    settings: Mapping[str, Any]
    seed: int
    protocol: str  # honest or paper
    data: Mapping[str, Any]  # name, fingerprints, how it was loaded, sizes
    selection: Mapping[str, Any] = field(default_factory=dict)  # how the settings were chosen, on what
    findings: tuple[Mapping[str, Any], ...] = ()  # what the split doctor said other than PASS, and what was repaired
    results: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)  # where several were run: the results of each, mean and std
    history: tuple[Mapping[str, Any], ...] = ()  # round by round, or point by point along training
    parent: Mapping[str, Any] | None = None  # the record of the model this one was made from
    engine: str = ""  # what took the steps, and in which precision
    wall_seconds: float = 0.0
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: Mapping[str, str] = field(default_factory=lambda: versions_in_use())
    record_version: int = RECORD_VERSION

    def to_json(self) -> str:
        """The record as indented JSON with sorted keys."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "RunRecord":
        """Read a record; one of a later version, or with unknown parts, is refused."""
        try:
            content = json.loads(text)
            found = content.get("record_version")
        except (json.JSONDecodeError, AttributeError) as error:
            raise ModelError(f"this is not a run record: {error}") from error
        if found not in READABLE:
            raise ModelError(
                f"run record of version {found}; this sightunseen reads {' and '.join(map(str, READABLE))}. "
                "Install a matching release."
            )
        try:
            content["findings"] = tuple(content["findings"])
            content["history"] = tuple(content["history"])
            return cls(**content)
        except (KeyError, TypeError) as error:
            raise ModelError(f"the run record is damaged: {error}") from error


def versions_in_use() -> dict[str, str]:
    """The versions of Python and of the packages that decide the numbers."""
    found = {"python": platform.python_version(), "sightunseen": __version__}
    for package in ("torch", "numpy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
