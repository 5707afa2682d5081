"""sightunseen: zero-shot image classification, to recognise classes that have a description but no training images.

The public names are imported at first use, so ``import sightunseen`` does not import torch.
"""

from typing import TYPE_CHECKING

from sightunseen._version import __version__
from sightunseen.core.lazy import lazy_names

if TYPE_CHECKING:
    from sightunseen.core.class_table import ClassTable
    from sightunseen.core.dataset import ZeroShotDataset
    from sightunseen.core.warnings import AdaptationWarning, SeenClassesOnlyWarning, UncalibratedWarning
    from sightunseen.data import open_data
    from sightunseen.data.class_inputs import as_class_table
    from sightunseen.data.gbu import load_gbu
    from sightunseen.data.table_files import load_classes, load_features, load_tables
    from sightunseen.methods import load_model
    from sightunseen.methods.cvc.cvc import CVC
    from sightunseen.methods.foresight.foresight import Foresight
    from sightunseen.methods.presets import preset
    from sightunseen.selection.evaluation import Evaluation, evaluate, zsl_accuracy
    from sightunseen.selection.search_cv import ZeroShotSearchCV

_HOMES = {
    "AdaptationWarning": "core.warnings",
    "CVC": "methods.cvc.cvc",
    "ClassTable": "core.class_table",
    "Evaluation": "selection.evaluation",
    "Foresight": "methods.foresight.foresight",
    "SeenClassesOnlyWarning": "core.warnings",
    "UncalibratedWarning": "core.warnings",
    "ZeroShotDataset": "core.dataset",
    "ZeroShotSearchCV": "selection.search_cv",
    "as_class_table": "data.class_inputs",
    "evaluate": "selection.evaluation",
    "load_classes": "data.table_files",
    "load_features": "data.table_files",
    "load_gbu": "data.gbu",
    "load_model": "methods",
    "load_tables": "data.table_files",
    "open_data": "data",
    "preset": "methods.presets",
    "zsl_accuracy": "selection.evaluation",
}

__all__ = [  # noqa: RUF022 - by name, the version last
    "AdaptationWarning",
    "CVC",
    "ClassTable",
    "Evaluation",
    "Foresight",
    "SeenClassesOnlyWarning",
    "UncalibratedWarning",
    "ZeroShotDataset",
    "ZeroShotSearchCV",
    "as_class_table",
    "evaluate",
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


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
