"""What a method hands to the training loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

Draw = Mapping[str, Tensor]


@dataclass(frozen=True)
class FusedForm:
    """What a loss is made of, where it is the loss of cosine scores of generated classifiers: some engines fuse it.

    A task of it draws ``classes`` (rows of ``vectors`` to generate classifiers from), ``rows`` (of ``features``) and
    ``labels`` (columns of the scores: first the free classifiers, then the generated ones).

    Parameters
    ----------
    layers : the fully connected layers of the classifier generator, with a ReLU between them.
    rectify : whether another ReLU follows the last layer.
    scale : of the cosine scores, a parameter.
    vectors, features : (t, a) and (n, d).
    free : (s, d), classifiers that are parameters themselves.
    plain, q : the first ``plain`` images of a task have the cross-entropy loss, the others the generalized one with q;
        None means all.
    """

    layers: tuple[nn.Linear, nn.Linear]
    rectify: bool
    scale: nn.Parameter
    vectors: Tensor
    features: Tensor
    free: nn.Parameter | None = None
    plain: int | None = None
    q: float = 0.0


class Objective:
    """A loss over tasks, the parameters that lower it, and the way tasks are drawn.

    ``notes`` is what the objective reports about its way, for the run record; it is kept in checkpoints. ``round_size`` is
    the number of tasks after which the objective changes, if it does: no chunk of tasks reaches across. ``alike`` says that
    every task runs the same operations, so that they can be recorded once; where networks take turns, they do not.
    """

    round_size: int | None = None
    alike: bool = True

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.notes: list[dict[str, Any]] = []

    def draw(self, first: int, n_steps: int) -> Draw:
        """Index arrays of the tasks with numbers ``first`` and up, each with the tasks along its first axis.

        A task is a pure function of its number and of :meth:`memory`, so that a run can go on from any task, on any engine.
        """
        raise NotImplementedError

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The loss of one task: one entry of each drawn array."""
        raise NotImplementedError

    def fused_form(self) -> FusedForm | None:
        """The loss in a form that can be fused; None if it has no such form."""
        return None

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Told after every chunk of ``n_steps``, before any hook, with their mean loss; for objectives that change."""

    def memory(self) -> dict[str, Tensor]:
        """What the objective knows beyond its parameters and must have back to go on."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`memory` gave."""
