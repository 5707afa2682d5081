"""Checkpoints: one safetensors file per stage, written atomically, with the progress in its header."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from sightunseen.core.errors import ModelError
from sightunseen.core.files import written_atomically
from sightunseen.training.loop import Hook, Training, TrainingInterrupted

PROGRESS = ("identity", "steps_done", "losses", "curve", "notes")


class Checkpoints(Hook):
    """Save checkpoints at regular intervals and on a requested stop; resume from an existing one.

    Parameters
    ----------
    folder : Path
        Folder of the ``<stage>.safetensors`` files.
    identity : str
        Digest of data and hyperparameters. A checkpoint with another identity is not resumed.
    seconds : float, default=15.0
        Time between two checkpoints.
    stop_asked : callable that returns a bool, default=never
        Called after every chunk; if it returns True, the run is saved and interrupted.
    """

    def __init__(
        self,
        folder: Path,
        identity: str,
        seconds: float = 15.0,
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        self.identity = identity
        self.seconds = seconds
        self.stop_asked = stop_asked
        self._saved_at: dict[str, float] = {}  # by stage

    def on_start(self, training: Training) -> None:
        """Resume from the checkpoint of this stage, if there is one.

        Raises
        ------
        ModelError
            If the checkpoint is damaged or belongs to another run.
        """
        path = self._path(training)
        self._saved_at[training.stage] = time.monotonic()
        if not path.is_file():
            return
        try:
            with safe_open(path, framework="pt") as file:
                progress = json.loads(file.metadata()["progress"])
                state = {name: file.get_tensor(name) for name in file.keys()}
            identity, steps_done, losses, curve, notes = (progress[name] for name in PROGRESS)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"checkpoint {path} is damaged: {error}. Delete {self.folder} and start again.") from error
        if identity != self.identity:
            raise ModelError(
                f"checkpoint {path} belongs to a run with other data or settings. Repeat the run with the same data and "
                f"hyperparameters to resume it, or delete {self.folder} to start again."
            )
        training.restore(state, steps_done, losses)
        training.curve[:], training.objective.notes[:] = curve, notes

    def on_chunk(self, training: Training) -> None:
        """Save if the interval has passed, at the end of training, and on a requested stop.

        Raises
        ------
        TrainingInterrupted
            If a stop was requested before the end of training.
        """
        stop = self.stop_asked() and not training.finished
        if stop or training.finished or time.monotonic() - self._saved_at[training.stage] >= self.seconds:
            self.save(training)
        if stop:
            raise TrainingInterrupted(
                f"{training.stage}: stopped after {training.steps_done:,} of {training.last:,} steps; "
                f"checkpoint saved in {self.folder}. Repeat the command with --resume to continue."
            )

    def save(self, training: Training) -> None:
        """Write the checkpoint of this stage."""
        values = (self.identity, training.steps_done, training.losses, training.curve, training.objective.notes)
        progress = dict(zip(PROGRESS, values, strict=True))
        with written_atomically(self._path(training)) as temporary:
            # Written by Python, not by safetensors, so that a full disk raises an OSError.
            temporary.write_bytes(save(training.state(), metadata={"progress": json.dumps(progress)}))
        self._saved_at[training.stage] = time.monotonic()

    def _path(self, training: Training) -> Path:
        return self.folder / f"{training.stage.replace(' ', '-')}.safetensors"
