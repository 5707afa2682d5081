"""Lazy imports: names of a package that are imported at first use, so that importing the package is cheap."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a package whose public names are imported at first use.

    Parameters
    ----------
    package : str
        The package, ``__name__``.
    homes : mapping of str to str
        The submodule that defines each public name.

    Returns
    -------
    callable
        The package's ``__getattr__``.
    """

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return attribute
