"""Human-readable forms of labels and attribute names."""

import re
from collections.abc import Iterable
from typing import Any


def readable(label: Any) -> str:
    """Format a label for a reader: without leading number and separators.

    Parameters
    ----------
    label : object
        The label.

    Returns
    -------
    str
        Its readable form.

    Examples
    --------
    >>> readable("001.Black_footed_Albatross")
    'Black footed Albatross'
    >>> readable("polar+bear")
    'polar bear'
    """
    text = str(label)
    if re.fullmatch(r"[-+.\d]*", text):  # a number: its separators are part of it
        return text
    return re.sub(r"[-_+.\s]+", " ", re.sub(r"^\d+\.(?=\D)", "", text)).strip() or text


def readable_names(labels: Iterable[Any]) -> dict[Any, str]:
    """Format all labels of a data set for a reader.

    Parameters
    ----------
    labels : iterable
        The labels.

    Returns
    -------
    dict of label to str
        The readable form of each label; the labels as text if two of them would have the same form.

    Examples
    --------
    >>> readable_names(["sea_lion", "zebra"])
    {'sea_lion': 'sea lion', 'zebra': 'zebra'}
    >>> readable_names(["sea_lion", "sea+lion"])
    {'sea_lion': 'sea_lion', 'sea+lion': 'sea+lion'}
    """
    names = {label: readable(label) for label in labels}
    return names if len(set(names.values())) == len(names) else {label: str(label) for label in names}


def readable_attribute(name: str) -> str:
    """Format the name of an attribute for a reader.

    Parameters
    ----------
    name : str
        The name, such as those of CUB.

    Returns
    -------
    str
        Its readable form.

    Examples
    --------
    >>> readable_attribute("has_bill_shape::curved_(up_or_down)")
    'bill shape: curved (up or down)'
    """
    return re.sub(r"[_+]+", " ", name.removeprefix("has_").replace("::", ": ")).strip() or name
