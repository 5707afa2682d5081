"""The batched CUDA engine: many models at once, or one, by the fused kernels of ``kernels``, recorded as a CUDA graph.

It takes objectives of the form :class:`~sightunseen.training.objective.FusedForm` and of one shape. Parameters and moments
of all models lie side by side; each model's parameters are views of its part, so a model can be measured at any time.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightunseen.training.fused import FusedStep
from sightunseen.training.objective import Draw, FusedForm, Objective
from sightunseen.training.optimisation import MOMENTUM, Optimisation

GRAPH_STEPS = 100  # steps recorded in one graph: launching it costs as much as launching a few kernels
ROLES = ("first", "first_bias", "second", "second_bias", "scale", "free")
MOMENTS = {"exp_avg": "mean", "exp_avg_sq": "square"}  # torch's names for them in a checkpoint, and the kernels'
PRECISION = "tf32"


class BatchedEngine:
    """One step of every model at a time.

    Parameters
    ----------
    objectives, optimisations : of each model; ``engines.batches`` says which go together.
    precision : of the products: tf32, or tf32x3, which keeps the digits of single precision and takes a sixth more time.
    """

    def __init__(
        self, objectives: Sequence[Objective], optimisations: Sequence[Optimisation], precision: str = PRECISION
    ) -> None:
        if any(optimisation.momentum != MOMENTUM for optimisation in optimisations):
            raise ValueError(f"the fused kernels have a momentum of {MOMENTUM}")
        self.objectives, self.optimisations, self.precision = objectives, optimisations, precision
        self.name = f"fused cuda kernels, float32 with products in {precision}"
        self.forms = [_form_of(objective) for objective in objectives]
        self.models = len(objectives)
        self.device = self.forms[0].features.device
        self.features, self.feature_offsets = _one_table([form.features for form in self.forms], normalised=True)
        self.vectors, self.vector_offsets = _one_table([form.vectors for form in self.forms])
        self.step: FusedStep | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = False  # whether the kernels are compiled, which cannot be done while recording
        self.values: dict[str, Tensor] = {}
        self.moments: dict[str, Tensor] = {}
        self._stack_parameters()

    def run(self, tasks: Sequence[Draw], first_steps: Sequence[int], active: Sequence[bool]) -> list[float]:
        """Take a step a task in every active model; the sums of their losses."""
        sizes = [draw["rows"].shape[1] for draw in tasks]
        step = self._step_for(tasks[0]["classes"].shape[1], max(sizes))
        plain = [size if form.plain is None else form.plain for size, form in zip(sizes, self.forms, strict=True)]
        step.counts.copy_(torch.tensor(list(zip(sizes, plain, strict=True)), dtype=torch.int32))
        stacked = {
            "classes": _stacked([draw["classes"] for draw in tasks], self.vector_offsets),
            "rows": _stacked([draw["rows"] for draw in tasks], self.feature_offsets),
            "labels": _stacked([draw["labels"] for draw in tasks], [0] * self.models),
            "settings": self._settings(first_steps, active, len(tasks[0]["rows"])),
        }
        step.total.zero_()
        for start in range(0, len(stacked["rows"]), GRAPH_STEPS):
            self._take_steps({name: array[start : start + GRAPH_STEPS] for name, array in stacked.items()})
        return list(step.total.tolist())

    def state(self, place: int, moments: bool = True) -> dict[str, Tensor]:
        """The same names as the other engines': a checkpoint goes from one engine to another."""
        found = {}
        for number, role in enumerate(self.roles):
            found[f"{number}.value"] = self.values[role][place].cpu().clone()
            if moments:
                found[f"{number}.step"] = torch.tensor(float(self.steps[place]))
                for name, ours in MOMENTS.items():
                    found[f"{number}.{name}"] = self.moments[f"{role}_{ours}"][place].cpu().clone()
        return found

    def restore(self, place: int, state: Mapping[str, Tensor]) -> None:
        """Take over a state of any engine."""
        self.steps[place] = int(state.get("0.step", torch.tensor(0)))
        for number, role in enumerate(self.roles):
            self.values[role][place].copy_(state[f"{number}.value"])
            for name, ours in MOMENTS.items():
                if f"{number}.{name}" in state:  # one saved at the end of training needs no moments
                    self.moments[f"{role}_{ours}"][place].copy_(state[f"{number}.{name}"])

    def release(self) -> None:
        """Give every model parameters of its own, so that keeping one does not keep them all."""
        for objective in self.objectives:
            for parameter in objective.parameters:
                parameter.data = parameter.data.clone()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _stack_parameters(self) -> None:
        by_role = [_parameters_by_role(form) for form in self.forms]
        self.roles = [role for role in ROLES if role in by_role[0]]
        for role in self.roles:
            self.values[role] = torch.stack([parameters[role].detach() for parameters in by_role]).contiguous()
            for ours in MOMENTS.values():
                self.moments[f"{role}_{ours}"] = torch.zeros_like(self.values[role])
        self.steps = [0] * self.models
        for objective, parameters in zip(self.objectives, by_role, strict=True):
            expected = [parameters[role] for role in self.roles]
            if [id(parameter) for parameter in objective.parameters] != [id(parameter) for parameter in expected]:
                raise ValueError("a fused form must name all parameters of its objective, in the order of ROLES")
        self._point_parameters(by_role)

    def _point_parameters(self, by_role: Sequence[Mapping[str, Tensor]]) -> None:
        for place, parameters in enumerate(by_role):
            for role, parameter in parameters.items():
                parameter.data = self.values[role][place]

    def _step_for(self, count: int, size: int) -> FusedStep:
        """The step for tasks of this many classes and images; a graph recorded for others is dropped."""
        if self.step is None or (self.step.count, self.step.size) != (count, size):
            tables, rectify = (self.vectors, self.features), self.forms[0].rectify
            self.step = FusedStep((count, size), self.values, self.moments, *tables, rectify, self.precision)
            self.step.powers.copy_(torch.tensor([form.q for form in self.forms]))
            self.graph, self.warm = None, False
            self._point_parameters([_parameters_by_role(form) for form in self.forms])
        return self.step

    def _settings(self, first_steps: Sequence[int], active: Sequence[bool], n_steps: int) -> Tensor:
        """(tasks, models, 4): step size (0 for a model at rest), correction of the second moment, decay, clip limit."""
        table = np.empty((n_steps, self.models, 4))
        for place, (optimisation, first) in enumerate(zip(self.optimisations, first_steps, strict=True)):
            step = first + 1 + np.arange(n_steps)
            rates = optimisation.learning_rates(first, n_steps) if active[place] else np.zeros(n_steps)
            table[:, place, 0] = rates / (1 - 0.9**step)
            table[:, place, 1] = 1 / np.sqrt(1 - 0.999**step)
            table[:, place, 2] = optimisation.weight_decay
            table[:, place, 3] = np.inf if optimisation.clip_norm is None else optimisation.clip_norm
            if active[place]:
                self.steps[place] = first + n_steps
        return torch.from_numpy(table.astype(np.float32)).to(self.device)

    def _take_steps(self, tasks: Mapping[str, Tensor]) -> None:
        size = len(tasks["rows"])
        if self.device.type != "cuda" or size != GRAPH_STEPS or not self.warm:
            self._launch(tasks)
            self.warm = True
            return
        if self.graph is None:
            self.static = {name: array.clone() for name, array in tasks.items()}
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._launch(self.static)
        for name, array in tasks.items():
            self.static[name].copy_(array)
        self.graph.replay()

    def _launch(self, tasks: Mapping[str, Tensor]) -> None:
        assert self.step is not None
        for number in range(len(tasks["rows"])):
            classes, rows, labels, settings = (tasks[name][number] for name in ("classes", "rows", "labels", "settings"))
            self.step(classes, rows, labels, settings, back=bool(number % 2))


