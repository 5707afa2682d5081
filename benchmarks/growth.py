"""How time and memory grow with the number of classes, of features and of images, in one run.

    python benchmarks/growth.py [--device cpu|cuda]

Each row is the base case (100 classes, 2048 features, 10,000 images) with one number changed; ratios are to the base case.
20,000 classes have 4 images each.
A step has 32 classes (10 where there are no more) of 4 images, the hidden layer 1600 units; random numbers.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from sightunseen import CVC
from sightunseen.training import Run
from sightunseen.training.engines import engine_for

STEPS = 20


@dataclass(frozen=True)
class Case:
    """Sizes of a data set."""

    classes: int = 100
    features: int = 2048
    images: int = 10_000


BASE = Case()
CASES = {
    "base": BASE,
    **{f"{n:,} classes": replace(BASE, classes=n) for n in (10, 1000, 20_000)},
    **{f"{n:,} features": replace(BASE, features=n) for n in (128, 512, 8192)},
    **{f"{n:,} images": replace(BASE, images=n) for n in (1000, 100_000)},
}


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The median of some times, after one that does not count."""
    taken = []
    for _ in range(times + 1):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def prepared(case: Case, device: str) -> tuple[Run, CVC, np.ndarray]:
    """A training run of the case that has not begun, its model, and the images."""
    rng = np.random.default_rng(0)
    images = max(case.images, 4 * case.classes)
    features = rng.random((images, case.features), dtype=np.float32)
    table = dict(enumerate(rng.random((case.classes, 85), dtype=np.float32)))
    model = CVC(device=device)
    return model.fitting(features, np.arange(images) % case.classes, table), model, features


def measured(case: Case, device: str) -> dict[str, float]:
    """Milliseconds of a step, of drawing it, of making all classifiers, and of an image's answer; MB of model and data."""
    run, model, features = prepared(case, device)
    engine = engine_for([run.objective], [run.optimisation])
    steps = run.objective.draw(0, STEPS)
    step = seconds(lambda: engine.run([steps], [0], [True])) / STEPS
    draw = seconds(lambda: run.objective.draw(0, 100)) / 100
    everything = seconds(model._remember_classifiers)
    some = features[:1000]
    answer = seconds(lambda: model.predict(some)) / len(some)
    size = sum(parameter.nbytes for parameter in run.objective.parameters) * 3 + features.nbytes
    return {"step": 1e3 * step, "draw": 1e3 * draw, "classifiers": 1e3 * everything, "answer": 1e3 * answer, "MB": size / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    device = parser.parse_args().device
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"growth, {where}, torch {torch.__version__}; milliseconds, and their ratio to the base case")
    columns = {"step": "a step", "draw": "drawing it", "classifiers": "all classifiers", "answer": "an answer", "MB": "MB kept"}
    print(f"{'':18}" + "".join(f"{title:>24}" for title in columns.values()))
    base = None
    for name, case in CASES.items():
        found = measured(case, device)
        base = base or found
        print(f"{name:18}" + "".join(f"{found[key]:14.3f} ({found[key] / base[key]:6.2f}x)" for key in columns))


if __name__ == "__main__":
    main()
