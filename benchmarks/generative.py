"""A gradient step of every generative method at the authors' sizes: eager, as CUDA graphs, and with four models at once.

    python benchmarks/generative.py [--device cpu|cuda] [--steps N] [--method NAME ...]

The shapes are those of CUB: 150 seen and 50 unseen classes, 312 attributes, 7,057 images of 2,048 features; the numbers in
them are random. Engines take turns, three times, and the median counts. A step is one update of the critic, or of its
opponents in their turn; the last column is the time of all steps of the preset ``full``.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from sightunseen import ClassTable
from sightunseen.methods import method_class
from sightunseen.methods.catalogue import CARDS, INDUCTIVE
from sightunseen.methods.generative.base import GenerativeClassifier
from sightunseen.methods.presets import preset
from sightunseen.training import Run
from sightunseen.training.cpu import EagerEngine
from sightunseen.training.engines import engine_for

CLASSES, SEEN, ATTRIBUTES, IMAGES, FEATURES = 200, 150, 312, 7_057, 2_048
ROUNDS, MODELS = 3, 4


def generative_methods() -> list[str]:
    """Names of the inductive methods that synthesise features."""
    return [
        name
        for name, card in CARDS.items()
        if card.setting == INDUCTIVE and issubclass(method_class(card.estimator), GenerativeClassifier)
    ]


def runs_of(name: str, device: str, n_models: int) -> list[Run]:
    """Prepared trainings of a method with different seeds."""
    rng = np.random.default_rng(0)
    labels = np.array([f"class {k:03}" for k in range(CLASSES)])
    classes = ClassTable(labels, rng.random((CLASSES, ATTRIBUTES), dtype=np.float32))
    X, y = rng.random((IMAGES, FEATURES), dtype=np.float32), labels[np.arange(IMAGES) % SEEN]
    make, settings = method_class(CARDS[name].estimator), {**preset("full", name).settings, **CARDS[name].settings}
    return [make(**settings, seed=seed, device=device).fitting(X, y, classes) for seed in range(n_models)]


def together(runs: Sequence[Run]) -> Callable[[int], None]:
    """Train all runs by the engine that training selects for them."""
    engine = engine_for([run.objective for run in runs], [run.optimisation for run in runs])

    def take(n_steps: int) -> None:
        draws = [run.objective.draw(0, n_steps) for run in runs]
        engine.run(draws, [0] * len(runs), [True] * len(runs))

    return take


def eager(run: Run) -> Callable[[int], None]:
    """Train one run step by step."""
    engine = EagerEngine(run.objective, run.optimisation)
    return lambda n_steps: float(engine.run(run.objective.draw(0, n_steps), 0))


def microseconds(takes: Sequence[Callable[[int], None]], n_steps: int, device: str) -> list[float]:
    """Median time of a step of each engine, by turns."""
    found: list[list[float]] = [[] for _ in takes]
    for _ in range(ROUNDS + 1):  # the first round warms up and captures graphs
        for take, times in zip(takes, found, strict=True):
            started = time.perf_counter()
            take(n_steps)
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - started) / n_steps)
    return [statistics.median(times[1:]) for times in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--method", action="append", choices=generative_methods())
    args = parser.parse_args()
    print(f"{'microseconds a step':20} {'eager':>9} {'engine':>9} {f'{MODELS} models':>9} {'steps':>9} {'seconds':>9}")
    for name in args.method or generative_methods():
        runs = runs_of(name, args.device, MODELS + 2)
        takes = [eager(runs[0]), together(runs[1:2]), together(runs[2:])]
        slow, fast, several = microseconds(takes, args.steps, args.device)
        n_steps = runs[0].optimisation.n_steps
        print(f"{name:20} {slow:9.0f} {fast:9.0f} {several / MODELS:9.0f} {n_steps:9,} {1e-6 * fast * n_steps:9.0f}")


if __name__ == "__main__":
    main()
