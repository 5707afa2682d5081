"""Location of a data set, as plain text for the command line and benchmark plans."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSource:
    """Path of a data set and the files of it to use; None stands for the default of that kind of data.

    Parameters
    ----------
    path : str
        File or folder.
    features : str, optional
        Name of the feature file of a benchmark folder.
    splits : str, optional
        Name of the split file of a benchmark folder.
    semantics : str, optional
        Class vectors to use.
    classes : str, optional
        Table of classes that belongs to a table of features or to photos.
    backbone : str, optional
        Backbone that extracts the features of photos.
    """

    path: str
    features: str | None = None
    splits: str | None = None
    semantics: str | None = None
    classes: str | None = None
    backbone: str | None = None
