"""Lazy imports: a package whose names are imported at first use, and PyTorch, which is an extra."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from sightunseen.core.errors import MissingDependencyError


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
        try:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise _without_torch(name) from error

    return attribute


class LazyTorch:
    """Stand-in for the module ``torch`` that imports it at the first use of one of its names.

    Base classes and the training loop use it, so that methods in closed form work without PyTorch.

    Raises
    ------
    MissingDependencyError
        At the first use, if PyTorch is not installed.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(import_module("torch"), name)
        except ModuleNotFoundError as error:
            raise _without_torch("training by gradient descent") from error


def _without_torch(what: str) -> MissingDependencyError:
    return MissingDependencyError(f"{what} needs PyTorch: pip install 'sightunseen[deep]'")
