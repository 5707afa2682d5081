"""One training loop for every method: a method hands it a run, the loop and its engines do the rest."""

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
