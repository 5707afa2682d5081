"""Named settings: ``fast``, chosen on validation classes, and the paper's own for each of its data sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.errors import SettingsError


@dataclass(frozen=True)
class Preset:
    """Settings of ``CVC``, of ``adapt``, and the class vectors they are meant for (None: the loader's default)."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    semantics: str | None = None


def _paper(weight_decay: float, classes_per_episode: int = 32) -> Preset:
    """Section 4.2 of the paper; what it leaves out (first weights, scale, clipping, raw attributes) as in the authors' code."""
    optimisation = {"learning_rate": 1e-5, "schedule": "constant", "weight_decay": weight_decay}
    tasks = {"classes_per_episode": classes_per_episode, "images_per_class": 4}
    return Preset(
        settings={
            **optimisation,
            **tasks,
            "clip_norm": 1.0,
            "n_steps": 1_000_000,
            "hidden": 1600,
            "output": "relu",
            "initial_scale": 10.0,
            "semantic_norm": None,
            "initialisation": "normal",
        },
        adaptation={
            **optimisation,
            **tasks,
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


METHOD = "CVC"  # whose hyperparameters presets are

PRESETS: dict[str, Preset] = {
    "fast": Preset(),
    "paper-awa1": _paper(1e-4),
    "paper-awa2": _paper(1e-3),
    "paper-cub": _paper(1e-3),
    "paper-sun": _paper(1e-5),
    "paper-apy": _paper(1e-4, classes_per_episode=16),
}


def preset(name: str) -> Preset:
    """The preset of this name: ``CVC(**preset("paper-cub").settings)``."""
    if name not in PRESETS:
        raise SettingsError(f"there is no preset '{name}'; there are {', '.join(PRESETS)}.")
    return PRESETS[name]
