"""Targets of the fuzzer that train: well-formed data without variance, with one class, extreme values and the like."""

import io
import random
from pathlib import Path
from typing import Any

import numpy as np

from .fuzz_case import Case
from .fuzz_values import damaged, odd_text

CHECKS = (  # of the split doctor, whose failures can be ignored
    *("split-overlap", "validation-leak", "seen-and-unseen", "test-seen-classes", "empty-images", "constant-features"),
    *("identical-images", "missing-attributes", "attribute-units", "classes-without-images", "class-order"),
    *("similar-classes", "uninformative-attributes", "hub-classes"),
)
SMALL = {"n_steps": 4, "hidden": 3, "components": 2, "steps": 2, "classifier_steps": 2, "noise_size": 2, "n_synthesised": 2}


def degenerate_data(r: random.Random) -> bytes:
    """A ``.npz`` with features, labels, splits and class vectors."""
    seen, unseen = r.choice((1, 2, 5, 6, 9)), r.choice((0, 1, 2, 3))
    images, features, attributes = r.choice((1, 2, 4, 6)), r.choice((1, 2, 5)), r.choice((1, 2, 4))
    generator = np.random.default_rng(r.randrange(1000))
    scale = r.choice((0.0, 1e-30, 1e-8, 1.0, 1.0, 1.0, 1e8, 1e14))
    X = generator.standard_normal(((seen + unseen) * images, features)) * scale
    vectors = generator.standard_normal((seen + unseen, attributes)) * r.choice((1e-20, 1.0, 1.0, 1e14))
    change = r.randrange(9)
    if change == 0:
        X[:] = X[0]
    elif change == 1:
        X[:, 0] = 0
    elif change == 2:
        vectors[:] = vectors[0]
    elif change == 3:
        X = np.round(X).clip(-3, 3).astype(r.choice(("i1", "i8", "f2")))
    elif change == 4:
        vectors = (vectors > 0).astype(float)
    elif change == 5:
        X[0, 0] = r.choice((9e14, -9e14, 1e-300))
    names = [odd_text(r, 40).replace("\x00", "") + str(k) if r.random() < 0.05 else f"class {k}" for k in range(seen + unseen)]
    labels = np.array(names)
    y = np.repeat(labels, images)
    split = np.where(np.arange(len(y)) < seen * images, "train", "test_unseen")
    if images > 1 and r.random() < 0.8:
        split[: seen * images : images] = "test_seen"
    arrays: dict[str, Any] = {"X": X, "y": y, "split": split, "class_labels": labels, "class_vectors": vectors}
    if r.random() < 0.1:
        del arrays["split"]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def training(r: random.Random, _: Path) -> Case:
    """Train any method on such data."""
    from sightunseen.methods import METHODS
    from sightunseen.methods.catalogue import CARDS

    name = r.choice((*CARDS, "Foresight", "Foresight", "auto"))
    options = ["--method", name]
    if name != "auto":
        known = METHODS[CARDS[name].estimator]._get_param_names()
        options += [word for key, value in SMALL.items() if key in known for word in ("--set", f"{key}={value}")]
    options += r.choice(([], ["--select", "none"], ["--folds", "2"], ["--seeds", "2"], ["--protocol", "paper"]))
    options += [word for check in CHECKS if r.random() < 0.8 for word in ("--allow", check)]
    return Case(["train", "f.npz", "--out", "new", *options], {"f.npz": degenerate_data(r)}, ["new"], long=True)


def evaluation(r: random.Random, shelf: Path) -> Case:
    """Evaluate, adapt and report with other data than those of training."""
    arrays = dict(np.load(shelf / "data" / "features.npz"))
    X = arrays["X"].astype("f8")
    change = r.randrange(7)
    if change == 0:
        X[:] = 0
    elif change == 1:
        X *= r.choice((1e-30, 1e10, 1e13))
    elif change == 2:
        X[:] = X[0]
    elif change == 3:
        X, arrays["y"], arrays["split"] = X[:3], arrays["y"][:3], arrays["split"][:3]
    elif change == 4:
        arrays["split"] = np.full(len(X), r.choice(("train", "test_seen", "test_unseen")))
    elif change == 5:
        arrays["y"] = np.full(len(X), arrays["y"][0])
    buffer = io.BytesIO()
    np.savez(buffer, **{**arrays, "X": X})
    data = ["f.npz", "--classes", "{shelf}/data/classes.csv"]
    commands = (
        ["evaluate", "{shelf}/model", *data],
        ["evaluate", "{shelf}/model", *data, "--json", "--per-class"],
        ["adapt", "{shelf}/model", *data, "--out", "new"],
        ["adapt", "{shelf}/model", *data, "--out", "new", "--hold-out", "0.5"],
        ["report", "{shelf}/model", *data, "--quick", "--out", "page.html"],
        ["inspect", *data],
    )
    command = r.choice(commands)
    command += [word for check in CHECKS if command[0] == "adapt" and r.random() < 0.8 for word in ("--allow", check)]
    return Case(command, {"f.npz": buffer.getvalue()}, ["new", "page.html"], long=True)


def caches(r: random.Random, shelf: Path) -> Case:
    """Damaged caches of converted files and of features."""
    root = shelf / "cache"
    kept = [path for path in root.rglob("*") if path.is_file()]
    files: dict[str, Any] = {f"../cache/{path.relative_to(root)}": path.read_bytes() for path in kept}
    for name in r.sample(sorted(files), min(len(files), r.choice((1, 1, 3)))):
        files[name] = r.choice((damaged(r, files[name]), damaged(r, files[name]), b"", {"kind": "folder"}))
    photos = ["predict", "{shelf}/seer", "{shelf}/photos/seen/red"]
    return Case(r.choice((["inspect", "{shelf}/benchmark"], ["inspect", "{shelf}/data"], photos)), files)
