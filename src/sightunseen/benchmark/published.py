"""Published results of other authors, shown next to measured results and never averaged with them."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sightunseen.core.metrics import ACCURACIES


@dataclass(frozen=True)
class Published:
    """Published results of one method on one data set.

    Parameters
    ----------
    method : str
        Name of the method, as in ``sightunseen methods`` where the package implements it.
    data : str
        Name of the data set, such as "CUB".
    setting : {"inductive", "transductive"}
        Setting of the published experiment.
    backbone : str
        Network that the features come from.
    source : str
        Publication.
    table : str
        Table of the publication.
    numbers : dict of str to float or None
        T1, U, S and H in percent. None if the source does not report the number.
    """

    method: str
    data: str
    setting: str
    backbone: str
    source: str
    table: str
    numbers: dict[str, float | None]


@cache
def published() -> tuple[Published, ...]:
    """Load all published results from ``published.toml``.

    Returns
    -------
    tuple of Published
        One entry per method and data set.
    """
    content = tomllib.loads((files("sightunseen.benchmark") / "published.toml").read_text(encoding="utf-8"))
    return tuple(
        Published(method, data, table["setting"], table["backbone"], table["source"], table["table"], _known(numbers))
        for table in content["table"]
        for method, by_data in table["rows"].items()
        for data, numbers in by_data.items()
    )


def published_row(method: str, data: str) -> Published | None:
    """Find the published results of a method on a data set.

    Parameters
    ----------
    method : str
        Name of the method.
    data : str
        Name of the data set in published tables.

    Returns
    -------
    Published or None
        None if there is no published result.

    Examples
    --------
    >>> published_row("CVC", "AWA1").numbers
    {'T1': 70.9, 'U': 62.7, 'S': 77.0, 'H': 69.1}
    """
    return next((row for row in published() if (row.method, row.data) == (method, data)), None)


def _known(numbers: list[float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in zip(ACCURACIES, numbers, strict=True)}
