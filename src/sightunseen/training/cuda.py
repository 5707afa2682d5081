"""The CUDA engine: the same step as ``cpu``, recorded once as a CUDA graph and replayed for every task."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.training.cpu import EagerEngine
from sightunseen.training.objective import Objective
from sightunseen.training.optimisation import Optimisation

WARM_UP = 3  # eager steps before recording, so that every buffer of the optimiser exists


class GraphEngine(EagerEngine):
    """Launching some forty kernels costs more than running them; a graph launches them at once."""

    def __init__(self, objective: Objective, optimisation: Optimisation) -> None:
        self.rate = torch.tensor(optimisation.learning_rate, device=objective.parameters[0].device)
        super().__init__(objective, optimisation)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.task: dict[str, Tensor] = {}
        self.total = torch.zeros((), device=self.rate.device)
        self.steps_taken = 0

    def run(self, tasks: Mapping[str, Tensor], first_task: int) -> float:
        """Take one step a task; the sum of the losses."""
        size = len(next(iter(tasks.values())))
        rates = torch.tensor([self.optimisation.learning_rate_at(first_task + k) for k in range(size)]).to(self.rate.device)
        self.total.zero_()
        if any(self.task[name].shape != array.shape[1:] for name, array in tasks.items() if name in self.task):
            self._forget_graph()  # recorded for tasks of another size
        for k in range(size):
            self.rate.copy_(rates[k])
            task = {name: array[k] for name, array in tasks.items()}
            if self.graph is None:
                self._step_before_graph(task)
                continue
            for name, array in task.items():
                self.task[name].copy_(array)
            self.graph.replay()
        return float(self.total)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state; a graph recorded for the old buffers is dropped."""
        super().restore(state)
        self._forget_graph()

    def _step_before_graph(self, task: Mapping[str, Tensor]) -> None:
        """Eager steps on a side stream, as recording demands; after the last of them the graph is recorded, not run."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.total += self.step(task).detach()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.steps_taken += 1
        if self.steps_taken >= WARM_UP:
            self.task = {name: array.clone() for name, array in task.items()}
            self.optimiser.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.total += self.step(self.task).detach()

    def _forget_graph(self) -> None:
        self.graph, self.task, self.steps_taken = None, {}, 0

    def _clip_gradient(self) -> None:
        # A graph cannot look at the norm and decide; it always scales.
        if self.optimisation.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters, self.optimisation.clip_norm)

    def _make_optimiser(self) -> torch.optim.Adam:
        return torch.optim.Adam(
            self.objective.parameters,
            lr=self.rate,
            weight_decay=self.optimisation.weight_decay,
            fused=True,
            capturable=True,
        )
