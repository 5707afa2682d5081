"""Stopping and going on: a checkpoint is one safetensors file, its progress in the header, written atomically."""

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
    """Save the run every ``seconds`` and when asked to stop; go on from what is saved.

    Parameters
    ----------
    folder : where ``<stage>.safetensors`` files are kept.
    identity : what the run is (data, settings). A checkpoint of another run is refused, not continued.
    stop_asked : asked after every chunk; once it says yes, the run is saved and broken off.
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
        """Go on from the checkpoint of this stage, if there is one."""
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
                f"checkpoint {path} belongs to a run with other data or settings. Give the same ones to go on, "
                f"or delete {self.folder} to start again."
            )
        training.restore(state, steps_done, losses)
        training.curve[:], training.objective.notes[:] = curve, notes

    def on_chunk(self, training: Training) -> None:
        """Save when it is time, at the end, and when asked to stop."""
        stop = self.stop_asked() and not training.finished
        if stop or training.finished or time.monotonic() - self._saved_at[training.stage] >= self.seconds:
            self.save(training)
        if stop:
            raise TrainingInterrupted(
                f"{training.stage}: stopped after {training.steps_done:,} of {training.last:,} tasks; "
                f"kept in {self.folder}. Go on with the same command and --resume."
            )

    def save(self, training: Training) -> None:
        """Write the checkpoint of this stage."""
        values = (self.identity, training.steps_done, training.losses, training.curve, training.objective.notes)
        progress = dict(zip(PROGRESS, values, strict=True))
        with written_atomically(self._path(training)) as temporary:
            # Written by Python, so that a full disk is an OSError like any other.
            temporary.write_bytes(save(training.state(), metadata={"progress": json.dumps(progress)}))
        self._saved_at[training.stage] = time.monotonic()

    def _path(self, training: Training) -> Path:
        return self.folder / f"{training.stage.replace(' ', '-')}.safetensors"
