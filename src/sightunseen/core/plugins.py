"""Objects of other packages: entry points, and ``package.module:name`` paths."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError

METHODS, BACKBONES, TEXT_ENCODERS, METRICS = (
    "sightunseen.methods",
    "sightunseen.backbones",
    "sightunseen.text_encoders",
    "sightunseen.metrics",
)


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
        If there is no such entry point or module, or the module has no such attribute.

    Examples
    --------
    >>> load_object("collections:Counter", "sightunseen.metrics")
    <class 'collections.Counter'>
    """
    try:
        if name in plugins(group):
            return plugins(group)[name].load()
        module, _, attribute = name.partition(":")
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise SettingsError(
            f"'{quoted(name)}' cannot be imported: {quoted(error)}. Install its package, or run where Python finds the module "
            "(PYTHONPATH)."
        ) from error
    except AttributeError as error:
        raise SettingsError(f"'{quoted(name)}' cannot be imported: {quoted(error)}.") from error
