"""Describe a data set and check its split for leaks: PASS, WARN or FAIL."""

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.core.dataset import ZeroShotDataset
    from sightunseen.data.doctor import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments

    add_data_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(args: argparse.Namespace) -> int:
    """Check the data set; returns 1 if a check fails, else 0."""
    from sightunseen.cli._data import open_unexamined
    from sightunseen.data.doctor import FAIL, check_files, examine
    from sightunseen.data.gbu import FEATURES, SEMANTICS, SPLITS, as_dataset, is_gbu_folder, read_gbu

    if is_gbu_folder(args.data):
        files = read_gbu(args.data, args.features or FEATURES, args.splits or SPLITS, args.semantics or SEMANTICS)
        findings = check_files(files)
        data = None if any(finding.level == FAIL for finding in findings) else as_dataset(files)
    else:
        findings = []
        data = open_unexamined(args)
    if data is not None:
        findings += examine(data)
    description = {} if data is None else _describe(data)
    if args.json:
        print(json.dumps({**description, "findings": [f.as_dict() for f in findings]}, indent=2, ensure_ascii=False))
    else:
        _print(description, findings)
    return 1 if any(finding.level == FAIL for finding in findings) else 0


def _describe(data: "ZeroShotDataset") -> dict[str, Any]:
    return {
        "name": data.name,
        "images": {
            "all": len(data.labels),
            "train": len(data.train),
            "test_seen": len(data.test_seen),
            "test_unseen": len(data.test_unseen),
        },
        "classes": {"seen": len(data.seen), "unseen": len(data.unseen)},
        "features": int(data.features.shape[1]),
        "semantics": {name: vectors.shape[1] for name, vectors in data.classes.semantics.items()},
        "fingerprints": dict(data.sources),
    }


def _print(description: dict[str, Any], findings: "Sequence[Finding]") -> None:
    from sightunseen.cli._printing import print_table

    if description:
        sizes = [
            *((f"images, {part}", count) for part, count in description["images"].items()),
            *((f"classes, {part}", count) for part, count in description["classes"].items()),
            ("features", description["features"]),
            *((f"semantics '{name}'", size) for name, size in description["semantics"].items()),
            *((f"sha256 of {name}", fingerprint[:16]) for name, fingerprint in description["fingerprints"].items()),
        ]
        print_table(description["name"], ["", "size"], sizes)
    ordered = sorted(findings, key=lambda finding: ("FAIL", "WARN", "PASS").index(finding.level))
    rows = [(f.level, f.check, " ".join(part for part in (f.what, f.why, f.remedy) if part)) for f in ordered]
    print_table("Split doctor", ["", "check", "finding"], rows)
