"""Names as a reader wants them: ``001.Black_footed_Albatross`` is a black footed albatross."""

import re
from collections.abc import Iterable
from typing import Any


def readable(labels: Iterable[Any]) -> dict[Any, str]:
    """Each label with its name for a reader; as it is, where two classes would share a name.

    >>> readable(["001.Black_footed_Albatross", "polar+bear"])
    {'001.Black_footed_Albatross': 'Black footed Albatross', 'polar+bear': 'polar bear'}
    """
    names = {label: _words(re.sub(r"^\d+\.(?=\D)", "", str(label))) for label in labels}
    return names if len(set(names.values())) == len(names) else {label: str(label) for label in names}


def readable_attribute(name: str) -> str:
    """An attribute's name for a reader.

    >>> readable_attribute("has_bill_shape::curved_(up_or_down)")
    'bill shape: curved (up or down)'
    """
    return _words(name.removeprefix("has_").replace("::", ": ")) or name


def _words(name: str) -> str:
    return re.sub(r"[_+]+", " ", name).strip() or name
