"""Accuracy on photos: real descriptions of classes beside random ones, which say nothing.

python benchmarks/own_photos.py ../shared/grocery-images --semantics names --method Foresight ESZSL CVC --seeds 3
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.features.backbones import open_backbone
from sightunseen.features.photo_datasets import load_photos
from sightunseen.methods import METHODS
from sightunseen.methods.catalogue import card_of
from sightunseen.pipeline import TrainingSpecification, train

NUMBERS = ("T1", "U", "S", "H")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--semantics", default="auto")
    parser.add_argument("--method", nargs="+", default=["Foresight", "ESZSL", "CVC"])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    data = load_photos(args.photos, open_backbone(args.backbone), semantics=args.semantics)
    sizes = data.describe()
    print(f"{data.name}: {sizes['images']}, {sizes['classes']}, {data.classes.use}; chance of T1 {100 / len(data.unseen):.1f}")
    for method in args.method:
        kind = METHODS[card_of(method).estimator]
        for words, make in (("described", _described), ("at random", _at_random)):
            found = [_results(kind, make(data, seed), seed) for seed in range(args.seeds)]
            print(f"{method}, {words}: " + ", ".join(f"{name} {_shown([one[name] for one in found])}" for name in NUMBERS))


def _described(data: ZeroShotDataset, _seed: int) -> ZeroShotDataset:
    return data


def _at_random(data: ZeroShotDataset, seed: int) -> ZeroShotDataset:
    """The same photos, with class vectors that have nothing to do with them."""
    vectors = np.random.default_rng(seed).normal(size=data.classes.vectors.shape)
    return replace(data, classes=ClassTable(data.classes.labels, {"random": vectors}))


def _results(kind: Any, data: ZeroShotDataset, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        model = train(TrainingSpecification(method=kind, seed=seed), data, Path(folder))
    return dict(model.record_.results)


def _shown(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(set(values)) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
