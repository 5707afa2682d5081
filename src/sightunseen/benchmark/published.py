"""Published results of other authors, shown next to measured results and never averaged with them."""

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from annotated_types import Len

from sightunseen.core.documents import STRICT, parse_document, validated
from sightunseen.core.metrics import ACCURACIES

FIXED = "fixed"
ATTRIBUTES, SENTENCES, OTHER = "attributes", "sentences", "other class vectors"
SELECTED = {
    "validation": "selected on validation classes",
    "test": "selected on test data",
    "unknown": "selection not known",
}

Setting = Literal["inductive", "transductive"]
Features = Literal["fixed", "fine-tuned"]
Semantics = Literal["attributes", "sentences"]
Selection = Literal["validation", "test", "unknown"]
Numbers = Annotated[list[float], Len(len(ACCURACIES), len(ACCURACIES))]


@dataclass(frozen=True)
class PublishedTable:
    """Schema of a ``[[table]]`` of ``published.toml``.

    Parameters
    ----------
    source : str
        Publication.
    table : str
        Table of the publication.
    setting : {"inductive", "transductive"}
        Setting of the published experiment.
    network : str
        Network that the features come from.
    selection : {"validation", "test", "unknown"}
        Data on which epoch and hyperparameters were chosen.
    rows : dict of str to dict
        Numbers by method and data set.
    features : {"fixed", "fine-tuned"}, default="fixed"
        Whether the network was fine-tuned on the seen classes.
    semantics : {"attributes", "sentences"}, default="attributes"
        Kind of class vectors.
    """

    __pydantic_config__ = STRICT

    source: str
    table: str
    setting: Setting
    network: str
    selection: Selection
    rows: dict[str, dict[str, Numbers]]
    features: Features = "fixed"
    semantics: Semantics = "attributes"


@dataclass(frozen=True)
class Published:
    """Published results of one method on one data set.

    Parameters
    ----------
    method : str
        Name of the method, as in ``sightunseen methods`` where the package implements it.
    data : str
        Name of the data set, such as "CUB".
    numbers : dict of str to float or None
        T1, U, S and H in percent. None if no source was found for the number.
    origin : PublishedTable
        Publication and conditions of the experiment.
    """

    method: str
    data: str
    numbers: dict[str, float | None]
    origin: PublishedTable

    @property
    def backbone(self) -> str:
        """Network that the features come from, named as fine-tuned if it is."""
        network, features = self.origin.network, self.origin.features
        return network if features == FIXED else f"{features} {network}"

    @property
    def conditions(self) -> str:
        """Features, class vectors and selection in one phrase.

        Examples
        --------
        >>> published_row("CE-GZSL", "CUB", "sentences").conditions
        'ResNet-101, sentences, selected on test data'
        """
        return f"{self.backbone}, {self.origin.semantics}, {SELECTED[self.origin.selection]}"


@cache
def published() -> tuple[Published, ...]:
    """Load all published results from ``published.toml``.

    Returns
    -------
    tuple of Published
        One entry per method, data set, kind of features and kind of class vectors.
    """
    content = parse_document((files("sightunseen.benchmark") / "published.toml").read_bytes(), "toml")
    return tuple(
        Published(method, data, _known(numbers), table)
        for table in validated(dict[str, list[PublishedTable]], content)["table"]
        for method, by_data in table.rows.items()
        for data, numbers in by_data.items()
    )


def published_rows(method: str, data: str) -> tuple[Published, ...]:
    """Find all published results of a method on a data set.

    Parameters
    ----------
    method : str
        Name of the method.
    data : str
        Name of the data set in published tables.

    Returns
    -------
    tuple of Published
        One entry per kind of features and of class vectors, fixed features first.

    Examples
    --------
    >>> [row.backbone for row in published_rows("TF-VAEGAN", "CUB")]
    ['ResNet-101', 'fine-tuned ResNet-101']
    """
    found = (row for row in published() if (row.method, row.data) == (method, data))
    return tuple(sorted(found, key=lambda row: row.origin.features != FIXED))


def published_row(method: str, data: str, semantics: str = ATTRIBUTES) -> Published | None:
    """Find the published results of a method on a data set that are most comparable with fixed features.

    Parameters
    ----------
    method : str
        Name of the method.
    data : str
        Name of the data set in published tables.
    semantics : {"attributes", "sentences", "other class vectors"}, default="attributes"
        Preferred kind of class vectors.

    Returns
    -------
    Published or None
        Results with fixed features rather than fine-tuned ones, and with these class vectors rather than others; None if
        there is no published result.

    Examples
    --------
    >>> published_row("CVC", "AWA1").numbers
    {'T1': 70.9, 'U': 62.7, 'S': 77.0, 'H': 69.1}
    """
    found = published_rows(method, data)
    return min(found, key=lambda row: (row.origin.features != FIXED, row.origin.semantics != semantics), default=None)


def _known(numbers: Numbers) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in zip(ACCURACIES, numbers, strict=True)}
