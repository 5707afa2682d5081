"""A long run on the command line: progress bar, Ctrl-C that keeps the work, ``--resume``."""

import argparse
import hashlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.model_files import was_written_here
from sightunseen.training import Hook, Training
from sightunseen.training.checkpoints import Checkpoints


def prepare_output(args: argparse.Namespace) -> Path:
    """Check that the run may write where it is told to, before any work; returns the folder of its checkpoints."""
    out: Path = args.out
    if not out.name:
        raise StorageError(f"'{out}' is not the name of a new folder. Give --out a name, such as bird-model.")
    nearest = next(folder for folder in out.absolute().parents if folder.exists())
    if not nearest.is_dir():
        raise StorageError(f"{out} cannot be made: {nearest} is a file. Choose another place.")
    workspace = out.with_name(out.name + ".checkpoint")
    if out.exists() and not was_written_here(out):
        raise StorageError(f"{out} exists and is not a model of sightunseen; it is left alone. Choose another name.")
    if out.exists() and not args.overwrite:
        raise StorageError(f"{out} exists. Choose another name, or give --overwrite to replace it when the run is done.")
    if args.resume:
        if not workspace.is_dir():
            raise ModelError(
                f"there is nothing to resume: no checkpoint at {workspace}. Run the same command without --resume."
            )
        return workspace
    if workspace.exists():
        if not args.overwrite:
            raise StorageError(
                f"an interrupted run was kept in {workspace}. Go on with --resume, or start again with --overwrite."
            )
        shutil.rmtree(workspace)
    return workspace


@contextmanager
def long_work(workspace: Path, identity: dict[str, Any], by_steps: bool = True) -> Iterator[Sequence[Hook]]:
    """Yield the hooks of a run, a progress bar and checkpoints; a first Ctrl-C is caught and ends in a checkpoint.

    What is not trained ``by_steps`` takes seconds and has no checkpoints: it needs no hooks, and Ctrl-C stops it at once.
    """
    if not by_steps:
        yield []
        return
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
    with _ctrl_c() as asked:
        yield [ProgressBar(), Checkpoints(workspace, digest, stop_asked=lambda: bool(asked))]


class ProgressBar(Hook):
    """Tasks done, tasks a second, loss and time left, on stderr; a line a stage where that is not a terminal.

    Models trained together share a bar: it shows the first that is not finished.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.under_way: list[Training] = []
        self.bar: Progress | None = None

    def on_start(self, training: Training) -> None:
        """Make a bar, or join the one there is."""
        self.under_way.append(training)
        if self.bar is None:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} tasks"),
                TextColumn("{task.fields[speed]}  {task.fields[loss]}"),
                TimeRemainingColumn(),
                console=self.console,
                disable=not self.console.is_terminal,
            )
            self.row = self.bar.add_task(training.stage, total=training.last, speed="", loss="")
            self.started = False

    def on_chunk(self, training: Training) -> None:
        """Move the bar."""
        shown = next((one for one in self.under_way if not one.finished), training)
        if self.bar is None or training is not shown:
            return
        if not self.started:
            self.bar.start()
            self.started = True
        others = f" and {len(self.under_way) - 1} more" if len(self.under_way) > 1 else ""
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
        """Stop the bar with the last of its models, also when training is broken off."""
        self.under_way.remove(training)
        if self.bar is not None and not self.under_way:
            self.bar.stop()
            self.bar = None
        if not self.console.is_terminal and training.losses:
            print(
                f"{training.stage}: {training.steps_done:,} of {training.last:,} tasks, loss {training.losses[-1][1]:.3f}",
                file=sys.stderr,
            )


@contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Turn the first Ctrl-C into a request that a list records; the second one breaks off at once."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("stopping after this chunk of tasks; press Ctrl-C again to stop at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
