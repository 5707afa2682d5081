"""Accuracy of a model with a few labelled images per unseen class.

    sightunseen train DATA [--features NAME] --out MODEL
    python benchmarks/few_shot.py MODEL DATA [--features NAME] [--draws N]

T1 (per-class accuracy with unseen classes as candidates) and H (all classes as candidates), in percent: mean ± standard
deviation over the draws of the examples (default: 10). The test images that are not examples are tested on. For comparison, T1
of nearest class means that use the examples alone: in the whitened space of the model, and of scaled features.
"""

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen import Foresight
from sightunseen.cli._arguments import add_data_arguments
from sightunseen.cli._data import open_unexamined
from sightunseen.core.metrics import harmonic_mean, per_class_accuracy

SHOTS = (0, 1, 2, 3, 5, 10)


def nearest_mean(X: Any, y: Any, examples: Any, labels: Any) -> float:
    """Per-class accuracy of the nearest class mean of the examples (k, d)."""
    classes = np.unique(labels)
    means = np.stack([examples[labels == label].mean(axis=0) for label in classes])
    distances = np.square(means).sum(axis=1) - 2 * X @ means.T
    return per_class_accuracy(y, classes[distances.argmin(axis=1)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    add_data_arguments(parser)
    parser.add_argument("--draws", type=int, default=10)
    args = parser.parse_args()
    model, data = Foresight.load(args.model), open_unexamined(args)
    X, y = np.asarray(data.test_unseen.X), data.test_unseen.y
    scaled = model.scaling_(X)
    spaces = {"nearest mean, whitened": model.whitening_(scaled), "nearest mean, features": scaled}
    found: dict[str, dict[int, list[float]]] = {}
    for draw in range(args.draws):
        rng = np.random.default_rng(draw)
        order = [rng.permutation(np.flatnonzero(y == label)) for label in data.unseen]
        for n in SHOTS:
            chosen = np.concatenate([rows[:n] for rows in order])
            rest = np.setdiff1d(np.arange(len(y)), chosen)
            taught = copy.deepcopy(model)
            if n:
                taught.add_examples(X[chosen], y[chosen])
            numbers = {"T1": taught.score(X[rest], y[rest], "unseen")}
            numbers["H"] = harmonic_mean(taught.score(X[rest], y[rest]), taught.score(data.test_seen.X, data.test_seen.y))
            if n:
                numbers |= {name: nearest_mean(Z[rest], y[rest], Z[chosen], y[chosen]) for name, Z in spaces.items()}
            for name, value in numbers.items():
                found.setdefault(name, {}).setdefault(n, []).append(100 * value)
    print(f"{type(model).__name__} on {data.name}: {len(data.unseen)} unseen classes, {len(y):,} images, {args.draws} draws")
    print(f"{'images per class':24}" + "".join(f"{n:>13}" for n in SHOTS))
    for name, by_shots in found.items():
        cells = (f"{np.mean(by_shots[n]):.1f} ± {np.std(by_shots[n]):.1f}" if n in by_shots else "" for n in SHOTS)
        print(f"{name:24}" + "".join(f"{cell:>13}" for cell in cells))


if __name__ == "__main__":
    main()
