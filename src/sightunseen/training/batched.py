"""Batched CUDA engine: one or many models, trained by the fused kernels of ``kernels`` and replayed as a CUDA graph.

It trains objectives with a :class:`~sightunseen.training.objective.FusedForm` that agree in shape. Parameters and moments of
all models are stacked; the parameters of each model are views of its slice, so that a model can be evaluated at any time.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightunseen.training.fused import FusedStep
from sightunseen.training.objective import Draw, FusedForm, Objective
from sightunseen.training.optimisation import MOMENTUM, Optimisation

GRAPH_STEPS = 100  # steps captured in one graph, which is launched in the time of a few kernels; even, as steps alternate
ROLES = ("first", "first_bias", "second", "second_bias", "scale", "free")
MOMENTS = {"exp_avg": "mean", "exp_avg_sq": "square"}  # name in a checkpoint (as in torch) -> name in the kernels
PRECISION = "tf32"


class BatchedEngine:
    """Train several models in lockstep, one step of all models at a time.

    Parameters
    ----------
    objectives : sequence of Objective
        Objective of each model; one group of :func:`~sightunseen.training.engines.group_by_shape`.
    optimisations : sequence of Optimisation
        Hyperparameters of the optimiser for each model.
    precision : {"tf32", "tf32x3", "ieee"}, default="tf32"
        Precision of matrix products. ``"tf32x3"`` is as precise as float32 and takes about a sixth more time.
    """

    def __init__(
        self, objectives: Sequence[Objective], optimisations: Sequence[Optimisation], precision: str = PRECISION
    ) -> None:
        if any(optimisation.momentum != MOMENTUM for optimisation in optimisations):
            raise ValueError(f"the fused kernels only support a momentum of {MOMENTUM}")
        self.objectives, self.optimisations, self.precision = objectives, optimisations, precision
        self.name = f"fused cuda kernels, float32 with products in {precision}"
        self.forms = [_form_of(objective) for objective in objectives]
        self.models = len(objectives)
        self.device = self.forms[0].features.device
        self.features, self.feature_offsets = _one_table([form.features for form in self.forms], normalised=True)
        self.vectors, self.vector_offsets = _one_table([form.vectors for form in self.forms])
        self.step: FusedStep | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = False  # whether the kernels of steps in both directions are compiled: impossible during a capture
        self.values: dict[str, Tensor] = {}
        self.moments: dict[str, Tensor] = {}
        self._stack_parameters()

    def run(self, draws: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take one gradient step per batch in every active model; see :meth:`~sightunseen.training.engines.Engine.run`."""
        sizes = [draw["rows"].shape[1] for draw in draws]
        step = self._step_for(draws[0]["classes"].shape[1], max(sizes))
        plain = [size if form.plain is None else form.plain for size, form in zip(sizes, self.forms, strict=True)]
        step.counts.copy_(torch.tensor(list(zip(sizes, plain, strict=True)), dtype=torch.int32))
        stacked = {
            "classes": _stacked([draw["classes"] for draw in draws], self.vector_offsets),
            "rows": _stacked([draw["rows"] for draw in draws], self.feature_offsets),
            "labels": _stacked([draw["labels"] for draw in draws], [0] * self.models),
            "settings": self._settings(first_steps, active, len(draws[0]["rows"])),
        }
        # A step also computes the hidden units of the next batch; after the last step nothing needs them.
        stacked["next_classes"] = torch.cat([stacked["classes"][1:], stacked["classes"][-1:]])
        step.total.zero_()
        step.start(stacked["classes"][0])
        for start in range(0, len(stacked["rows"]), GRAPH_STEPS):
            self._take_steps({name: array[start : start + GRAPH_STEPS] for name, array in stacked.items()})
        return list(step.total.tolist())

    def state(self, index: int, moments: bool = True) -> dict[str, Tensor]:
        """Copy the state of one model, with the names of :meth:`EagerEngine.state`, so that any engine can restore it."""
        found = {}
        for number, role in enumerate(self.roles):
            found[f"{number}.value"] = self.values[role][index].cpu().clone()
            if moments:
                found[f"{number}.step"] = torch.tensor(float(self.steps[index]))
                for name, ours in MOMENTS.items():
                    found[f"{number}.{name}"] = self.moments[f"{role}_{ours}"][index].cpu().clone()
        return found

    def restore(self, index: int, state: Mapping[str, Tensor]) -> None:
        """Restore a state of one model that any engine returned."""
        self.steps[index] = int(state.get("0.step", torch.tensor(0)))
        for number, role in enumerate(self.roles):
            self.values[role][index].copy_(state[f"{number}.value"])
            for name, ours in MOMENTS.items():
                if f"{number}.{name}" in state:  # a state saved at the end of training has no moments
                    self.moments[f"{role}_{ours}"][index].copy_(state[f"{number}.{name}"])

    def release(self) -> None:
        """Copy the parameters of every model, so that one model does not keep the memory of all."""
        for objective in self.objectives:
            for parameter in objective.parameters:
                parameter.data = parameter.data.clone()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _stack_parameters(self) -> None:
        self.roles = ROLES[: len(self.objectives[0].parameters)]
        for number, role in enumerate(self.roles):
            values = [objective.parameters[number].detach() for objective in self.objectives]
            self.values[role] = torch.stack(values).contiguous()
            for ours in MOMENTS.values():
                self.moments[f"{role}_{ours}"] = torch.zeros_like(self.values[role])
        self.steps = [0] * self.models
        self._point_parameters()

    def _point_parameters(self) -> None:
        """Make the parameters of every model views of the stacked ones."""
        for index, objective in enumerate(self.objectives):
            for role, parameter in zip(self.roles, objective.parameters, strict=True):
                parameter.data = self.values[role][index]

    def _step_for(self, count: int, size: int) -> FusedStep:
        """Return the step for batches of ``count`` classes and ``size`` images; drop a graph captured for other sizes."""
        if self.step is None or (self.step.count, self.step.size) != (count, size):
            tables, rectify = (self.vectors, self.features), self.forms[0].rectify
            self.step = FusedStep((count, size), self.values, self.moments, *tables, rectify, self.precision)
            self.step.powers.copy_(torch.tensor([form.q for form in self.forms]))
            self.graph, self.warm = None, False
            self._point_parameters()
        return self.step

    def _settings(self, first_steps: Sequence[int], active: Sequence[bool], n_steps: int) -> Tensor:
        """Table (steps, models, 4): step size (0 if inactive), correction of the second moment, weight decay, norm limit."""
        table = np.empty((n_steps, self.models, 4))
        for index, (optimisation, first) in enumerate(zip(self.optimisations, first_steps, strict=True)):
            step = first + 1 + np.arange(n_steps)
            rates = optimisation.learning_rates(first, n_steps) if active[index] else np.zeros(n_steps)
            table[:, index, 0] = rates / (1 - 0.9**step)
            table[:, index, 1] = 1 / np.sqrt(1 - 0.999**step)
            table[:, index, 2] = optimisation.weight_decay
            table[:, index, 3] = np.inf if optimisation.clip_norm is None else optimisation.clip_norm
            if active[index]:
                self.steps[index] = first + n_steps
        return torch.from_numpy(table.astype(np.float32)).to(self.device)

    def _take_steps(self, work: Mapping[str, Tensor]) -> None:
        if self.device.type != "cuda" or len(work["rows"]) != GRAPH_STEPS or not self.warm:
            self._launch(work)
            self.warm = self.warm or len(work["rows"]) > 1
            return
        if self.graph is None:
            self.static = {name: array.clone() for name, array in work.items()}
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._launch(self.static)
        for name, array in work.items():
            self.static[name].copy_(array)
        self.graph.replay()

    def _launch(self, work: Mapping[str, Tensor]) -> None:
        assert self.step is not None
        for number in range(len(work["rows"])):
            arrays = {name: array[number] for name, array in work.items()}
            self.step(**arrays, back=bool(number % 2))


