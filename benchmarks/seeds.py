"""Models of several seeds trained together, against one after the other, in one run.

    python benchmarks/seeds.py [FOLDER] [FEATURES] [--seeds N] [--tasks N] [--device cpu|cuda]

Default: 4 seeds on ../shared/xlsa17/data/CUB res50, 200 tasks; each chooses on validation classes, is trained again on all
seen classes and looked at on the test data, as ``sightunseen train --seeds`` does.
"""

import argparse
import tempfile
import time
from pathlib import Path

from sightunseen import CVC, load_gbu
from sightunseen.dataset import ZeroShotDataset
from sightunseen.protocols import run_training


def seconds(data: ZeroShotDataset, model: CVC, n_seeds: int) -> float:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as workspace:
        run_training(model, data, Path(workspace), n_seeds=n_seeds)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("../shared/xlsa17/data/CUB"))
    parser.add_argument("features", nargs="?", default="res50")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    data = load_gbu(args.folder, features=args.features)
    settings = {"n_tasks": args.tasks, "device": args.device}
    seconds(data, CVC(**settings), 1)  # fills caches and compiles kernels
    seconds(data, CVC(**settings), args.seeds)
    alone = sum(seconds(data, CVC(**settings, seed=seed), 1) for seed in range(args.seeds))
    together = seconds(data, CVC(**settings), args.seeds)
    print(f"{data.name} {args.features}, {args.device}, {args.seeds} seeds, up to {args.tasks:,} tasks each")
    print(f"one after the other {alone:8.1f} s")
    print(f"together            {together:8.1f} s, {together / alone:.2f} of that")


if __name__ == "__main__":
    main()
