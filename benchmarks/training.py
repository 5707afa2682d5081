"""A training step under every engine, against the authors' loop and against the least it could cost, in one run.

    python benchmarks/training.py [--device cpu|cuda] [--steps N] [--models B] [--million]

The shapes are the paper's on AwA1: 40 classes, 85 attributes, 19,832 images of 2048 features, M 32, N 4, hidden 1600, Adam
with decay, the gradient's norm clipped; the numbers in them do not matter to the time, so they are random. Engines take
turns, three times, and the median counts. With --million 1,000,000 steps are then trained through ``CVC.fit`` on a GPU.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from sightunseen import CVC
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Optimisation
from sightunseen.training.cpu import EagerEngine

CLASSES, ATTRIBUTES, IMAGES, FEATURES, HIDDEN, M, N = 40, 85, 19_832, 2048, 1600, 32, 4
HOW = Optimisation(n_steps=1_000_000, learning_rate=1e-5, weight_decay=1e-3, clip_norm=1.0)
ROUNDS = 3


class Data:
    """Random data of the benchmark's shapes."""

    def __init__(self, device: str) -> None:
        rng = torch.Generator().manual_seed(0)
        self.vectors = torch.rand(CLASSES, ATTRIBUTES, generator=rng).to(device)
        self.features = torch.rand(IMAGES, FEATURES, generator=rng).to(device)
        self.places = (torch.arange(IMAGES) % CLASSES).to(device)

    def objective(self, seed: int = 0) -> EpisodicTraining:
        """What is trained, from this seed."""
        device = self.features.device
        generator = ClassifierGenerator(ATTRIBUTES, HIDDEN, FEATURES, True, "normal", torch.Generator().manual_seed(seed))
        shape = EpisodeShape(M, N, episodic=True)
        parts = generator.to(device), Score("cosine", 10.0).to(device)
        return EpisodicTraining(*parts, self.vectors, self.features, self.places, shape, seed)


def authors_loop(data: Data) -> Callable[[int], None]:
    """The loop as the authors wrote it: steps drawn image by image on the host, one ``cat`` an image, plain Adam."""
    device = data.features.device
    features, vectors = data.features.cpu(), data.vectors.cpu()
    rows_of = {k: torch.nonzero(data.places.cpu() == k).flatten().tolist() for k in range(CLASSES)}
    objective = data.objective()
    generator, scale = objective.generator, objective.score.scale
    optimiser = torch.optim.Adam(objective.parameters, lr=HOW.learning_rate, weight_decay=HOW.weight_decay, foreach=False)

    def run(n_steps: int) -> None:
        for _ in range(n_steps):
            images, labels, descriptions = torch.empty(0, FEATURES), torch.empty(0).long(), torch.empty(0, ATTRIBUTES)
            for label, chosen in enumerate(random.sample(range(CLASSES), M)):
                descriptions = torch.cat([descriptions, vectors[chosen : chosen + 1]])
                for row in random.sample(rows_of[chosen], N):
                    images = torch.cat([images, features[row : row + 1]])
                    labels = torch.cat([labels, torch.tensor([label])])
            x, y, a = images.to(device), labels.to(device), descriptions.to(device)
            w = generator(a)
            scores = scale * nn.functional.normalize(x, dim=1) @ nn.functional.normalize(w, dim=1).t()
            loss = nn.functional.cross_entropy(scores, y)
            optimiser.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(objective.parameters, 1.0, foreach=False)
            optimiser.step()
            loss.item()  # the authors print it

    return run


def one_model(engine: EagerEngine) -> Callable[[int], None]:
    """An engine of one model, steps drawn a hundred at a time as in training."""

    def run(n_steps: int) -> None:
        for first in range(0, n_steps, 100):
            engine.run(engine.objective.draw(first, min(100, n_steps - first)), first)

    return run


def batched(data: Data, models: int) -> Callable[[int], None]:
    """The batched engine; the time is that of a step of one of its models."""
    from sightunseen.training.batched import BatchedEngine

    objectives = [data.objective(seed) for seed in range(models)]
    engine = BatchedEngine(objectives, [HOW] * models)

    def run(n_steps: int) -> None:
        for first in range(0, n_steps, 5000):
            size = min(5000, n_steps - first)
            engine.run([objective.draw(first, size) for objective in objectives], [first] * models, [True] * models)

    return run


