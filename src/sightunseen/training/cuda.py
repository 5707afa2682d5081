"""CUDA engine: the steps of the reference engine, captured as a CUDA graph of many steps and replayed."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sightunseen.training.cpu import EagerEngine
from sightunseen.training.objective import Draw, Objective
from sightunseen.training.optimisation import Optimisation

GRAPH_STEPS = 20  # most steps captured in one graph, rounded up to whole cycles
WARM_UP = 3  # eager steps before the capture, so that all buffers of the optimiser exist


class GraphEngine(EagerEngine):
    """Train one model on a GPU by replaying CUDA graphs.

    A step launches forty or more small kernels, and launching them one by one takes longer than running them. A graph launches
    those of many steps together: of whole cycles (``objective.turns``), such as five steps of a critic and one of its opponent.
    A chunk of steps may start in any turn and leave a remainder; there is one graph for each first turn and number of steps.
    Matrix products have the precision TF32.

    Parameters
    ----------
    objective : Objective
        Loss and parameters.
    optimisation : Optimisation
        Hyperparameters of the optimiser.
    """

    kind = " graph"
    precision = "float32 with products in tf32"

    def __init__(self, objective: Objective, optimisation: Optimisation) -> None:
        self.rate = torch.tensor(optimisation.learning_rate, device=objective.parameters[0].device)
        super().__init__(objective, optimisation)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.total = torch.zeros((), device=self.rate.device)
        self.size = -(-GRAPH_STEPS // objective.turns) * objective.turns  # steps in a graph
        self.work: dict[str, Tensor] = {}
        self.shapes: dict[str, torch.Size] = {}
        self._drop_graphs()

    def run(self, draws: Draw, first_step: int) -> float:
        """Take one gradient step per batch; see :meth:`EagerEngine.run`."""
        self.launch(draws, first_step)
        return self.finish()

    def launch(self, draws: Draw, first_step: int) -> None:
        """Start the steps of :meth:`run` on a stream of this model, so that several models are trained at the same time."""
        rates = self.optimisation.learning_rates(first_step, len(draws["rows"]))
        self.work = {**draws, "rate": torch.from_numpy(rates).to(self.rate)}  # kept until the stream has read it
        shapes = {name: array.shape[1:] for name, array in self.work.items()}
        if shapes != self.shapes:
            self._drop_graphs()  # captured for batches of another size
            self.shapes = shapes
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.total.zero_()
            for start in range(0, len(rates), self.size):
                piece = {name: array[start : start + self.size] for name, array in self.work.items()}
                turn = (first_step + start) % self.objective.turns
                if self.steps_taken < max(WARM_UP, self.objective.turns):
                    self._take_steps(piece, turn)
                else:
                    self._replay(piece, turn)
                self.steps_taken += len(piece["rate"])

    def finish(self) -> float:
        """Wait for the steps that :meth:`launch` started and return the sum of their losses."""
        self.stream.synchronize()
        return float(self.total)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state of any engine; graphs captured for the old buffers are dropped."""
        super().restore(state)
        self._drop_graphs()

    def _replay(self, work: Mapping[str, Tensor], turn: int) -> None:
        key = turn, len(work["rate"])
        if key not in self.graphs:
            static = {name: array.clone() for name, array in work.items()}
            self.optimiser.zero_grad(set_to_none=True)
            self.graphs[key] = torch.cuda.CUDAGraph(), static
            with torch.cuda.graph(self.graphs[key][0], stream=self.stream):
                self._take_steps(static, turn)
        graph, static = self.graphs[key]
        for name, array in work.items():
            static[name].copy_(array)
        graph.replay()

    def _take_steps(self, work: Mapping[str, Tensor], turn: int) -> None:
        """Take eager steps, the first of them in turn ``turn``, or capture them."""
        before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
        try:
            for k in range(len(work["rate"])):
                self.rate.copy_(work["rate"][k])
                batch = {name: array[k] for name, array in work.items() if name != "rate"}
                self.total += self.step(batch, turn + k).detach()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    def _drop_graphs(self) -> None:
        # By first turn and number of steps: a graph, and the batches that it reads.
        self.graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]] = {}
        self.steps_taken = 0

    def _clip_gradient(self) -> None:
        # A graph cannot branch on the norm, so the gradient is always multiplied.
        if self.optimisation.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters, self.optimisation.clip_norm)

    def _make_optimiser(self, **options: Any) -> torch.optim.Adam:
        return super()._make_optimiser(**{**options, "lr": self.rate}, capturable=True)
