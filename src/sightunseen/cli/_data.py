"""Opening data for a command, with the split doctor's word on it."""

import argparse
import sys
from collections.abc import Sequence

from sightunseen.data import open_data
from sightunseen.data.doctor import PASS, Finding, examine, repair, stop_on_failures
from sightunseen.dataset import ZeroShotDataset


def open_examined(
    args: argparse.Namespace, semantics: str | None = None, allowed: Sequence[str] = ()
) -> tuple[ZeroShotDataset, list[Finding]]:
    """Open the data, repair what needs no guess and say so, stop on what else FAILs."""
    data = open_data(args.data, args.features, args.splits, args.semantics or semantics, args.classes)
    data, findings = repair(data, examine(data))
    for finding in findings:
        if finding.level != PASS:
            print(f"split doctor: {finding.level} {finding.check}: {finding.what} {finding.remedy}", file=sys.stderr)
    stop_on_failures(findings, allowed)
    return data, findings
