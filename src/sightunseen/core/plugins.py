"""Plug-ins: objects of other packages, by the name of an entry point or by a ``package.module:name`` path.

A name that the user types is imported. A path that a model folder names is imported only if the same object is installed as an
entry point, or if the user allows it: whoever wrote the folder chose the path, and an import runs code.
"""

import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError

METHODS, BACKBONES, TEXT_ENCODERS, METRICS = (
    "sightunseen.methods",
    "sightunseen.backbones",
    "sightunseen.text_encoders",
    "sightunseen.metrics",
)
CONSENT = "SIGHTUNSEEN_ALLOW_PLUGINS"
_FOLDERS: dict[str, str] = {}  # file or folder of each imported plug-in, with its name


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """List the entry points of a group, without importing them.

    Parameters
    ----------
    group : str
        Name of the group, such as ``"sightunseen.methods"``.

    Returns
    -------
    mapping of str to EntryPoint
        Entry points by name.
    """
    return {point.name: point for point in entry_points(group=group)}


def is_path(name: str) -> bool:
    """Tell whether a name has the form ``package.module:name``.

    Parameters
    ----------
    name : str
        A name that a user gave.

    Returns
    -------
    bool
        True for an import path.

    Examples
    --------
    >>> is_path("my_package.nearest:NearestMean"), is_path("onnx:model.onnx"), is_path("CVC")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), attribute]
    return bool(colon) and all(part.isidentifier() for part in parts)


def load_object(name: str, group: str) -> Any:
    """Import an object by its entry point or by its ``package.module:name`` path.

    Parameters
    ----------
    name : str
        Name of an entry point of the group, or an import path.
    group : str
        Group of entry points.

    Returns
    -------
    object
        The imported object.

    Raises
    ------
    SettingsError
        If there is no such entry point or module, its import fails, or the module has no such attribute.

    Examples
    --------
    >>> load_object("collections:Counter", "sightunseen.metrics")
    <class 'collections.Counter'>
    """
    point = plugins(group).get(name)
    if point is None:
        if not is_path(name):
            raise SettingsError(
                f"'{quoted(name)}' is neither an entry point of {group} nor a path such as package.module:Name. Install its "
                "package, or correct the name."
            )
        point = EntryPoint(name, name, group)
        if not {"", os.getcwd()} & {*sys.path}:
            sys.path.append(os.getcwd())  # last: a module of the current folder must not replace an installed one
    try:
        found = point.load()
    except (Exception, SystemExit) as error:  # whatever the code of the module does
        what = f"'{quoted(name)}' cannot be imported ({type(error).__name__}: {quoted(error, 200)})."
        raise SettingsError(
            f"{what} Install its package, or run where Python finds the module (PYTHONPATH)."
            if isinstance(error, ModuleNotFoundError)
            else f"{what} Correct the plug-in."
        ) from error
    _remember(_path_of(point))
    return found


def import_path(kind: type) -> str:
    """Name a class by its ``package.module:name`` path.

    Parameters
    ----------
    kind : type
        The class.

    Returns
    -------
    str
        The path.

    Examples
    --------
    >>> from collections import Counter
    >>> import_path(Counter)
    'collections:Counter'
    """
    return f"{kind.__module__}:{kind.__qualname__}"


def allow_plugins(paths: Iterable[str]) -> None:
    """Allow, for this process and those it starts, the import of these plug-ins if a model folder names them.

    Parameters
    ----------
    paths : iterable of str
        Import paths; they are added to those of ``SIGHTUNSEEN_ALLOW_PLUGINS``.
    """
    names = [*_allowed(), *paths]
    if names:
        os.environ[CONSENT] = ",".join(dict.fromkeys(names))


def load_recorded(path: str, group: str, allow: Iterable[str] = (), base: type | None = None) -> Any:
    """Import an object that a file names, if that is safe.

    Parameters
    ----------
    path : str
        Import path in the file.
    group : str
        Group of entry points.
    allow : iterable of str, default=()
        Paths that the user allows, in addition to those of :func:`allow_plugins`.
    base : type, optional
        Subclasses of it that this program has imported already need no permission. Default: all others do, because a file could
        name any function of any imported module.

    Returns
    -------
    object
        The object: installed as an entry point of the group, allowed, or an imported subclass of ``base``.

    Raises
    ------
    SettingsError
        If it is none of these, or cannot be imported.
    """
    if is_path(path):
        module, _, name = path.partition(":")
        imported = getattr(sys.modules.get(module), name, None)
        if base is not None and isinstance(imported, type) and issubclass(imported, base):
            _remember(path)
            return imported
        for point in plugins(group).values():
            if point.module.partition(".")[0] == module.partition(".")[0]:
                found = load_object(point.name, group)  # an entry point may name a class by another module that imports it
                if path in (_path_of(point), f"{getattr(found, '__module__', '')}:{getattr(found, '__qualname__', '')}"):
                    return found
        if path in {*_allowed(), *allow}:
            return load_object(path, group)
    raise SettingsError(
        f"'{quoted(path)}' is a plug-in that is not installed as an entry point of {group}. Importing it runs its code. "
        f"Install its package or, if you trust it, give --allow-plugin {quoted(path)} (in Python: allow=['{quoted(path)}'])."
    )


def plugin_of(error: BaseException) -> tuple[str, str] | None:
    """Find the plug-in whose code an error was raised in.

    Parameters
    ----------
    error : BaseException
        An error.

    Returns
    -------
    tuple of str, or None
        Import path of the plug-in, and the innermost line of its code; None if no plug-in takes part in the error.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = {frame.filename, *map(str, Path(frame.filename).parents)}
        found = next((name for place, name in _FOLDERS.items() if place in parts), None)
        if found is not None:
            return found, f"{frame.filename}:{frame.lineno}"
    return None


def _path_of(point: EntryPoint) -> str:
    return f"{point.module}:{point.attr}"


def _allowed() -> list[str]:
    return [name for name in os.environ.get(CONSENT, "").split(",") if name]


def _remember(path: str) -> None:
    """Store the file of a plug-in, or the folder of its package."""
    module = path.partition(":")[0]
    package = sys.modules.get(module.partition(".")[0])
    file = getattr(package, "__file__", None) or getattr(sys.modules.get(module), "__file__", None)
    if file is not None and module.partition(".")[0] != "sightunseen":
        _FOLDERS[str(Path(file).parent) if Path(file).name == "__init__.py" else file] = path
