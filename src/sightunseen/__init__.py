"""sightunseen: recognise classes you have no pictures of.

The names below are imported when they are first used, so that ``import sightunseen`` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightunseen._version import __version__

if TYPE_CHECKING:
    from sightunseen.classes import ClassTable
    from sightunseen.data import open_data
    from sightunseen.data.gbu import load_gbu
    from sightunseen.data.tables import load_classes, load_features, load_tables
    from sightunseen.dataset import ZeroShotDataset
    from sightunseen.evaluation import Evaluation, evaluate, zsl_accuracy
    from sightunseen.methods import load_model
    from sightunseen.methods.cvc import CVC
    from sightunseen.methods.foresight import Foresight
    from sightunseen.presets import preset
    from sightunseen.selection import fit_calibrated

_HOMES = {
    "CVC": "methods.cvc",
    "ClassTable": "classes",
    "Evaluation": "evaluation",
    "Foresight": "methods.foresight",
    "ZeroShotDataset": "dataset",
    "evaluate": "evaluation",
    "fit_calibrated": "selection",
    "load_classes": "data.tables",
    "load_features": "data.tables",
    "load_gbu": "data.gbu",
    "load_model": "methods",
    "load_tables": "data.tables",
    "open_data": "data",
    "preset": "presets",
    "zsl_accuracy": "evaluation",
}

__all__ = [  # noqa: RUF022 - by name, the version last
    "CVC",
    "ClassTable",
    "Evaluation",
    "Foresight",
    "ZeroShotDataset",
    "evaluate",
    "fit_calibrated",
    "load_classes",
    "load_features",
    "load_gbu",
    "load_model",
    "load_tables",
    "open_data",
    "preset",
    "zsl_accuracy",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sightunseen' has no attribute '{name}'")
    return getattr(import_module(f"sightunseen.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
