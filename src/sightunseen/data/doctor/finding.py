"""What a check of the split doctor says."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

PASS, WARN, FAIL = "PASS", "WARN", "FAIL"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: what was found, why it matters, and what to do."""

    check: str
    level: str
    what: str
    why: str = ""
    remedy: str = ""
    repaired: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain content, for the record and ``--json``."""
        return asdict(self)


def some(labels: Iterable[Any], most: int = 3) -> str:
    """The first few labels and how many more there are."""
    names = [str(label) for label in labels]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
