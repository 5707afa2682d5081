"""Models of several seeds trained together, against one after the other, in one run.

    python benchmarks/seeds.py [FOLDER] [FEATURES] [--seeds N] [--steps N] [--device cpu|cuda]

Default: 4 seeds on ../shared/xlsa17/data/CUB res50, 200 steps; each chooses on validation classes, is trained again on all
seen classes and looked at on the test data, as ``sightunseen train --seeds`` does.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from sightunseen import CVC, load_gbu
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.pipeline import TrainingSpecification, train


def seconds(data: ZeroShotDataset, parameters: dict[str, Any], seed: int, n_seeds: int) -> float:
    specification = TrainingSpecification(method=CVC, parameters=parameters, search={}, seed=seed, n_seeds=n_seeds)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as workspace:
        train(specification, data, Path(workspace))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("../shared/xlsa17/data/CUB"))
    parser.add_argument("features", nargs="?", default="res50")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    data = load_gbu(args.folder, features=args.features)
    settings = {"n_steps": args.steps, "device": args.device}
    seconds(data, settings, 0, 1)  # fills caches and compiles kernels
    seconds(data, settings, 0, args.seeds)
    alone = sum(seconds(data, settings, seed, 1) for seed in range(args.seeds))
    together = seconds(data, settings, 0, args.seeds)
    print(f"{data.name} {args.features}, {args.device}, {args.seeds} seeds, up to {args.steps:,} steps each")
    print(f"one after the other {alone:8.1f} s")
    print(f"together            {together:8.1f} s, {together / alone:.2f} of that")


if __name__ == "__main__":
    main()
