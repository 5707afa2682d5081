"""Entries of a benchmark plan: a data set, and a method with its hyperparameters."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sightunseen.core.documents import STRICT, quoted
from sightunseen.core.limits import LABEL_LENGTH
from sightunseen.data.photo_lists import is_photos
from sightunseen.data.source import DataSource
from sightunseen.pipeline.data import DEFAULT_BACKBONE


@dataclass(frozen=True)
class DataEntry:
    """A ``[[data]]`` entry of a plan.

    Parameters
    ----------
    path : str
        An xlsa17 folder, a folder of tables, a table of features or a folder of photos.
    features, splits, semantics, classes : str, optional
        Files of the data set, as in the options of ``sightunseen train``.
    published : str, optional
        Name of the data set in published tables. Default: the name of the folder.
    backbone : str, default=""
        For a folder of photos, the backbone that extracts features; by default efficientnet_lite0. For other data, the network
        that the features come from; tables mark published numbers that were obtained with another one.
    label : str, default=""
        Name of the data set in result tables. Default: the folder with features and class vectors.
    """

    __pydantic_config__ = STRICT

    path: str
    features: str | None = None
    splits: str | None = None
    semantics: str | None = None
    classes: str | None = None
    published: str | None = None
    backbone: str = ""
    label: str = ""

    def located(self, folder: Path = Path()) -> "DataEntry":
        """Complete the entry.

        Parameters
        ----------
        folder : Path, optional
            Folder that the paths of the entry are relative to. Default: the current folder.

        Returns
        -------
        DataEntry
            The entry with paths that are relative to the current folder and, for photos, a backbone.
        """
        path, classes = str(folder / self.path), None if self.classes is None else str(folder / self.classes)
        photos = False
        with suppress(OSError):  # the reason is told where the data are opened
            photos = is_photos(path)
        return replace(self, path=path, classes=classes, backbone=self.backbone or (DEFAULT_BACKBONE if photos else ""))

    @property
    def source(self) -> DataSource:
        """The data source that the pipeline opens."""
        return DataSource(self.path, self.features, self.splits, self.semantics, self.classes, self.backbone or None)

    @property
    def name(self) -> str:
        """Name of the data set in result tables."""
        name = self.label or " ".join([self.folder, *filter(None, (self.features, self.semantics))])
        return quoted(name, LABEL_LENGTH)  # names of files may not be valid Unicode

    @property
    def folder(self) -> str:
        """Name of the folder or file."""
        return Path(self.path).name

    @property
    def published_name(self) -> str:
        """Name of the data set in published tables."""
        return quoted(self.published or self.folder, LABEL_LENGTH)


@dataclass(frozen=True)
class MethodEntry:
    """A ``[[method]]`` entry of a plan: a method and its hyperparameters.

    Parameters
    ----------
    name : str
        Name of the method, as listed by ``sightunseen methods``, or ``package.module:Class``.
    label : str, default=""
        Name of this variant in result tables. Default: the name of the method.
    settings : mapping, optional
        Hyperparameters that differ from the defaults of the method. They are not searched.
    search : mapping of str to list, optional
        Search space that replaces the default search space of the method.
    adaptation : mapping, optional
        Hyperparameters of ``adapt``, for transductive methods.
    adaptation_search : mapping of str to list, optional
        Search space that replaces the default search space of ``adapt``.
    preset : str or mapping of str to str, default=""
        Name of a preset of the method, such as "full", or the name for each data set, by the name of its folder. It is used in
        place of the budgets of the plan; the hyperparameters of this entry take precedence over it.
    """

    __pydantic_config__ = STRICT

    name: str
    label: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Sequence[Any]] | None = None
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    adaptation_search: Mapping[str, Sequence[Any]] | None = None
    preset: str | Mapping[str, str] = ""

    def preset_on(self, data: DataEntry) -> str:
        """Return the name of the preset on a data set; empty if none is given for it."""
        return self.preset if isinstance(self.preset, str) else self.preset.get(data.folder, "")

    @property
    def shown(self) -> str:
        """Name of the variant in result tables."""
        return quoted(self.label or self.name, LABEL_LENGTH)
