"""Reference engine: one eager PyTorch step per batch. Runs on every device; the other engines are tested against it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation


class EagerEngine:
    """Train one model by backpropagation, gradient clipping and fused Adam, one step at a time.

    Parameters
    ----------
    objective : Objective
        Loss and parameters.
    optimisation : Optimisation
        Hyperparameters of the optimiser.

    Attributes
    ----------
    name : str
        Name of the engine in run records.
    """

    kind, precision = "", "float32"  # parts of the engine's name

    def __init__(self, objective: Objective, optimisation: Optimisation) -> None:
        self.objective = objective
        self.optimisation = optimisation
        self.device = objective.parameters[0].device
        self.name = f"{self.device.type}{self.kind}, {self.precision}"
        self.optimiser = self._make_optimiser(lr=optimisation.learning_rate)

    def run(self, draws: Draw, first_step: int) -> float:
        """Take one gradient step per batch.

        Parameters
        ----------
        draws : mapping of str to Tensor of shape (k, ...)
            Index arrays of k batches, as drawn by the objective.
        first_step : int
            Number of the first step; the learning rate depends on it.

        Returns
        -------
        float
            Sum of the k losses, each before its step.
        """
        size = len(draws["rows"])
        rates = self.optimisation.learning_rates(first_step, size).tolist()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for k in range(size):
            self.optimiser.param_groups[0]["lr"] = rates[k]
            total += self.step({name: array[k] for name, array in draws.items()}, first_step + k).detach()
        return float(total)

    def launch(self, draws: Draw, first_step: int) -> None:
        """Take the steps of :meth:`run`; :meth:`finish` returns the sum of their losses."""
        self.sum = self.run(draws, first_step)

    def finish(self) -> float:
        """Return the sum of the losses of the steps that :meth:`launch` took."""
        return self.sum

    def step(self, batch: Mapping[str, Tensor], number: int = 0) -> Tensor:
        """Update the parameters on the batch of step ``number`` and return the loss before the update."""
        for parameter in self.objective.parameters:
            parameter.grad = None  # Optimizer.zero_grad takes longer than a small step
        loss = self.objective.loss_in_turn(batch, number % self.objective.turns)
        loss.backward()  # type: ignore[no-untyped-call]
        self._clip_gradient()
        self.optimiser.step()
        return loss

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Copy the state of training for a checkpoint.

        Parameters
        ----------
        moments : bool, default=True
            Whether to include Adam's state; it is needed to continue training, not to use the model.

        Returns
        -------
        dict of str to Tensor
            For the k-th parameter ``k.value`` and, with ``moments``, ``k.step``, ``k.exp_avg`` and ``k.exp_avg_sq``.
        """
        found = {}
        for index, parameter in enumerate(self.objective.parameters):
            optimiser_state = self.optimiser.state[parameter] if moments else {}
            for name, tensor in {"value": parameter.detach(), **optimiser_state}.items():
                found[f"{index}.{name}"] = tensor.cpu().clone()
        return found

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state returned by :meth:`state`, of this engine or of any other."""
        for index, parameter in enumerate(self.objective.parameters):
            parameter.copy_(state[f"{index}.value"])
            if f"{index}.step" not in state:
                continue  # saved at the end of training, without moments
            self.optimiser.state[parameter] = {
                name: state[f"{index}.{name}"].to(parameter.device).clone() for name in ("step", "exp_avg", "exp_avg_sq")
            }

    def _clip_gradient(self) -> None:
        limit = self.optimisation.clip_norm
        if limit is None:
            return
        gradients = [parameter.grad for parameter in self.objective.parameters if parameter.grad is not None]
        # Row norms first: this uses all cores and, unlike one sum over all values, does not depend on their number.
        rows = [torch.linalg.vector_norm(gradient, dim=-1).flatten() for gradient in gradients if gradient.ndim > 1]
        others = [torch.linalg.vector_norm(gradient).flatten() for gradient in gradients if gradient.ndim < 2]
        norm = torch.linalg.vector_norm(torch.cat([*rows, *others]))
        # Skipping a multiplication by one saves a pass over all gradients.
        if norm > limit:
            nn.utils.clip_grads_with_norm_(self.objective.parameters, limit, norm)

    def _make_optimiser(self, **options: Any) -> torch.optim.Adam:
        betas, decay = (self.optimisation.momentum, 0.999), self.optimisation.weight_decay
        return torch.optim.Adam(self.objective.parameters, betas=betas, weight_decay=decay, fused=True, **options)
