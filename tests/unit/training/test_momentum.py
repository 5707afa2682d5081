"""Adam's beta 1 is a hyperparameter; networks updated in alternation change only in their own steps."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from sightunseen.core.errors import SettingsError
from sightunseen.training import Draw, Objective, Optimisation, Run, train


class Alternating(Objective):
    """Even steps move the first parameter towards 3, odd steps the second towards -2."""

    turns = 2

    def __init__(self) -> None:
        super().__init__([nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))])
        self.seen: list[tuple[float, float]] = []

    def draw(self, first: int, n_steps: int) -> Draw:
        return {"rows": torch.zeros(n_steps, 1, dtype=torch.long)}

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        one, two = self.parameters
        self.seen.append((one.item(), two.item()))
        return (one - 3) ** 2 if turn == 0 else (two + 2) ** 2


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_momentum_is_beta_1_of_torch_adam(momentum: float) -> None:
    objective = Alternating()
    train(Run(objective, Optimisation(6, 0.1, momentum=momentum)))
    expected = [nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))]
    optimisers = [torch.optim.Adam([number], lr=0.1, betas=(momentum, 0.999)) for number in expected]
    for step in range(6):
        optimisers[step % 2].zero_grad()
        ((expected[0] - 3) ** 2 if step % 2 == 0 else (expected[1] + 2) ** 2).backward()
        optimisers[step % 2].step()
    for found, wanted in zip(objective.parameters, expected, strict=True):
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_network_is_unchanged_in_steps_of_the_other() -> None:
    objective = Alternating()
    train(Run(objective, Optimisation(4, 0.1)))
    ones, twos = zip(*objective.seen, strict=True)
    assert ones[1] == ones[2] != ones[0]  # changed in step 0, unchanged in step 1
    assert twos[0] == twos[1] != twos[2]


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan"), "much"])
def test_invalid_momentum_raises(momentum: object) -> None:
    with pytest.raises(SettingsError, match="momentum"):
        Optimisation(1, 0.1, momentum=momentum)  # type: ignore[arg-type]
