"""Optional packages: imported where they are needed, with an error that names the extra to install."""

import importlib
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import MissingDependencyError


def needed(module: str, install: str, what: str = "this backbone") -> Any:
    """Import an optional package.

    Parameters
    ----------
    module : str
        Module to import.
    install : str
        Arguments of ``pip install``, for the error message.
    what : str, default="this backbone"
        Subject of the error message: what needs the package.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If the import fails.

    Examples
    --------
    >>> needed("math", "python").pi
    3.141592653589793
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a package built for another torch version can raise anything
        missing = isinstance(error, ModuleNotFoundError)
        why = "" if missing else f" (it is installed, but its import failed: {quoted(error, 200)})"
        raise MissingDependencyError(f"{what} needs the package {module}{why}: pip install {install}") from error
