"""Triton kernels of one gradient step of many models, for the loss of an ``objective.FusedForm``.

The last grid axis of every kernel is the model. Indexed rows of tables (``rows``, ``classes``) are gathered while they are
read. The gradient of a weight matrix is never stored: it is the product of two thin matrices and is computed in the pass that
clips it and applies Adam.

Products of few rows are split into spans of their depth, so that they occupy the GPU. The program that finishes last adds the
partial sums of a tile, in a fixed order, so that results are reproducible bit by bit, and computes what follows from them
(:func:`~sightunseen.training.kernels.tiles.is_last`): this saves a launch.

Sizes: ``COUNT`` generated classes per batch, ``FREE`` free classifiers before them, ``SIZE`` images, and ``ATTRIBUTES``,
``HIDDEN`` and ``FEATURES`` for the dimensions of class vectors, of the hidden layer and of features.
"""

from sightunseen.training.kernels.backward import classifier_gradient, hidden_gradient_and_norm
from sightunseen.training.kernels.forward import first_layer, scores_and_loss, second_layer
from sightunseen.training.kernels.update import clip_and_step

__all__ = [
    "classifier_gradient",
    "clip_and_step",
    "first_layer",
    "hidden_gradient_and_norm",
    "scores_and_loss",
    "second_layer",
]
