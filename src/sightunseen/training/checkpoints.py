"""Checkpoints: one sealed safetensors file per stage, written atomically, with the progress in its header."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import xxhash
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sightunseen.core.documents import DocumentError, parse_document, quoted, validated
from sightunseen.core.errors import ModelError
from sightunseen.core.files import written_atomically
from sightunseen.core.records import FINITE
from sightunseen.training.loop import Hook, Training, TrainingInterrupted

SEAL = b'"seal":"'  # in the header: XXH3 of the file in which the digits of the seal are zeros
UNSEALED = "0" * 32
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of Adam, by parameter


@dataclass(frozen=True)
class Progress:
    """Progress of a training, in the header of its checkpoint.

    Parameters
    ----------
    identity : str
        Digest of data and hyperparameters.
    steps_done : int
        Number of steps taken.
    losses : list of (int, float)
        Losses of the chunks; see :class:`~sightunseen.training.loop.Training`.
    curve : list of dict
        Measurements of hooks.
    notes : list of dict
        Progress reported by the objective.
    """

    __pydantic_config__ = FINITE

    identity: str
    steps_done: int
    losses: list[tuple[int, float]]
    curve: list[dict[str, Any]]
    notes: list[dict[str, Any]]


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
            progress, state = _read(path.read_bytes())
            if progress.identity == self.identity:
                self._resume(training, progress, state)
                return
        except (DocumentError, ModelError) as error:
            raise ModelError(f"checkpoint {path} is damaged: {error}. Delete {self.folder} and start again.") from error
        raise ModelError(
            f"checkpoint {path} belongs to a run with other data or settings. Repeat the run with the same data and "
            f"hyperparameters to resume it, or delete {self.folder} to start again."
        )

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
        notes = training.objective.notes
        progress = Progress(self.identity, training.steps_done, training.losses, training.curve, notes)
        metadata = {"progress": json.dumps(asdict(progress)), "seal": UNSEALED}
        with written_atomically(self._path(training)) as temporary:
            # Written by Python, not by safetensors, so that a full disk raises an OSError.
            temporary.write_bytes(sealed(save(training.state(), metadata=metadata)))
        self._saved_at[training.stage] = time.monotonic()

    def _resume(self, training: Training, progress: Progress, state: Mapping[str, Tensor]) -> None:
        _check_progress(training, progress)
        _check_tensors(training, progress, state)
        training.restore(state, progress.steps_done, progress.losses)
        training.curve[:], training.objective.notes[:] = progress.curve, progress.notes
        for hook in training.run.hooks:
            hook.on_resume(training)

    def _path(self, training: Training) -> Path:
        return self.folder / f"{training.stage.replace(' ', '-')}.safetensors"


def sealed(content: bytes) -> bytes:
    """Replace the zeros of the seal by the checksum of the file.

    Parameters
    ----------
    content : bytes
        A safetensors file whose metadata have a ``seal`` of 32 zeros.

    Returns
    -------
    bytes
        The file with its seal.
    """
    start = content.index(SEAL) + len(SEAL)
    return content[:start] + xxhash.xxh3_128_hexdigest(content).encode() + content[start + len(UNSEALED) :]


def _read(content: bytes) -> tuple[Progress, dict[str, Tensor]]:
    """Verify the seal; read progress and tensors."""
    start = content.find(SEAL) + len(SEAL)
    end = start + len(UNSEALED)
    if content[start:end] != xxhash.xxh3_128_hexdigest(content[:start] + UNSEALED.encode() + content[end:]).encode():
        raise DocumentError("its checksum differs")
    header = validated(dict[str, Any], parse_document(content[8 : 8 + int.from_bytes(content[:8], "little")]))
    metadata = validated(dict[str, str], header.get("__metadata__"))
    progress = validated(Progress, parse_document(metadata.get("progress", "").encode()))
    try:
        json.dumps(asdict(progress), allow_nan=False)  # measurements and notes become part of a run record
        return progress, load(content)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DocumentError(quoted(error, 200)) from error


def _check_progress(training: Training, progress: Progress) -> None:
    """Check that the progress is one that this training can have made."""
    steps, n_steps = [0, *(count for count, _ in progress.losses)], training.optimisation.n_steps
    if any(after <= before for before, after in pairwise(steps)) or not 0 < steps[-1] == progress.steps_done <= n_steps:
        raise ModelError(f"its {progress.steps_done} steps do not fit a training of {n_steps} steps")
    fresh, size = training.objective.notes, training.objective.round_size
    rounds = len(fresh) if size is None else -(-n_steps // size)  # the last one may be shorter
    expected = rounds if size is None else min(progress.steps_done // size + 1, rounds)
    finished = 0 if size is None else rounds if progress.steps_done == n_steps else progress.steps_done // size
    fits = len(progress.notes) == expected and all(
        {name: type(value) for name, value in note.items() if name != "loss"}
        == {name: type(value) for name, value in fresh[0].items() if name != "loss"}
        and (isinstance(note["loss"], float) if "loss" in note else k >= finished)
        for k, note in enumerate(progress.notes)
    )
    if not fits:
        raise ModelError("its notes do not fit the training")


def _check_tensors(training: Training, progress: Progress, state: Mapping[str, Tensor]) -> None:
    """Check names, types, shapes and values of tensors against those of the training at its start."""
    memory = {f"memory.{name}": tensor for name, tensor in training.objective.memory().items()}
    values = {f"{k}.value": parameter for k, parameter in enumerate(training.objective.parameters)}
    moments = {f"{k}.{name}": values[f"{k}.value"] for k in range(len(values)) for name in MOMENTS}
    missing = (memory.keys() | values.keys()) - state.keys()
    missing |= {name for name in moments if any(name.partition(".")[0] + f".{one}" in state for one in MOMENTS)} - state.keys()
    unknown = state.keys() - memory.keys() - values.keys() - moments.keys()
    if missing or unknown:
        raise ModelError(f"it has no tensor {min(missing)}" if missing else f"it has an unknown tensor {quoted(min(unknown))}")
    for name, tensor in state.items():
        like = memory[name] if name in memory else values[name] if name in values else moments[name]
        shape = () if name.endswith(".step") and name in moments else tuple(like.shape)
        if shape and name in memory and training.objective.round_size is not None:
            shape = (*tensor.shape[:1], *shape[1:])  # the number of pseudo-labelled images differs between rounds
        if tensor.dtype != like.dtype or tuple(tensor.shape) != shape:
            raise ModelError(f"tensor {name} has type {tensor.dtype} and shape {tuple(tensor.shape)}; expected {shape}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(f"tensor {name} has values that are not finite")
        if name in moments and name.endswith(".step") and not 0 <= float(tensor) <= progress.steps_done:
            raise ModelError(f"tensor {name} does not fit {progress.steps_done} steps")