def seconds(work: Callable[[int], None], n_steps: int) -> float:
    _synchronise()
    started = time.perf_counter()
    work(n_steps)
    _synchronise()
    return time.perf_counter() - started


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def memory_floor(device: str) -> tuple[float, float]:
    """Bytes a second that a large copy reads and writes, and seconds to read and write parameters and moments once."""
    large = torch.empty(1 << (30 if device == "cuda" else 27), device=device)
    other = torch.empty_like(large)

    def copies(times: int) -> None:
        for _ in range(times):
            other.copy_(large)

    copies(2)
    bandwidth = 2 * large.nbytes * 5 / statistics.median(seconds(copies, 5) for _ in range(3))
    parameters = HIDDEN * (ATTRIBUTES + 1) + FEATURES * (HIDDEN + 1) + 1
    return bandwidth, 6 * 4 * parameters / bandwidth


def product_floor(device: str) -> float:
    """Seconds of a step's matrix products alone."""
    sizes = [(M, ATTRIBUTES, HIDDEN), (M, HIDDEN, FEATURES), (M * N, FEATURES, M)]
    needed = [(m, k, n) for m, k, n in sizes] + [(m, n, k) for m, k, n in sizes[1:]] + [(k, m, n) for m, k, n in sizes]
    pairs: list[tuple[Tensor, Tensor]] = [
        (torch.rand(m, k, device=device), torch.rand(k, n, device=device)) for m, k, n in needed
    ]

    def products(times: int) -> None:
        for _ in range(times):
            for left, right in pairs:
                left @ right

    products(5)
    return statistics.median(seconds(products, 20) for _ in range(3)) / 20


def compare(device: str, n_steps: int, models: int) -> None:
    data = Data(device)
    few = max(50, n_steps // 8)  # the authors' loop and eager steps on a GPU are slow
    contenders: dict[str, tuple[Callable[[int], None], int, int]] = {"the authors' loop": (authors_loop(data), few, 1)}
    if device == "cpu":
        contenders["cpu engine"] = (one_model(EagerEngine(data.objective(), HOW)), few, 1)
    else:
        from sightunseen.training.cuda import GraphEngine

        contenders["the same, steps on the GPU, eager"] = (one_model(EagerEngine(data.objective(), HOW)), few, 1)
        contenders["graph engine"] = (one_model(GraphEngine(data.objective(), HOW)), n_steps, 1)
        contenders["batched engine, 1 model"] = (batched(data, 1), n_steps, 1)
        contenders[f"batched engine, {models} models"] = (batched(data, models), max(200, n_steps // 5), models)
    for work, size, _ in contenders.values():
        work(min(size, 300) if device == "cuda" else 5)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, (work, size, batch) in contenders.items():
            taken[name].append(seconds(work, size) / size / batch)
    bandwidth, traffic = memory_floor(device)
    found = {name: statistics.median(times) for name, times in taken.items()}
    floors = {f"floor: parameters and moments once, {bandwidth / 1e9:,.0f} GB/s": traffic}
    if device == "cpu":
        floors["floor: the matrix products alone"] = product_floor(device)
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"AwA1 shapes, {where}, torch {torch.__version__}")
    print(f"{'':48}{'us a step':>12}{'authors / this':>16}")
    baseline = found["the authors' loop"]
    for name, value in {**found, **floors}.items():
        print(f"{name:48}{value * 1e6:12,.1f}{baseline / value:16,.1f}")


def million(n_steps: int) -> None:
    """From ``fit`` to the fitted model, as a user would."""
    data = Data("cpu")
    table = dict(enumerate(data.vectors.numpy()))
    features, places = data.features.numpy(), np.asarray(data.places)
    settings = {"n_steps": n_steps, "learning_rate": 1e-5, "weight_decay": 1e-3, "schedule": "constant", "device": "cuda"}
    CVC(**{**settings, "n_steps": 200}).fit(features, places, table)  # compiles the kernels
    model = CVC(**settings)
    taken = seconds(lambda _: model.fit(features, places, table), 1)
    print(f"CVC.fit, {n_steps:,} steps: {taken:.1f} s, {taken / n_steps * 1e6:.1f} us a step ({model.engine_})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="steps an engine trains at a time (default: 400 on a CPU, 5,000 on a GPU)")
    parser.add_argument("--models", type=int, default=25, help="models of the batched engine (default: 25)")
    parser.add_argument("--million", action="store_true", help="then train 1,000,000 steps on the GPU")
    args = parser.parse_args()
    compare(args.device, args.steps or (400 if args.device == "cpu" else 5000), args.models)
    if args.million:
        million(1_000_000)


if __name__ == "__main__":
    main()
