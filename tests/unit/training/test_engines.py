"""All engines take the same steps: comparison with a plain Adam in float64, and of CUDA with CPU."""

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.training import CHUNK, Optimisation, Run, engines, train, train_together
from sightunseen.training.cpu import EagerEngine
from sightunseen.training.cuda import GRAPH_STEPS, GraphEngine
from sightunseen.training.engines import SideBySide

from .small_objective import SmallObjective

OPTIMISATION = Optimisation(n_steps=30, learning_rate=0.01, schedule="cosine", weight_decay=0.01, clip_norm=0.05)


def literal_adam(objective: SmallObjective, optimisation: Optimisation) -> list[Tensor]:
    """Algorithm of Kingma & Ba with L2 weight decay and norm clipping, step by step."""
    parameters = objective.parameters
    first, second = [torch.zeros_like(p) for p in parameters], [torch.zeros_like(p) for p in parameters]
    for step in range(optimisation.n_steps):
        batch = {name: array[0] for name, array in objective.draw(step, 1).items()}
        gradients = torch.autograd.grad(objective.loss(batch), parameters)
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        factor = min(1.0, optimisation.clip_norm / (float(norm) + 1e-6))
        rate = optimisation.learning_rate * 0.5 * (1 + np.cos(np.pi * step / optimisation.n_steps))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                g = g * factor + optimisation.weight_decay * p
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= rate * (m / (1 - 0.9 ** (step + 1))) / (torch.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8)
    return [p.detach() for p in parameters]


@pytest.mark.parametrize("round_size", [7, None])
def test_eager_engine_agrees_with_plain_adam(round_size: int | None) -> None:
    expected = literal_adam(SmallObjective("cpu"), OPTIMISATION)
    objective = SmallObjective("cpu", round_size)
    train(Run(objective, OPTIMISATION))
    for found, wanted in zip(objective.parameters, expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-9, atol=1e-12)


def test_gradient_below_the_limit_is_unchanged() -> None:
    free, limited = SmallObjective("cpu"), SmallObjective("cpu")
    train(Run(free, replace(OPTIMISATION, clip_norm=None)))
    train(Run(limited, replace(OPTIMISATION, clip_norm=1e6)))
    assert all(torch.equal(one, other) for one, other in zip(free.parameters, limited.parameters, strict=True))


@pytest.mark.parametrize("episodic", [True, False])
def test_last_chunk_may_have_a_single_step(episodic: bool, small_world: ZeroShotDataset) -> None:
    model = CVC(hidden=8, n_steps=CHUNK + 1, episodic=episodic, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert model.n_steps_ == CHUNK + 1


def test_side_by_side_engine_trains_active_models_and_keeps_inactive_ones() -> None:
    together, alone = ([SmallObjective("cpu", seed=seed) for seed in range(3)] for _ in range(2))
    before = [parameter.detach().clone() for parameter in together[1].parameters]
    engine = SideBySide([EagerEngine(objective, OPTIMISATION) for objective in together])
    sums = engine.run([objective.draw(0, 5) for objective in together], [0, 0, 20], [True, False, True])
    assert sums[0] == EagerEngine(alone[0], OPTIMISATION).run(alone[0].draw(0, 5), 0)
    assert sums[1] == 0
    assert sums[2] == EagerEngine(alone[2], OPTIMISATION).run(alone[2].draw(0, 5), 20)  # learning rate of a late step
    for k in (0, 2):
        for ours, theirs in zip(together[k].parameters, alone[k].parameters, strict=True):
            assert torch.equal(ours, theirs)
    assert all(torch.equal(p, was) for p, was in zip(together[1].parameters, before, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_only_large_models_are_trained_at_once_on_a_cpu(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = SmallObjective("cpu")
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    size = 5 * 8 + 8 + 8 * 6 + 6 + 1  # two layers with biases, and the scale
    for heavy, expected in ((size, threads), (size + 1, 1)):
        monkeypatch.setattr(engines, "HEAVY", heavy)
        assert engines.most_at_once(objective) == expected


def test_side_by_side_engine_restores_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        objectives = [SmallObjective("cpu", seed=seed) for seed in range(2)]
        engine = SideBySide([EagerEngine(objective, OPTIMISATION) for objective in objectives])
        engine.run([objective.draw(0, 5) for objective in objectives], [0, 0], [True, True])
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as another:
            assert another.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("round_size", [7, None])
def test_graph_engine_agrees_with_eager_engine(round_size: int | None) -> None:
    optimisation = replace(OPTIMISATION, n_steps=5 * GRAPH_STEPS + 3)  # replayed, and a few eager steps
    on_cpu, on_gpu = SmallObjective("cpu", round_size), SmallObjective("cuda", round_size)
    slow, quick = train(Run(on_cpu, optimisation)), train(Run(on_gpu, optimisation))
    (engine,) = quick.engine.engines
    assert isinstance(engine, GraphEngine)
    lengths = {length for _, length in engine.graphs}
    assert lengths == ({5, 7} if round_size == 7 else {3, GRAPH_STEPS})  # also of the last, shorter chunk
    # The graph sums up to a hundred losses in single precision, each with a relative rounding error of at most 6e-8.
    np.testing.assert_allclose(slow.losses, quick.losses, rtol=CHUNK * 6e-8)
    for found, wanted in zip(on_gpu.parameters, on_cpu.parameters, strict=True):
        # The learning rate of the graph is stored in single precision.
        torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-5, atol=1e-7)


class TakingTurns(SmallObjective):
    """In the last of three turns the loss is another one, of the first parameter alone."""

    turns = 3

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        return self.loss(batch) if turn < 2 else self.parameters[0].square().mean()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_graphs_of_whole_cycles_agree_with_eager_steps() -> None:
    # 100 steps are no multiple of 3, so chunks start in every turn.
    optimisation = replace(OPTIMISATION, n_steps=5 * CHUNK)
    on_cpu, on_gpu = TakingTurns("cpu", None), TakingTurns("cuda", None)
    slow, quick = train(Run(on_cpu, optimisation)), train(Run(on_gpu, optimisation))
    assert {turn for turn, _ in quick.engine.engines[0].graphs} == {0, 1, 2}
    np.testing.assert_allclose(slow.losses, quick.losses, rtol=1e-4)
    for found, wanted in zip(on_gpu.parameters, on_cpu.parameters, strict=True):
        torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_models_on_streams_of_their_own_end_like_models_trained_alone() -> None:
    optimisation = replace(OPTIMISATION, n_steps=5 * CHUNK)
    alone = [TakingTurns("cuda", None, seed) for seed in range(3)]
    together = [TakingTurns("cuda", None, seed) for seed in range(3)]
    for objective in alone:
        train(Run(objective, optimisation))
    train_together([partial(Run, objective, optimisation) for objective in together])
    for one, other in zip(alone, together, strict=True):
        for found, wanted in zip(other.parameters, one.parameters, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


def test_step_of_the_eager_engine_takes_the_loss_of_its_turn() -> None:
    objective, optimisation = TakingTurns("cpu"), replace(OPTIMISATION, clip_norm=None)
    engine, started = EagerEngine(objective, optimisation), [parameter.detach().clone() for parameter in objective.parameters]
    engine.run(objective.draw(2, 1), 2)
    changed = [not torch.equal(found, before) for found, before in zip(objective.parameters, started, strict=True)]
    assert changed == [True, *[False] * (len(started) - 1)]
