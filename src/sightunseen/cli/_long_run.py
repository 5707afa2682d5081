"""Long training runs: output folder, progress bar, checkpoint on Ctrl-C."""

import argparse
import hashlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sightunseen.core.errors import DataError, ModelError, SettingsError, StorageError
from sightunseen.core.files import check_writable, remove_folder
from sightunseen.core.locks import locked
from sightunseen.core.model_files import was_written_here
from sightunseen.training import Hook, Training


@contextmanager
def output_folder(args: argparse.Namespace) -> Iterator[Path]:
    """Check and lock the output folder before any work is done; remove the checkpoints when the work is done.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments ``out``, ``overwrite`` and ``resume``.

    Yields
    ------
    Path
        Folder of the checkpoints.

    Raises
    ------
    StorageError
        If the folder cannot be created, exists and must not be replaced, or if another process writes to it.
    ModelError
        If there is no checkpoint to resume from.
    """
    out: Path = args.out
    if not out.name:
        raise StorageError(f"'{out}' is not the name of a new folder. Choose another --out, such as bird-model.")
    if out.exists() and not was_written_here(out):
        raise StorageError(f"{out} exists and is not a model folder; it was left unchanged. Choose another --out.")
    check_writable(out, folder=True)
    with locked(out):
        workspace = out.with_name(out.name + ".checkpoint")
        if out.exists() and not args.overwrite:
            raise StorageError(f"{out} exists. Choose another --out, or give --overwrite to replace it.")
        if args.resume and not workspace.is_dir():
            raise ModelError(f"there is no checkpoint at {workspace} to resume from. Run the same command without --resume.")
        if workspace.exists() and not args.resume:
            if not args.overwrite:
                raise StorageError(
                    f"{workspace} has the checkpoint of an interrupted run. Give --resume or, to discard it, --overwrite."
                )
            remove_folder(workspace)
        try:
            yield workspace
        except (DataError, SettingsError):  # the same run would fail again, so there is nothing to resume
            if not args.resume:
                remove_folder(workspace)
            raise
        remove_folder(workspace)


@contextmanager
def long_work(workspace: Path, identity: dict[str, Any], by_steps: bool = True) -> Iterator[Sequence[Hook]]:
    """Provide the training hooks of a run; the first Ctrl-C writes a checkpoint and stops.

    Parameters
    ----------
    workspace : Path
        Folder of the checkpoints.
    identity : dict
        Everything that determines the result; a run with another identity cannot resume from the checkpoints.
    by_steps : bool, default=True
        Whether the method is trained in gradient steps. Other methods take seconds: they have no hooks, and Ctrl-C stops
        them immediately.

    Yields
    ------
    sequence of Hook
        Progress bar and checkpoints.
    """
    if not by_steps:
        yield []
        return
    from sightunseen.training.checkpoints import Checkpoints

    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
    with _ctrl_c() as asked:
        yield [ProgressBar(), Checkpoints(workspace, digest, stop_asked=lambda: bool(asked))]


class ProgressBar(Hook):
    """Progress bar on stderr: steps, steps per second, loss and remaining time.

    If stderr is not a terminal, one line per stage is printed instead. Models that are trained together share a bar, which
    shows the first unfinished model.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.running: list[Training] = []
        self.bar: Progress | None = None

    def on_start(self, training: Training) -> None:
        """Create the bar, or join the existing one."""
        self.running.append(training)
        if self.bar is None:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
                TextColumn("{task.fields[speed]}  {task.fields[loss]}"),
                TimeRemainingColumn(),
                console=self.console,
                disable=not self.console.is_terminal,
            )
            self.row = self.bar.add_task(training.stage, total=training.last, speed="", loss="")
            self.started = False

    def on_chunk(self, training: Training) -> None:
        """Update the bar."""
        shown = next((one for one in self.running if not one.finished), training)
        if self.bar is None or training is not shown:
            return
        if not self.started:
            self.bar.start()
            self.started = True
        others = f" and {len(self.running) - 1} more" if len(self.running) > 1 else ""
        speed = self.bar.tasks[0].speed
        self.bar.update(
            self.row,
            description=shown.stage + others,
            total=shown.last,
            completed=shown.steps_done,
            speed=f"{speed:,.0f}/s" if speed else "",
            loss=f"loss {shown.losses[-1][1]:.3f}",
        )

    def on_end(self, training: Training) -> None:
        """Stop the bar when the last model ends, also if training is interrupted."""
        self.running.remove(training)
        if self.bar is not None and not self.running:
            self.bar.stop()
            self.bar = None
        if not self.console.is_terminal and training.losses:
            print(
                f"{training.stage}: {training.steps_done:,} of {training.last:,} steps, loss {training.losses[-1][1]:.3f}",
                file=sys.stderr,
            )


@contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Record the first Ctrl-C in a list; raise ``KeyboardInterrupt`` at the second."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("stopping at the next checkpoint; press Ctrl-C again to stop immediately", file=sys.stderr)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
