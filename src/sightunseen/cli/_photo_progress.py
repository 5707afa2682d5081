"""Progress of feature extraction on the command line."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from sightunseen.features.extract import Batch


class PhotoProgress:
    """Progress bar of photos on stderr; if that is not a terminal, one line at the end.

    Parameters
    ----------
    name : str, default="photos"
        Description of the bar.

    Attributes
    ----------
    done, skipped, cached : int
        Number of photos with features, of unreadable photos, and of photos whose features were in the cache.
    """

    def __init__(self, name: str = "photos") -> None:
        self.console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} photos"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.name, self.total = name, 0
        self.done = self.skipped = self.cached = 0

    def __enter__(self) -> "PhotoProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        if self.total and not self.console.is_terminal:
            counts = f"{self.skipped:,} skipped, {self.cached:,} from the cache"
            print(f"{self.name}: {self.done + self.skipped:,} of {self.total:,} photos, {counts}", file=sys.stderr)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line)

    def watched(self, batches: "Iterable[Batch]", total: int) -> "Iterator[Batch]":
        """Yield batches unchanged and update the bar.

        Parameters
        ----------
        batches : iterable of Batch
            Batches of feature extraction.
        total : int
            Number of photos.

        Yields
        ------
        Batch
            The batches.
        """
        self.total = total
        self.bar.start()
        row = self.bar.add_task(self.name, total=total)
        for batch in batches:
            self.done += len(batch.paths)
            self.skipped += len(batch.failures)
            self.cached += batch.cached
            self.bar.update(row, completed=self.done + self.skipped)
            yield batch
