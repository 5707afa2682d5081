"""Estimators for zero-shot classification, one class per method.

Classes are imported on first use, so that a lookup by name does not import torch.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightunseen.core.errors import ModelError, SettingsError
from sightunseen.core.lazy import lazy_names

if TYPE_CHECKING:
    from sightunseen.methods.ale import ALE as ALE
    from sightunseen.methods.base.adaptable import AdaptableClassifier as AdaptableClassifier
    from sightunseen.methods.base.classifier import ZeroShotClassifier as ZeroShotClassifier
    from sightunseen.methods.base.gradient_adaptable import GradientAdaptableClassifier as GradientAdaptableClassifier
    from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier as GradientTrainedClassifier
    from sightunseen.methods.base.leave_out import LeaveClassesOut as LeaveClassesOut
    from sightunseen.methods.base.one_pass import OnePassClassifier as OnePassClassifier
    from sightunseen.methods.clip import CLIP as CLIP
    from sightunseen.methods.cmt import CMT as CMT
    from sightunseen.methods.cnzsl import CNZSL as CNZSL
    from sightunseen.methods.conse import CONSE as CONSE
    from sightunseen.methods.cvc.cvc import CVC as CVC
    from sightunseen.methods.cvc.projection import Projection as Projection
    from sightunseen.methods.dap import DAP as DAP
    from sightunseen.methods.dem import DEM as DEM
    from sightunseen.methods.devise import DEVISE as DEVISE
    from sightunseen.methods.dsrl import DSRL as DSRL
    from sightunseen.methods.eszsl import ESZSL as ESZSL
    from sightunseen.methods.foresight.foresight import Foresight as Foresight
    from sightunseen.methods.generative.bivaegan import BiVAEGAN as BiVAEGAN
    from sightunseen.methods.generative.cadavae import CADAVAE as CADAVAE
    from sightunseen.methods.generative.cegzsl import CEGZSL as CEGZSL
    from sightunseen.methods.generative.exem import EXEM as EXEM
    from sightunseen.methods.generative.fclswgan import FCLSWGAN as FCLSWGAN
    from sightunseen.methods.generative.fvaegan import FVAEGAN as FVAEGAN
    from sightunseen.methods.generative.tfvaegan import TFVAEGAN as TFVAEGAN
    from sightunseen.methods.gfzsl import GFZSL as GFZSL
    from sightunseen.methods.latem import LATEM as LATEM
    from sightunseen.methods.psr import PSR as PSR
    from sightunseen.methods.qfsl import QFSL as QFSL
    from sightunseen.methods.relation_network import RelationNetwork as RelationNetwork
    from sightunseen.methods.sae import SAE as SAE
    from sightunseen.methods.sje import SJE as SJE
    from sightunseen.methods.spaen import SPAEN as SPAEN
    from sightunseen.methods.sse import SSE as SSE
    from sightunseen.methods.sync import SYNC as SYNC

_ESTIMATORS = {
    "ALE": "ale",
    "BiVAEGAN": "generative.bivaegan",
    "CADAVAE": "generative.cadavae",
    "CEGZSL": "generative.cegzsl",
    "CLIP": "clip",
    "CMT": "cmt",
    "CNZSL": "cnzsl",
    "CONSE": "conse",
    "CVC": "cvc.cvc",
    "DAP": "dap",
    "DEM": "dem",
    "DEVISE": "devise",
    "DSRL": "dsrl",
    "ESZSL": "eszsl",
    "EXEM": "generative.exem",
    "FCLSWGAN": "generative.fclswgan",
    "FVAEGAN": "generative.fvaegan",
    "Foresight": "foresight.foresight",
    "GFZSL": "gfzsl",
    "LATEM": "latem",
    "PSR": "psr",
    "Projection": "cvc.projection",
    "QFSL": "qfsl",
    "RelationNetwork": "relation_network",
    "SAE": "sae",
    "SJE": "sje",
    "SPAEN": "spaen",
    "SSE": "sse",
    "SYNC": "sync",
    "TFVAEGAN": "generative.tfvaegan",
}
_BASE_CLASSES = {
    "AdaptableClassifier": "base.adaptable",
    "GradientAdaptableClassifier": "base.gradient_adaptable",
    "GradientTrainedClassifier": "base.gradient_trained",
    "LeaveClassesOut": "base.leave_out",
    "OnePassClassifier": "base.one_pass",
    "ZeroShotClassifier": "base.classifier",
}
_HOMES = {**_ESTIMATORS, **_BASE_CLASSES}


class _Methods(Mapping[str, "type[ZeroShotClassifier]"]):
    """Estimator classes by name."""

    def __getitem__(self, name: str) -> "type[ZeroShotClassifier]":
        if name not in _ESTIMATORS:
            raise KeyError(name)
        estimator: type[ZeroShotClassifier] = __getattr__(name)
        return estimator

    def __iter__(self) -> Iterator[str]:
        return iter(_ESTIMATORS)

    def __len__(self) -> int:
        return len(_ESTIMATORS)


METHODS = _Methods()


def method_class(name: str) -> "type[ZeroShotClassifier]":
    """Find the estimator class of a method.

    Parameters
    ----------
    name : str
        Name of a class of this package, name of an installed plug-in (an entry point of ``sightunseen.methods``), or import
        path of a class, such as ``package.module:Class``.

    Returns
    -------
    type
        The class.

    Raises
    ------
    SettingsError
        If there is no such method, its import fails, or it lacks something that every method must have.

    Examples
    --------
    >>> method_class("ESZSL").__name__
    'ESZSL'
    """
    from sightunseen.core import plugins

    return METHODS[name] if name in METHODS else _checked_plugin(name, plugins.load_object(name, plugins.METHODS))


def load_model(path: str | Path, allow: Iterable[str] = ()) -> "ZeroShotClassifier":
    """Read a model folder of any method.

    Parameters
    ----------
    path : str or Path
        Folder written by ``save`` or by ``sightunseen train``.
    allow : iterable of str, default=()
        Import paths of plug-ins, such as ``package.module:Class``, that may be imported if the folder names them. Plug-ins
        that are installed as entry points, and classes that the program has imported already, need no permission.

    Returns
    -------
    ZeroShotClassifier
        The fitted model.

    Raises
    ------
    ModelError
        If the folder is missing or damaged, or holds a method that this version does not know or a plug-in that may not be
        imported.

    Examples
    --------
    >>> import tempfile
    >>> from sightunseen.methods import ESZSL, load_model
    >>> model = ESZSL().fit([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"], {"cat": [1, 0], "dog": [0, 1], "wolf": [1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     load_model(f"{folder}/model")
    ESZSL()
    """
    from sightunseen.core import plugins
    from sightunseen.core.documents import quoted
    from sightunseen.core.model_files import read_model

    files = read_model(Path(path))
    if files.method in METHODS:
        return METHODS[files.method].from_files(files, path)
    if not plugins.is_path(files.method):
        raise ModelError(
            f"{path} holds a model of the unknown method '{quoted(files.method)}'; this version of sightunseen knows "
            f"{', '.join(METHODS)}. Update sightunseen."
        )
    from sightunseen.methods.base.classifier import ZeroShotClassifier

    try:
        found = plugins.load_recorded(files.method, plugins.METHODS, allow, ZeroShotClassifier)
        return _checked_plugin(files.method, found).from_files(files, path)
    except SettingsError as error:
        raise ModelError(f"{path}: {error}") from error


def _checked_plugin(name: str, found: Any) -> "type[ZeroShotClassifier]":
    """Check that a plug-in has what every method must have."""
    from inspect import signature

    from sightunseen.core.documents import quoted
    from sightunseen.methods.base.classifier import ZeroShotClassifier

    lacks = ""
    if not (isinstance(found, type) and issubclass(found, ZeroShotClassifier)):
        lacks = "is not a subclass of sightunseen.methods.ZeroShotClassifier"
    elif missing := [name for name in ("fit", "_scorer", "_arrays", "_take_arrays") if _is_abstract(found, name)]:
        lacks = f"does not implement {', '.join(missing)}"
    else:
        parameters = signature(found).parameters
        unset = [parameter for parameter, one in parameters.items() if not _is_plain(one.default)]
        if unset:
            lacks = f"has the constructor parameter {unset[0]} without a default that is a finite number, text, list or None"
        elif "seen_penalty" not in parameters:
            lacks = "has no constructor parameter seen_penalty"
    if lacks:
        raise SettingsError(f"'{quoted(name)}' {lacks}. See docs/extending.md for what a method implements.")
    kind: type[ZeroShotClassifier] = found
    return kind


def _is_plain(default: Any) -> bool:
    """Whether model.json can hold a default; ``*args`` and parameters without a default have none."""
    from math import isfinite

    if isinstance(default, (tuple, list)):
        return all(map(_is_plain, default))
    return isinstance(default, (bool, int, str)) or default is None or (isinstance(default, float) and isfinite(default))


def _is_abstract(kind: type, name: str) -> bool:
    function = getattr(kind, name, None)
    return function is None or getattr(function, "__isabstractmethod__", False)


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "METHODS", "load_model", "method_class"])
