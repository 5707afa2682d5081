"""The result of one check of the split doctor."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

PASS, WARN, FAIL = "PASS", "WARN", "FAIL"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Parameters
    ----------
    check : str
        Name of the check.
    level : {"PASS", "WARN", "FAIL"}
        Severity.
    what : str
        What was found.
    why : str, default=""
        Why it matters.
    remedy : str, default=""
        What to do.
    repaired : bool, default=False
        Whether the fault was corrected.
    """

    check: str
    level: str
    what: str
    why: str = ""
    remedy: str = ""
    repaired: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary, for the run record and ``--json``."""
        return asdict(self)


def some(labels: Iterable[Any], most: int = 3) -> str:
    """Join the first labels and count the others.

    >>> some(["ant", "bee", "cod", "eel", "owl"])
    'ant, bee, cod and 2 more'
    """
    names = [str(label) for label in labels]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
