"""CUDA engine: the steps of the reference engine, captured as a CUDA graph of many steps and replayed."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.training.cpu import EagerEngine
from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation

GRAPH_STEPS = 20  # steps captured in one graph
WARM_UP = 3  # eager steps before the capture, so that all buffers of the optimiser exist


class GraphEngine(EagerEngine):
    """Train one model on a GPU by replaying a CUDA graph.

    A step launches about forty small kernels, and launching them one by one takes longer than running them. A graph launches
    them together.

    Parameters
    ----------
    objective : Objective
        Loss and parameters; every step must execute the same operations (``objective.alike``).
    optimisation : Optimisation
        Hyperparameters of the optimiser.
    """

    kind = " graph"

    def __init__(self, objective: Objective, optimisation: Optimisation) -> None:
        self.rate = torch.tensor(optimisation.learning_rate, device=objective.parameters[0].device)
        super().__init__(objective, optimisation)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.total = torch.zeros((), device=self.rate.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.static: dict[str, Tensor] = {}
        self.steps_taken = 0

    def run(self, draws: Draw, first_step: int) -> float:
        """Take one gradient step per batch; see :meth:`EagerEngine.run`."""
        rates = self.optimisation.learning_rates(first_step, len(draws["rows"]))
        work = {**draws, "rate": torch.from_numpy(rates).to(self.rate)}
        self.total.zero_()
        if self.graph is not None and any(self.static[name].shape[1:] != array.shape[1:] for name, array in work.items()):
            self._drop_graph()  # captured for batches of another size
        for start in range(0, len(rates), GRAPH_STEPS):
            piece = {name: array[start : start + GRAPH_STEPS] for name, array in work.items()}
            if self.steps_taken < WARM_UP or len(piece["rate"]) < GRAPH_STEPS:
                self._run_eagerly(piece)
            else:
                self._replay(piece)
        return float(self.total)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state of any engine; a graph captured for the old buffers is dropped."""
        super().restore(state)
        self._drop_graph()

    def _run_eagerly(self, work: Mapping[str, Tensor]) -> None:
        """Take eager steps on a side stream, as required before a capture."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._take_steps(work)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.steps_taken += len(work["rate"])

    def _replay(self, work: Mapping[str, Tensor]) -> None:
        if self.graph is None:
            self.static = {name: array.clone() for name, array in work.items()}
            self.optimiser.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._take_steps(self.static)
        for name, array in work.items():
            self.static[name].copy_(array)
        self.graph.replay()

    def _take_steps(self, work: Mapping[str, Tensor]) -> None:
        for k in range(len(work["rate"])):
            self.rate.copy_(work["rate"][k])
            self.total += self.step({name: array[k] for name, array in work.items() if name != "rate"}).detach()

    def _drop_graph(self) -> None:
        self.graph, self.static, self.steps_taken = None, {}, 0

    def _clip_gradient(self) -> None:
        # A graph cannot branch on the norm, so the gradient is always multiplied.
        if self.optimisation.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters, self.optimisation.clip_norm)

    def _make_optimiser(self, **options: Any) -> torch.optim.Adam:
        return super()._make_optimiser(**{**options, "lr": self.rate}, capturable=True)
