"""The split doctor: checks of a data set before training.

:func:`examine` runs all checks, :func:`repair` corrects the faults that have a unique correction, and
:func:`stop_on_failures` raises an error for those that remain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.doctor.class_checks import check_classes
from sightunseen.data.doctor.description_checks import check_descriptions
from sightunseen.data.doctor.duplicate_checks import check_near_duplicates
from sightunseen.data.doctor.feature_checks import check_features
from sightunseen.data.doctor.file_checks import check_files
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding
from sightunseen.data.doctor.split_checks import check_splits, without_test_images

__all__ = ["FAIL", "PASS", "WARN", "Finding", "check_files", "examine", "notable", "repair", "stop_on_failures", "stopping"]

# Checks that no model can be trained without.
NEVER_ALLOWED = ("finite-features", "class-vectors", "distinct-vectors", "training-images")


def examine(data: ZeroShotDataset) -> list[Finding]:
    """Run all checks of a data set.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding per check.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World(n_seen=4, n_unseen=2, n_attributes=5, n_features=8, images_per_class=10))
    >>> {finding.level for finding in examine(data)}
    {'PASS'}
    """
    of_images = [*check_features(data), *check_near_duplicates(data)]
    return [*check_splits(data), *of_images, *check_classes(data), *check_descriptions(data)]


def repair(data: ZeroShotDataset, findings: Sequence[Finding]) -> tuple[ZeroShotDataset, list[Finding]]:
    """Correct the faults that have a unique correction: test images in the validation lists are removed from them.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.
    findings : sequence of Finding
        Result of :func:`examine`.

    Returns
    -------
    data : ZeroShotDataset
        The corrected data set.
    findings : list of Finding
        The findings; corrected faults have ``repaired=True``.
    """
    repaired = []
    for finding in findings:
        if finding.level == FAIL and finding.check == "validation-leak":
            data = without_test_images(data)
            finding = replace(finding, repaired=True, remedy="Repaired: no test image is in any validation fold.")
        repaired.append(finding)
    return data, repaired


def notable(findings: Iterable[Finding]) -> tuple[dict[str, Any], ...]:
    """Return the findings other than PASS as dictionaries, for the run record."""
    return tuple(finding.as_dict() for finding in findings if finding.level != PASS)


def stopping(findings: Sequence[Finding], allowed: Sequence[str] = ()) -> list[Finding]:
    """Return the failures that were neither repaired nor allowed by name."""
    return [f for f in findings if f.level == FAIL and not f.repaired and f.check not in allowed]


def stop_on_failures(findings: Sequence[Finding], allowed: Sequence[str] = ()) -> None:
    """Raise an error if there are failures that were neither repaired nor allowed.

    Parameters
    ----------
    findings : sequence of Finding
        Result of :func:`examine` or :func:`repair`.
    allowed : sequence of str, default=()
        Names of checks whose failure is ignored.

    Raises
    ------
    DataError
        If such failures remain.
    SettingsError
        If ``allowed`` names an unknown check, or one that cannot be allowed.
    """
    can_be_allowed = [finding.check for finding in findings if finding.check not in NEVER_ALLOWED]
    unknown = sorted(set(allowed) - set(can_be_allowed))
    if unknown:
        raise SettingsError(f"there is no check '{unknown[0]}' that could be allowed; there are {', '.join(can_be_allowed)}.")
    left = stopping(findings, allowed)
    if left:
        lines = [f"  {finding.check}: {finding.what} {finding.remedy}" for finding in left]
        if not any(finding.check in NEVER_ALLOWED for finding in left):
            lines.append("To ignore this: " + " ".join(f"--allow {finding.check}" for finding in left))
        raise DataError("\n".join(["the split doctor stops this run:", *lines]))
