"""The methods of the paper's t-SNE figure, drawn beside each other: V→A, DEM and CVC."""

from typing import Any

from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier


def paper_panels(model: GradientTrainedClassifier, title: str) -> dict[str, Any]:
    """Unfitted estimators of the figure by title, with the model's seed; the model itself in the place of its own title."""
    from sightunseen.methods.cvc.cvc import CVC
    from sightunseen.methods.cvc.projection import Projection
    from sightunseen.methods.dem import DEM

    common: dict[str, Any] = {"seed": model.seed, "device": model.any_device}
    panels = {"V→A": Projection("attributes", **common), "DEM": DEM(**common), "CVC": CVC(**common)}
    return {**panels, title: model}