def _form_of(objective: Objective) -> FusedForm:
    form = objective.fused_form()
    if form is None:
        raise ValueError(f"{type(objective).__name__} has no fused form; train it with another engine")
    layers = [parameter for layer in form.layers for parameter in (layer.weight, layer.bias)]
    expected = [*layers, form.scale, *([] if form.free is None else [form.free])]
    if [id(parameter) for parameter in objective.parameters] != [id(parameter) for parameter in expected]:
        raise ValueError(f"a fused form must contain all parameters of its objective, in the order {', '.join(ROLES)}")
    return form


def _one_table(tables: Sequence[Tensor], normalised: bool = False) -> tuple[Tensor, list[int]]:
    """Concatenate the distinct tables; return the result and the first row of each table in it."""
    distinct = {table.data_ptr(): table for table in tables}
    starts, length = {}, 0
    for pointer, table in distinct.items():
        starts[pointer] = length
        length += len(table)
    joined = torch.cat(list(distinct.values())) if len(distinct) > 1 else tables[0].contiguous()
    return functional.normalize(joined, dim=1) if normalised else joined, [starts[table.data_ptr()] for table in tables]


def _stacked(arrays: Sequence[Tensor], offsets: Sequence[int]) -> Tensor:
    """Stack the index arrays (steps, size) of the models, padded with zeros: (steps, models, largest size)."""
    size = max(array.shape[1] for array in arrays)
    padded = [functional.pad(array + offset, (0, size - array.shape[1])) for array, offset in zip(arrays, offsets, strict=True)]
    return torch.stack(padded, dim=1)
