"""Foresight with many classes: time and peak memory of fitting and of prediction, each size in a process of its own.

    python benchmarks/many_classes.py [--fits 1000 5000 20000] [--candidates 1000 10000 100000 1000000]

A fit has as many seen as unseen classes, 3 images of 2,048 features per seen class and class vectors of 300 attributes; then
10,000 images are predicted among all classes. Candidates are unseen classes added to a model of 200 seen ones; the best five
classes of 1,000 images are found among them. Features are linear in the class vectors, with noise. Prints Markdown tables.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from sightunseen import ClassTable, Foresight

FEATURES, ATTRIBUTES, IMAGES_PER_CLASS = 2048, 300, 3
FEW_ATTRIBUTES = 100  # of a million classes: their vectors then take 0.8 GB
SEEN, PREDICTED, RANKED = 200, 10_000, 1_000
NOISE = 8.0


class World:
    """Class vectors, and images that are drawn around a linear function of them."""

    def __init__(self, n_classes: int, n_attributes: int) -> None:
        self.rng = np.random.default_rng(0)
        self.labels = np.array([f"class {k:07d}" for k in range(n_classes)])
        self.vectors = self.rng.standard_normal((n_classes, n_attributes))
        self.map = self.rng.standard_normal((n_attributes, FEATURES), dtype=np.float32)

    def images(self, classes: np.ndarray) -> np.ndarray:
        """Draw one image of each of the given classes, in blocks."""
        X = np.empty((len(classes), FEATURES), dtype=np.float32)
        for start in range(0, len(X), 1024):
            rows = classes[start : start + 1024]
            noise = self.rng.standard_normal((len(rows), FEATURES), dtype=np.float32)
            X[start : start + 1024] = self.vectors[rows].astype(np.float32) @ self.map + NOISE * noise
        return X


def peak() -> float:
    """Return the largest resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


class Stages:
    """Seconds, seconds of all processor cores together, and peak memory of stages."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        """Begin a stage."""
        self.started = time.perf_counter(), time.process_time()

    def end(self, name: str) -> None:
        """Record the stage that ends, and begin the next one."""
        now = time.perf_counter(), time.process_time()
        self.found[name], self.found[f"{name}_cpu"] = now[0] - self.started[0], now[1] - self.started[1]
        self.found[f"{name}_peak"] = peak()
        self.start()


def fit_and_predict(n_seen: int) -> dict[str, float]:
    """Fit seen classes and as many unseen ones, and predict images of all of them."""
    world = World(2 * n_seen, ATTRIBUTES)
    rows = np.repeat(np.arange(n_seen), IMAGES_PER_CLASS)
    X, y, table = world.images(rows), world.labels[rows], ClassTable(world.labels, world.vectors)
    asked = world.rng.integers(0, 2 * n_seen, PREDICTED)
    X_test = world.images(asked)
    stages = Stages()
    model = Foresight().fit(X, y, table)
    stages.end("fit")
    found = model.predict(X_test)
    stages.end("predict")
    return stages.found | {"accuracy": 100 * float((found == world.labels[asked]).mean())}


def rank(n_candidates: int) -> dict[str, float]:
    """Find the best five of many candidates, for a model of few seen classes."""
    world = World(SEEN + n_candidates, FEW_ATTRIBUTES)
    rows = np.repeat(np.arange(SEEN), 5)
    model = Foresight().fit(world.images(rows), world.labels[rows], ClassTable(world.labels[:SEEN], world.vectors[:SEEN]))
    asked = SEEN + world.rng.integers(0, n_candidates, RANKED)
    X = world.images(asked)
    stages = Stages()
    model.add_classes(ClassTable(world.labels[SEEN:], world.vectors[SEEN:]))
    stages.end("add")
    found, _ = model.top_classes(X, 5, "unseen")
    stages.end("rank")
    return stages.found | {"accuracy": 100 * float((found[:, 0] == world.labels[asked]).mean())}


def measured(what: str, size: int) -> dict[str, float]:
    """Run one size in a fresh process."""
    command = [sys.executable, __file__, f"--{what}", str(size)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(value) for name, value in json.loads(output).items()}


def print_table(what: str, sizes: Sequence[int], images: int, stages: tuple[str, str], heads: tuple[str, str, str]) -> None:
    """Print a row per size: seconds (of all cores together), images per second, peak memory and accuracy."""
    first, second = stages
    classes, one, other = heads
    print(f"| {classes} | {one}, s (CPU s) | {other}, s (CPU s) | images/s | peak after either, GiB | right, % |")
    print("|---|---|---|---|---|---|")
    for size in sizes:
        found = measured(what, size)
        times = [f"{found[stage]:,.1f} ({found[f'{stage}_cpu']:,.1f})" for stage in stages]
        peaks = f"{found[f'{first}_peak']:.1f}, {found[f'{second}_peak']:.1f}"
        rate = f"{images / found[second]:,.0f}"
        print(f"| {size:,} | {' | '.join(times)} | {rate} | {peaks} | {found['accuracy']:.1f} |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, nargs="*", default=[1_000, 5_000, 20_000])
    parser.add_argument("--candidates", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--fit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit or args.rank:
        print(json.dumps(fit_and_predict(args.fit) if args.fit else rank(args.rank)))
        return
    heads = ("seen classes, and as many unseen", "fit", f"prediction of {PREDICTED:,} images")
    print_table("fit", args.fits, PREDICTED, ("fit", "predict"), heads)
    heads = ("candidates", "classes added", f"five best classes of {RANKED:,} images")
    print_table("rank", args.candidates, RANKED, ("add", "rank"), heads)


if __name__ == "__main__":
    main()
