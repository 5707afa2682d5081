"""Where data come from, as plain text: what a command line or a plan says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSource:
    """Where data are and which of their files to use; None: the default of that kind of data."""

    path: str
    features: str | None = None  # of a benchmark folder: its feature file
    splits: str | None = None
    semantics: str | None = None  # class vectors
    classes: str | None = None  # table of classes, of features or photos
    backbone: str | None = None  # of photos
