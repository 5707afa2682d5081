"""The plain engine: one task, one eager step. Runs everywhere and is what the others are checked against."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation


class EagerEngine:
    """Loss, gradient, clipping and fused Adam, step by step."""

    manner = ""  # in the engine's name

    def __init__(self, objective: Objective, optimisation: Optimisation) -> None:
        self.objective = objective
        self.optimisation = optimisation
        self.device = objective.parameters[0].device
        self.name = f"{self.device.type}{self.manner}, float32"
        self.optimiser = self._make_optimiser()

    def run(self, tasks: Draw, first_step: int) -> float:
        """Take one step a task; the sum of the losses."""
        size = len(tasks["rows"])
        rates = self.optimisation.learning_rates(first_step, size).tolist()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for k in range(size):
            self.optimiser.param_groups[0]["lr"] = rates[k]
            total += self.step({name: array[k] for name, array in tasks.items()}).detach()
        return float(total)

    def step(self, task: Mapping[str, Tensor]) -> Tensor:
        """One update of the parameters; the loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.objective.loss(task)
        loss.backward()  # type: ignore[no-untyped-call]
        self._clip_gradient()
        self.optimiser.step()
        return loss

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Parameters by place (``0.value``) and, to train on from here, Adam's moments (``0.step``, ``0.exp_avg``, ...)."""
        found = {}
        for place, parameter in enumerate(self.objective.parameters):
            optimiser_state = self.optimiser.state[parameter] if moments else {}
            for name, tensor in {"value": parameter.detach(), **optimiser_state}.items():
                found[f"{place}.{name}"] = tensor.cpu().clone()
        return found

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state that :meth:`state` gave."""
        for place, parameter in enumerate(self.objective.parameters):
            parameter.copy_(state[f"{place}.value"])
            if f"{place}.step" not in state:
                continue  # saved at the end of training, which needs no moments
            self.optimiser.state[parameter] = {
                name: state[f"{place}.{name}"].to(parameter.device).clone() for name in ("step", "exp_avg", "exp_avg_sq")
            }

    def _clip_gradient(self) -> None:
        limit = self.optimisation.clip_norm
        if limit is None:
            return
        gradients = [parameter.grad for parameter in self.objective.parameters if parameter.grad is not None]
        # Row by row, which uses all cores and, unlike a sum over all numbers, gives the same bits with any number of them.
        rows = [torch.linalg.vector_norm(gradient, dim=-1).flatten() for gradient in gradients if gradient.ndim > 1]
        others = [torch.linalg.vector_norm(gradient).flatten() for gradient in gradients if gradient.ndim < 2]
        norm = torch.linalg.vector_norm(torch.cat([*rows, *others]))
        # Where the norm is small enough, scaling by one would cost a pass over all gradients for nothing.
        if norm > limit:
            nn.utils.clip_grads_with_norm_(self.objective.parameters, limit, norm)

    def _make_optimiser(self) -> torch.optim.Adam:
        return torch.optim.Adam(
            self.objective.parameters,
            lr=self.optimisation.learning_rate,
            betas=(self.optimisation.momentum, 0.999),
            weight_decay=self.optimisation.weight_decay,
            fused=True,
        )
