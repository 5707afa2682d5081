"""Named hyperparameters of CVC: ``fast``, selected on validation classes, and those of the paper for each data set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.errors import SettingsError


@dataclass(frozen=True)
class Preset:
    """Hyperparameters of CVC.

    Parameters
    ----------
    settings : mapping of str to object, default={}
        Parameters of the constructor.
    adaptation : mapping of str to object, default={}
        Parameters of ``adapt``.
    semantics : str, default=None
        Kind of class vectors that the hyperparameters are meant for; None: the default of the loader.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    semantics: str | None = None


def _paper(decay: float, m: int = 32) -> Preset:
    """Section 4.2 of the paper; unstated values (initial weights, scale, clipping, raw attributes) from the authors' code."""
    optimisation = {"learning_rate": 1e-5, "schedule": "constant", "weight_decay": decay}
    shared = {**optimisation, "classes_per_episode": m, "images_per_class": 4}
    return Preset(
        settings={
            **shared,
            "clip_norm": 1.0,
            "n_steps": 1_000_000,
            "hidden": 1600,
            "output": "relu",
            "initial_scale": 10.0,
            "semantic_norm": None,
            "initialisation": "normal",
        },
        adaptation={
            **shared,
            "rounds": 50,
            "steps_per_round": 10_000,
            "peakiness": "probability",
            "threshold": 1.2,
            "best_per_class": 0,
            "loss": "gxe",
            "q": 0.5,
        },
        semantics="original_att",
    )


METHOD = "CVC"  # the method of the presets

PRESETS: dict[str, Preset] = {
    "fast": Preset(),
    "paper-awa1": _paper(1e-4),
    "paper-awa2": _paper(1e-3),
    "paper-cub": _paper(1e-3),
    "paper-sun": _paper(1e-5),
    "paper-apy": _paper(1e-4, m=16),
}


def preset(name: str) -> Preset:
    """Return a preset by name.

    Parameters
    ----------
    name : str
        ``"fast"``, or ``"paper-awa1"``, ``"paper-awa2"``, ``"paper-cub"``, ``"paper-sun"`` or ``"paper-apy"``.

    Returns
    -------
    Preset
        Hyperparameters; ``CVC(**preset(name).settings)`` is the estimator.

    Raises
    ------
    SettingsError
        If there is no such preset.

    Examples
    --------
    >>> preset("paper-cub").settings["weight_decay"]
    0.001
    """
    if name not in PRESETS:
        raise SettingsError(f"there is no preset '{name}'; there are {', '.join(PRESETS)}.")
    return PRESETS[name]
