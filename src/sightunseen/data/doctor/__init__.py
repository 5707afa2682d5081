"""The split doctor: what is wrong with a data set before a number is made from it.

``examine`` runs all checks; ``repair`` mends what can be mended without guessing; ``stop_on_failures`` does the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.doctor.class_checks import check_classes
from sightunseen.data.doctor.feature_checks import check_features
from sightunseen.data.doctor.file_checks import check_files
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding
from sightunseen.data.doctor.split_checks import check_splits, without_test_images

__all__ = [
    "FAIL",
    "HOPELESS",
    "PASS",
    "WARN",
    "Finding",
    "check_files",
    "examine",
    "notable",
    "repair",
    "stop_on_failures",
    "stopping",
]

HOPELESS = ("finite-features", "class-vectors", "distinct-vectors", "training-images")  # no training could use such data


def examine(data: ZeroShotDataset) -> list[Finding]:
    """All checks of a data set."""
    return [*check_splits(data), *check_features(data), *check_classes(data)]


def repair(data: ZeroShotDataset, findings: Sequence[Finding]) -> tuple[ZeroShotDataset, list[Finding]]:
    """Mend the findings that need no guess; returns the data, and the findings with those mended marked so."""
    mended = []
    for finding in findings:
        if finding.level == FAIL and finding.check == "validation-leak":
            data = without_test_images(data)
            finding = replace(finding, repaired=True, remedy="Repaired: no test image is in any validation fold.")
        mended.append(finding)
    return data, mended


def notable(findings: Iterable[Finding]) -> tuple[dict[str, Any], ...]:
    """What a record keeps of the findings: all but PASS."""
    return tuple(finding.as_dict() for finding in findings if finding.level != PASS)


def stopping(findings: Sequence[Finding], allowed: Sequence[str] = ()) -> list[Finding]:
    """The FAILs that were neither repaired nor allowed by name."""
    return [f for f in findings if f.level == FAIL and not f.repaired and f.check not in allowed]


def stop_on_failures(findings: Sequence[Finding], allowed: Sequence[str] = ()) -> None:
    """Raise on every FAIL that was neither repaired nor allowed by name."""
    can_be_allowed = [finding.check for finding in findings if finding.check not in HOPELESS]
    unknown = sorted(set(allowed) - set(can_be_allowed))
    if unknown:
        raise SettingsError(f"there is no check '{unknown[0]}' that could be allowed; there are {', '.join(can_be_allowed)}.")
    left = stopping(findings, allowed)
    if left:
        lines = [f"  {finding.check}: {finding.what} {finding.remedy}" for finding in left]
        if not any(finding.check in HOPELESS for finding in left):
            lines.append("To go on all the same: " + " ".join(f"--allow {finding.check}" for finding in left))
        raise DataError("\n".join(["the split doctor stops this run:", *lines]))
