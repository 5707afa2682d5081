"""The pipeline of all commands: open and check data, select, fit, adapt, calibrate, evaluate once, record.

The input is a specification, the output a model with its run record. ``train``, ``adapt``, ``benchmark``, ``ablate`` and
``demo`` all call this package, so the same method, data and seed give the same numbers in each of them.
"""

from typing import TYPE_CHECKING

from sightunseen.core.lazy import lazy_names

if TYPE_CHECKING:
    from sightunseen.pipeline.data import open_for_model as open_for_model
    from sightunseen.pipeline.data import open_for_training as open_for_training
    from sightunseen.pipeline.run import adapt as adapt
    from sightunseen.pipeline.run import train as train
    from sightunseen.pipeline.specification import AdaptationSpecification as AdaptationSpecification
    from sightunseen.pipeline.specification import AutomaticSpecification as AutomaticSpecification
    from sightunseen.pipeline.specification import TrainingSpecification as TrainingSpecification

_HOMES = {
    "AdaptationSpecification": "specification",
    "AutomaticSpecification": "specification",
    "TrainingSpecification": "specification",
    "adapt": "run",
    "open_for_model": "data",
    "open_for_training": "data",
    "train": "run",
}

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(_HOMES)