def _form_of(objective: Objective) -> FusedForm:
    form = objective.fused_form()
    if form is None:
        raise ValueError(f"{type(objective).__name__} has no fused form")
    return form


def _parameters_by_role(form: FusedForm) -> dict[str, Tensor]:
    layers = [parameter for layer in form.layers for parameter in (layer.weight, layer.bias)]
    named = dict(zip(ROLES, (*layers, form.scale), strict=False))
    return named if form.free is None else {**named, "free": form.free}


def _one_table(tables: Sequence[Tensor], normalised: bool = False) -> tuple[Tensor, list[int]]:
    """Tables below each other, each one once, and where each begins."""
    distinct = {table.data_ptr(): table for table in tables}
    starts, length = {}, 0
    for pointer, table in distinct.items():
        starts[pointer] = length
        length += len(table)
    joined = torch.cat(list(distinct.values())) if len(distinct) > 1 else tables[0].contiguous()
    return functional.normalize(joined, dim=1) if normalised else joined, [starts[table.data_ptr()] for table in tables]


def _stacked(arrays: Sequence[Tensor], offsets: Sequence[int]) -> Tensor:
    """(tasks, models, size): index arrays of each model, filled up with zeros to the longest."""
    size = max(array.shape[1] for array in arrays)
    padded = [functional.pad(array + offset, (0, size - array.shape[1])) for array, offset in zip(arrays, offsets, strict=True)]
    return torch.stack(padded, dim=1)
