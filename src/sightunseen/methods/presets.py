"""Presets of methods by name."""

from sightunseen.methods import method_class
from sightunseen.methods.base.presets import Preset as Preset
from sightunseen.methods.base.presets import preset_of
from sightunseen.methods.catalogue import card_of

METHOD = "CVC"  # has presets that no other method has


def preset(name: str, method: str = METHOD) -> Preset:
    """Return a preset of a method.

    Parameters
    ----------
    name : str
        ``"quick"``, the defaults of any method; ``"full"`` of any gradient-trained method, with the authors' sizes and number
        of steps where they are known, otherwise wider networks and longer training; or ``"paper-awa1"``, ``"paper-awa2"``,
        ``"paper-cub"``, ``"paper-sun"`` or ``"paper-apy"`` of CVC.
    method : str, default="CVC"
        Name of the method, as listed by ``sightunseen methods``.

    Returns
    -------
    Preset
        Hyperparameters; ``CVC(**preset(name).settings)`` is the estimator.

    Raises
    ------
    SettingsError
        If there is no such method, or it has no such preset.

    Examples
    --------
    >>> preset("paper-cub").settings["weight_decay"]
    0.001
    """
    return preset_of(method_class(card_of(method).estimator), name)
