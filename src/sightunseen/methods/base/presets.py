"""Presets: named hyperparameters of a method, such as its budgets ``quick`` and ``full``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError

QUICK, FULL = "quick", "full"
BUDGETS = (QUICK, FULL)


@dataclass(frozen=True)
class Preset:
    """Named hyperparameters of a method.

    The budget ``quick`` are the defaults of the constructor: minutes on two cores. The budget ``full`` has the authors' sizes
    and number of steps where they are known, otherwise wider networks and longer training. The stopping point is chosen on
    validation classes with either.

    Parameters
    ----------
    settings : mapping of str to object, default={}
        Parameters of the constructor.
    adaptation : mapping of str to object, default={}
        Parameters of ``adapt``.
    search : mapping of str to sequence, default=None
        Search space in place of the default one of the method. None: the default one.
    semantics : str, default=None
        Kind of class vectors that the hyperparameters are meant for; None: the default of the loader.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Sequence[Any]] | None = None
    semantics: str | None = None

    def search_without(self, fixed: Mapping[str, Any]) -> dict[str, Sequence[Any]] | None:
        """Return the search space without hyperparameters that have a fixed value.

        Parameters
        ----------
        fixed : mapping of str to object
            Hyperparameters that are given in addition to the preset.

        Returns
        -------
        dict of str to sequence or None
            The search space; None: the default one of the method.

        Examples
        --------
        >>> Preset(search={"weight_decay": (1e-4, 1e-3)}).search_without({"weight_decay": 0.0})
        {}
        """
        return None if self.search is None else {name: tried for name, tried in self.search.items() if name not in fixed}


def preset_of(method: type, name: str) -> Preset:
    """Find a preset of a method.

    Parameters
    ----------
    method : type
        The estimator class.
    name : str
        ``"quick"``, the defaults of any method, or a key of its ``presets``.

    Returns
    -------
    Preset
        The preset.

    Raises
    ------
    SettingsError
        If the method has no such preset.

    Examples
    --------
    >>> from sightunseen.methods import CVC, ESZSL
    >>> preset_of(CVC, "full").settings["n_steps"]
    1000000
    >>> preset_of(ESZSL, "quick")
    Preset(settings={}, adaptation={}, search=None, semantics=None)
    """
    presets: Mapping[str, Preset] = {QUICK: Preset(), **getattr(method, "presets", {})}
    if name not in presets:
        raise SettingsError(f"{method.__name__} has no preset '{quoted(name)}'; choose one of: {', '.join(presets)}.")
    return presets[name]
