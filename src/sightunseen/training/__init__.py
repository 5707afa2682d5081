"""Training loop shared by all methods: a method describes a :class:`Run`; the loop and its engines execute it."""

from sightunseen.training.loop import CHUNK, Hook, Run, Training, TrainingInterrupted, train, train_together
from sightunseen.training.objective import Draw, FusedForm, Objective
from sightunseen.training.optimisation import Optimisation

__all__ = [
    "CHUNK",
    "Draw",
    "FusedForm",
    "Hook",
    "Objective",
    "Optimisation",
    "Run",
    "Training",
    "TrainingInterrupted",
    "train",
    "train_together",
]
