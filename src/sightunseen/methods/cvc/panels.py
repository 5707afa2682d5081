"""The methods of the t-SNE figure of the paper: V→A, DEM and CVC."""

from typing import Any

from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier


def paper_panels(model: GradientTrainedClassifier, title: str) -> dict[str, Any]:
    """Create the estimators of the figure, by title.

    Parameters
    ----------
    model : GradientTrainedClassifier
        Model that is shown under ``title``; the other estimators get its seed.
    title : str
        Title of the model: that of one of the figure's methods, which it replaces, or a new one.

    Returns
    -------
    dict of str to GradientTrainedClassifier
        ``model`` and unfitted estimators.
    """
    from sightunseen.methods.cvc.cvc import CVC
    from sightunseen.methods.cvc.projection import Projection
    from sightunseen.methods.dem import DEM

    common: dict[str, Any] = {"seed": model.seed, "device": model.any_device}
    panels = {"V→A": Projection("attributes", **common), "DEM": DEM(**common), "CVC": CVC(**common)}
    return {**panels, title: model}
