"""Opening data for a command, with the split doctor's word on it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.data import open_data
from sightunseen.data.doctor import PASS, Finding, examine, repair, stop_on_failures, stopping
from sightunseen.data.tables import load_features
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import DataError


def open_examined(
    args: argparse.Namespace, semantics: str | None = None, allowed: Sequence[str] = ()
) -> tuple[ZeroShotDataset, list[Finding]]:
    """Open the data, repair what needs no guess and say so, stop on what else FAILs."""
    data = open_data(args.data, args.features, args.splits, args.semantics or semantics, args.classes)
    data, findings = repair(data, examine(data))
    said_by_the_error = stopping(findings, allowed)
    for finding in findings:
        if finding.level != PASS and finding not in said_by_the_error:
            print(f"split doctor: {finding.level} {finding.check}: {finding.what} {finding.remedy}", file=sys.stderr)
    stop_on_failures(findings, allowed)
    return data, findings


def load_images(path: Path, model: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features of images for this model, and their names where the file has them."""
    features, names = load_features(path)
    if not len(features):
        raise DataError(f"{path} holds no image.")
    if features.shape[1] != model.n_features_in_:
        raise DataError(f"{path} has {features.shape[1]} features an image; the model needs {model.n_features_in_}.")
    return features, names


def load_unlabelled(path: Path, model: Any) -> NDArray[Any]:
    """Features of unlabelled images to adapt to."""
    features = np.asarray(load_images(path, model)[0])
    bad = int((~np.isfinite(features).all(axis=1)).sum())
    if bad:
        raise DataError(f"{path}: images with NaN or infinite features: {bad}. Extract them again, or drop them.")
    return features
