"""Accuracy of CVC by training engine: whether faster products cost accuracy.

    python benchmarks/accuracy.py [FOLDER] [FEATURES] [--seeds N] [--device cpu|cuda]

Default: ../shared/xlsa17/data/CUB res50. Models of N seeds (default: 3) are trained with the default settings, for all of their
steps and with nothing chosen, by each engine that the device has; T1 and AUSUC on the test data, mean ± standard deviation.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from sightunseen import CVC, evaluate, load_gbu
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.training import Run
from sightunseen.training.cpu import EagerEngine
from sightunseen.training.cuda import GraphEngine
from sightunseen.training.engines import Engine, SideBySide

CHUNK = 100


def engines(device: str) -> dict[str, Callable[[Sequence[Run]], Engine]]:
    """The engines that a device has, by name."""
    found: dict[str, Callable[[Sequence[Run]], Engine]] = {
        "plain": lambda runs: SideBySide([EagerEngine(run.objective, run.optimisation) for run in runs])
    }
    if device == "cuda":
        from sightunseen.training.batched import BatchedEngine

        def batched(precision: str) -> Callable[[Sequence[Run]], Engine]:
            return lambda runs: BatchedEngine([run.objective for run in runs], [run.optimisation for run in runs], precision)

        found["cuda graph"] = lambda runs: SideBySide([GraphEngine(run.objective, run.optimisation) for run in runs])
        found |= {f"batched, {precision}": batched(precision) for precision in ("tf32x3", "tf32")}
    return found


def trained(data: ZeroShotDataset, seeds: int, device: str, make: Callable[[Sequence[Run]], Engine]) -> list[CVC]:
    models = [CVC(seed=seed, device=device) for seed in range(seeds)]
    runs = [model.fitting(data.train.X, data.train.y, data.classes) for model in models]
    engine = make(runs)
    for first in range(0, models[0].n_steps, CHUNK):
        engine.run([run.objective.draw(first, CHUNK) for run in runs], [first] * seeds, [True] * seeds)
    engine.release()
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("../shared/xlsa17/data/CUB"))
    parser.add_argument("features", nargs="?", default="res50")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    data = load_gbu(args.folder, features=args.features)
    print(f"{data.name} {args.features}, {args.device}, {args.seeds} seeds, {CVC().n_steps:,} steps, nothing chosen")
    for name, make in engines(args.device).items():
        started = time.perf_counter()
        models = trained(data, args.seeds, args.device, make)
        taken = time.perf_counter() - started
        results = [evaluate(model, data).summary() for model in models]
        shown = []
        for figure in ("T1", "H", "AUSUC"):
            values = [float(result[figure] or 0.0) for result in results]
            shown.append(f"{figure} {np.mean(values):5.2f} ± {np.std(values, ddof=1):4.2f}")
        print(f"{name:20} {'   '.join(shown)}   {taken:6.1f} s")


if __name__ == "__main__":
    main()
