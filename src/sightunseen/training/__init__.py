"""One training loop for every method: a method hands it an objective, the loop does the rest."""

from sightunseen.training.loop import Hook, Training, TrainingInterrupted, train
from sightunseen.training.objective import CHUNK, Draw, Objective
from sightunseen.training.optimisation import Optimisation

__all__ = ["CHUNK", "Draw", "Hook", "Objective", "Optimisation", "Training", "TrainingInterrupted", "train"]
