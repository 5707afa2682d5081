"""Every engine takes the same steps: against a literal Adam in float64, and CUDA against CPU."""

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from sightunseen.dataset import ZeroShotDataset
from sightunseen.generator import ClassifierGenerator
from sightunseen.losses import cross_entropy
from sightunseen.methods.cvc import CVC
from sightunseen.scores import Score
from sightunseen.training import CHUNK, Draw, Objective, Optimisation, train

OPTIMISATION = Optimisation(n_tasks=30, learning_rate=0.01, schedule="cosine", weight_decay=0.01, clip_norm=0.05)


class SmallObjective(Objective):
    """A tiny conditional classifier in double precision."""

    chunk_size = 7

    def __init__(self, device: str) -> None:
        rng = torch.Generator().manual_seed(0)
        self.generator = ClassifierGenerator(5, 8, 6, True, "he", rng).double().to(device)
        self.score = Score("cosine", 10.0).double().to(device)
        self.vectors = torch.rand(4, 5, generator=rng, dtype=torch.float64).to(device)
        self.features = torch.rand(20, 6, generator=rng, dtype=torch.float64).to(device)
        super().__init__([*self.generator.parameters(), *self.score.parameters()])

    def draw(self, chunk: int, n_tasks: int) -> Draw:
        rng = np.random.default_rng(chunk)
        return {"rows": rng.integers(0, 20, (n_tasks, 9)), "labels": rng.integers(0, 4, (n_tasks, 9))}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy(self.score(self.features[task["rows"]], self.generator(self.vectors)), task["labels"])


def literal_adam(objective: SmallObjective, optimisation: Optimisation) -> list[Tensor]:
    """Kingma & Ba's algorithm with coupled decay and norm clipping, written out."""
    parameters = objective.parameters
    first, second = [torch.zeros_like(p) for p in parameters], [torch.zeros_like(p) for p in parameters]
    tasks = []
    for chunk in range(5):
        drawn = objective.draw(chunk, min(7, 30 - 7 * chunk))
        tasks += [{k: torch.from_numpy(v[i]) for k, v in drawn.items()} for i in range(len(drawn["rows"]))]
    for step, task in enumerate(tasks):
        gradients = torch.autograd.grad(objective.loss(task), parameters)
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        factor = min(1.0, optimisation.clip_norm / (float(norm) + 1e-6))
        rate = optimisation.learning_rate * 0.5 * (1 + np.cos(np.pi * step / 30))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                g = g * factor + optimisation.weight_decay * p
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= rate * (m / (1 - 0.9 ** (step + 1))) / (torch.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8)
    return [p.detach() for p in parameters]


def test_the_plain_engine_is_adam_written_out() -> None:
    expected = literal_adam(SmallObjective("cpu"), OPTIMISATION)
    objective = SmallObjective("cpu")
    train(objective, OPTIMISATION)
    for found, wanted in zip(objective.parameters, expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-9, atol=1e-12)


def test_a_gradient_within_its_limit_is_left_as_it_is() -> None:
    free, limited = SmallObjective("cpu"), SmallObjective("cpu")
    train(free, replace(OPTIMISATION, clip_norm=None))
    train(limited, replace(OPTIMISATION, clip_norm=1e6))
    assert all(torch.equal(one, other) for one, other in zip(free.parameters, limited.parameters, strict=True))


@pytest.mark.parametrize("episodic", [True, False])
def test_a_last_chunk_of_a_single_task_is_like_any_other(episodic: bool, small_world: ZeroShotDataset) -> None:
    model = CVC(hidden=8, n_tasks=CHUNK + 1, episodic=episodic, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert model.n_tasks_ == CHUNK + 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_the_graph_engine_takes_the_same_steps() -> None:
    on_cpu, on_gpu = SmallObjective("cpu"), SmallObjective("cuda")
    slow, quick = train(on_cpu, OPTIMISATION), train(on_gpu, OPTIMISATION)
    np.testing.assert_allclose(slow.losses, quick.losses, rtol=1e-6)
    for found, wanted in zip(on_gpu.parameters, on_cpu.parameters, strict=True):
        # The learning rate of the graph is a single-precision number.
        torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-5, atol=1e-7)
