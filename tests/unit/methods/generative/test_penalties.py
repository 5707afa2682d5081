"""Weight of a gradient penalty that follows the penalty."""

import pytest
import torch

from sightunseen.methods.generative.penalties import PenaltyWeight

CPU = torch.device("cpu")


@pytest.mark.parametrize(("penalties", "factor"), [((1.2, 1.0), 1.1), ((1.01, 1.05), 1.0), ((0.5, 1.2), 1 / 1.1)])
def test_weight_follows_the_mean_penalty_of_a_cycle(penalties: tuple[float, ...], factor: float) -> None:
    weight = PenaltyWeight(10.0, CPU)
    for penalty in penalties:
        assert weight(torch.tensor(penalty)).item() == pytest.approx(10 * penalty)
    weight.update(len(penalties))
    assert weight.weight.item() == pytest.approx(10 * factor)
    assert weight.total.item() == 0


@pytest.mark.parametrize(("penalty", "limit"), [(0.0, 0.01), (9.0, 10_000.0)])
def test_weight_stays_within_bounds(penalty: float, limit: float) -> None:
    weight = PenaltyWeight(10.0, CPU)
    for _ in range(100):
        weight(torch.tensor(penalty))
        weight.update(1)
    assert weight.weight.item() == pytest.approx(limit)


def test_constant_weight() -> None:
    weight = PenaltyWeight(10.0, CPU, adaptive=False)
    weight(torch.tensor(5.0))
    weight.update(1)
    assert weight.weight.item() == 10


def test_weighted_penalty_is_differentiable_and_the_sum_is_not() -> None:
    weight, penalty = PenaltyWeight(3.0, CPU), torch.tensor(2.0, requires_grad=True)
    weight(penalty).backward()
    assert penalty.grad.item() == 3
    assert not weight.total.requires_grad


def test_state_is_restored_in_place() -> None:
    weight, other = PenaltyWeight(3.0, CPU), PenaltyWeight(10.0, CPU)
    weight(torch.tensor(2.0))
    tensors = other.weight, other.total
    other.remember(weight.memory())
    assert [tensor.item() for tensor in tensors] == [3, 2]
