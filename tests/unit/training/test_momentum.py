"""Adam's beta 1 is a setting; and networks that take turns move only in their own steps."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from sightunseen.core.errors import SettingsError
from sightunseen.training import Draw, Objective, Optimisation, Run, train


class TwoTakeTurns(Objective):
    """Even tasks pull the first number to 3, odd ones the second to -2."""

    alike = False

    def __init__(self) -> None:
        super().__init__([nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))])
        self.seen: list[tuple[float, float]] = []

    def draw(self, first: int, n_steps: int) -> Draw:
        return {"rows": torch.zeros(n_steps, 1, dtype=torch.long), "task": torch.arange(first, first + n_steps)}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        one, two = self.parameters
        self.seen.append((one.item(), two.item()))
        return (one - 3) ** 2 if int(task["task"]) % 2 == 0 else (two + 2) ** 2


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_steps_are_those_of_torchs_adam_with_this_momentum(momentum: float) -> None:
    objective = TwoTakeTurns()
    train(Run(objective, Optimisation(6, 0.1, momentum=momentum)))
    expected = [nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))]
    optimisers = [torch.optim.Adam([number], lr=0.1, betas=(momentum, 0.999)) for number in expected]
    for task in range(6):
        optimisers[task % 2].zero_grad()
        ((expected[0] - 3) ** 2 if task % 2 == 0 else (expected[1] + 2) ** 2).backward()
        optimisers[task % 2].step()
    for found, wanted in zip(objective.parameters, expected, strict=True):
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_a_network_rests_while_it_is_the_others_turn() -> None:
    objective = TwoTakeTurns()
    train(Run(objective, Optimisation(4, 0.1)))
    ones, twos = zip(*objective.seen, strict=True)
    assert ones[1] == ones[2] != ones[0]  # moved by task 0, at rest in task 1
    assert twos[0] == twos[1] != twos[2]


@pytest.mark.parametrize("momentum", [-0.1, float("nan"), "much"])
def test_a_momentum_that_is_none_is_refused(momentum: object) -> None:
    with pytest.raises(SettingsError, match="momentum"):
        Optimisation(1, 0.1, momentum=momentum)  # type: ignore[arg-type]
