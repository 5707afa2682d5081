"""Opening data for a command, with the split doctor's word on it."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.cli._photos import PhotoProgress
from sightunseen.data import open_data
from sightunseen.data.doctor import PASS, Finding, examine, repair, stop_on_failures, stopping
from sightunseen.data.photo_lists import is_photos
from sightunseen.data.tables import load_features, open_features
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import DataError, SettingsError
from sightunseen.features.backbones import Backbone, open_backbone
from sightunseen.features.datasets import load_photos
from sightunseen.features.tables import backbone_of

ABOUT_TRAINING = ("training-images", "classes-without-images", "test-seen-classes")


def open_source(args: argparse.Namespace, semantics: str | None = None, model: Any = None) -> ZeroShotDataset:
    """Open data or, with the backbone asked for or the model's own, photos; features of another backbone are refused."""
    wanted = args.semantics or semantics
    if not is_photos(args.data):
        data = open_data(args.data, args.features, args.splits, wanted, args.classes)
        data = replace(data, backbone=_backbone_of_tables(args.data))
        check_backbone(model, data.backbone, str(args.data))
        return data
    backbone = open_for_photos(args.backbone, model)
    classes = model.table_ if args.classes is None and model is not None else args.classes
    seen = None if model is None else model.seen_classes_.tolist()
    with PhotoProgress(backbone.name) as progress:
        return load_photos(args.data, backbone, classes, wanted or "auto", seen, progress.say, progress.watched)


def _backbone_of_tables(path: Path) -> dict[str, Any] | None:
    """What the table of features says about its backbone; nothing in a benchmark's folder."""
    tables = [path / f"features{ending}" for ending in (".npz", ".parquet")] if path.is_dir() else [path]
    return next((backbone_of(table) for table in tables if table.is_file()), None)


def open_for_photos(name: str | None, model: Any = None) -> Backbone:
    """The backbone of this name, or the one that the model was trained with."""
    own = known_backbone(model)
    if name is None and own is None:
        raise SettingsError("these are photos. Say what turns them into features, such as --backbone efficientnet_lite0")
    backbone = open_backbone(str(name or own["name"]))  # type: ignore[index]
    check_backbone(model, backbone.describe(), f"backbone {backbone.name}")
    return backbone


def known_backbone(model: Any) -> dict[str, Any] | None:
    """What a model's record says about the backbone of its features."""
    found = model.record_.data.get("backbone") if model is not None and model.record_ is not None else None
    return None if found is None else dict(found)


def check_backbone(model: Any, found: Any, where: str) -> None:
    """Refuse features of another backbone, or of one with other weights or preprocessing, than the model's."""
    own = known_backbone(model)
    if own is None or found is None or own["fingerprint"] == found["fingerprint"]:
        return
    what = "other weights or preprocessing" if own["name"] == found["name"] else f"'{found['name']}'"
    raise DataError(f"the model needs features of '{own['name']}'; those of {where} are of {what}. Extract them again.")


def open_examined(
    args: argparse.Namespace, semantics: str | None = None, allowed: Sequence[str] = (), model: Any = None
) -> tuple[ZeroShotDataset, list[Finding]]:
    """Open the data, repair what needs no guess and say so, stop on what else FAILs; ``model`` is what they are for."""
    data = open_source(args, semantics, model)
    found = examine(data)
    if model is not None and not len(data.train):  # it has met its own; these only test it
        found = [finding for finding in found if finding.check not in ABOUT_TRAINING]
    data, findings = repair(data, found)
    said_by_the_error = stopping(findings, allowed)
    for finding in findings:
        if finding.level != PASS and finding not in said_by_the_error:
            print(f"split doctor: {finding.level} {finding.check}: {finding.what} {finding.remedy}", file=sys.stderr)
    stop_on_failures(findings, allowed)
    return data, findings


def load_images(path: Path, model: Any, streamed: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Features of images for this model, and their names where the file has them; ``streamed``, they come as asked for."""
    features, names = (open_features if streamed else load_features)(path)
    check_backbone(model, backbone_of(path), str(path))
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


def candidates_of(wanted: str, model: Any) -> Any:
    """The word ``all``, ``seen`` or ``unseen`` itself, or the labels in the file it names."""
    if wanted in ("all", "seen", "unseen"):
        return wanted
    path = Path(wanted)
    if not path.is_file():
        raise DataError(f"candidates must be all, seen, unseen or a file with one label a line; there is no file {path}.")
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text with one label a line; it is not readable as UTF-8.") from error
    unknown = [label for label in lines if label not in model.table_]
    if unknown or not lines:
        what = f"'{unknown[0]}' is not a class of the model" if unknown else "it is empty"
        raise DataError(f"{path}: {what}. It must hold one label of the model a line, such as '{model.classes_[0]}'.")
    return np.array(list(dict.fromkeys(lines)))
