"""Training objectives: the interface between a method and the training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

Draw = Mapping[str, "Tensor"]  # index arrays of several batches, one batch per entry of the first axis


@dataclass(frozen=True)
class FusedForm:
    """Components of a cross-entropy loss over cosine scores of generated classifiers.

    An objective of this form can be trained by the fused CUDA kernels. Its batches consist of ``classes`` (rows of
    ``vectors``), ``rows`` (rows of ``features``) and ``labels`` (columns of the score matrix, in which the free classifiers
    come before the generated ones).

    Parameters
    ----------
    layers : tuple of two nn.Linear
        Fully connected layers of the classifier generator, with a ReLU in between.
    rectify : bool
        Whether a ReLU follows the last layer.
    scale : nn.Parameter of shape ()
        Learnable scale of the cosine scores.
    vectors : Tensor of shape (t, a)
        Class vectors.
    features : Tensor of shape (n, d)
        Features of the images.
    free : nn.Parameter of shape (s, d), default=None
        Classifiers that are trained directly instead of being generated.
    plain : int, default=None
        Number of images at the start of a batch whose loss is the cross-entropy; the remaining images have the generalized
        cross-entropy. None: all of them.
    q : float, default=0.0
        Exponent of the generalized cross-entropy.
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
    """A loss, the parameters that minimise it, and the sampling of its batches.

    Parameters
    ----------
    parameters : sequence of nn.Parameter
        Parameters to be trained.

    Attributes
    ----------
    notes : list of dict
        Progress reported by the objective, for example one entry per round; part of checkpoints and of the run record.
    round_size : int or None
        Number of steps after which the objective changes. A chunk of steps never crosses this boundary. None: the objective
        never changes.
    turns : int
        Number of steps in a cycle. Steps whose numbers are equal modulo ``turns`` execute the same operations, so that a CUDA
        graph can replay a cycle. 1: all steps; more for networks that are updated in alternation.
    """

    round_size: int | None = None
    turns: int = 1

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.notes: list[dict[str, Any]] = []

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw the batches of steps ``first`` to ``first + n_steps - 1``.

        A batch is a pure function of the step number and of :meth:`memory`. Training can therefore resume at any step, on any
        engine.

        Parameters
        ----------
        first : int
            Number of the first step.
        n_steps : int
            Number of batches.

        Returns
        -------
        mapping of str to Tensor
            Index arrays of shape (n_steps, ...); one of them is called ``rows``.
        """
        raise NotImplementedError

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of one batch.

        Parameters
        ----------
        batch : mapping of str to Tensor
            One entry along the first axis of every array returned by :meth:`draw`.

        Returns
        -------
        Tensor of shape ()
            The loss.
        """
        raise NotImplementedError

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        """Compute the loss of one batch in a turn of the cycle; by default that of every step.

        Parameters
        ----------
        batch : mapping of str to Tensor
            One entry along the first axis of every array returned by :meth:`draw`.
        turn : int
            Number of the step modulo ``turns``.

        Returns
        -------
        Tensor of shape ()
            The loss.
        """
        return self.loss(batch)

    def fused_form(self) -> FusedForm | None:
        """Return the components of the loss for the fused kernels, or None if the loss has another form."""
        return None

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Update the objective after a chunk of steps, before any hook is called.

        Parameters
        ----------
        steps_done : int
            Number of steps taken so far.
        n_steps : int
            Number of steps in this chunk.
        loss : float
            Mean loss of this chunk.
        """

    def memory(self) -> dict[str, Tensor]:
        """Return the state besides the parameters that a checkpoint must contain."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the state returned by :meth:`memory`."""
