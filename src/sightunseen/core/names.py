"""Labels and attribute names as a person would write them."""

import re
from collections.abc import Iterable
from typing import Any


def readable(label: Any) -> str:
    """A label without leading number and separators.

    >>> readable("001.Black_footed_Albatross")
    'Black footed Albatross'
    >>> readable("polar+bear")
    'polar bear'
    """
    text = str(label)
    if re.fullmatch(r"[-+.\d]*", text):  # a number, which its separators belong to
        return text
    return re.sub(r"[-_+.\s]+", " ", re.sub(r"^\d+\.(?=\D)", "", text)).strip() or text


def readable_names(labels: Iterable[Any]) -> dict[Any, str]:
    """Each label with its readable name; all of them as they are, where two classes would share a name."""
    names = {label: readable(label) for label in labels}
    return names if len(set(names.values())) == len(names) else {label: str(label) for label in names}


def readable_attribute(name: str) -> str:
    """An attribute's name for a reader.

    >>> readable_attribute("has_bill_shape::curved_(up_or_down)")
    'bill shape: curved (up or down)'
    """
    return re.sub(r"[_+]+", " ", name.removeprefix("has_").replace("::", ": ")).strip() or name
