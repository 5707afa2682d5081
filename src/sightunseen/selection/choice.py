"""Search spaces, and the result of a selection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.model_selection import ParameterGrid

from sightunseen.core.calibration import Calibration

Grid = Mapping[str, Sequence[Any]]  # hyperparameter -> the values to choose among
CRITERIA: dict[str, Callable[[Mapping[str, Any]], float]] = {  # of a point; larger is better
    "H": lambda point: point["H_at_best_penalty"],
    "T1 + H": lambda point: point["T1"] + point["H_at_best_penalty"],
}
Tried = list[dict[str, Any]]  # per combination: its ``settings``, and the ``points`` of training at which it was evaluated


@dataclass(frozen=True)
class Choice:
    """Result of a selection.

    Parameters
    ----------
    settings : mapping, default={}
        Chosen hyperparameters.
    seen_penalty : float, default=None
        Seen-class bias of calibrated stacking (Chao et al., ECCV 2016). None: not chosen.
    stop_after : int, default=None
        Number of gradient steps to train for. None: not chosen.
    report : mapping, default={}
        What was tried and chosen, and by which criterion; it becomes ``selection`` of the run record.
    calibration : Calibration, default=None
        Temperature and rejection threshold. None: not fitted.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    seen_penalty: float | None = None
    stop_after: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The chosen hyperparameters with the seen penalty, for ``set_params``."""
        return {**self.settings, **({} if self.seen_penalty is None else {"seen_penalty": self.seen_penalty})}

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> "Choice":
        """Restore a choice from the report of a run record.

        Parameters
        ----------
        report : mapping
            ``selection`` of a :class:`~sightunseen.core.records.RunRecord`.

        Returns
        -------
        Choice
            The choice.
        """
        chosen, calibration = dict(report.get("chosen", {})), report.get("calibration")
        seen_penalty, stop_after = chosen.pop("seen_penalty", None), chosen.pop("steps", None)
        return cls(chosen, seen_penalty, stop_after, report, None if calibration is None else Calibration(**calibration))


NO_SELECTION = Choice(report={"by": "no selection: hyperparameters as given"})


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """List all combinations of the values of a grid.

    Parameters
    ----------
    grid : mapping of str to sequence
        The values of each hyperparameter.

    Returns
    -------
    list of dict
        The combinations; one empty dict for an empty grid.

    Examples
    --------
    >>> combinations({"noise": [0.1, 1.0], "shrinkage": [0.5]})
    [{'noise': 0.1, 'shrinkage': 0.5}, {'noise': 1.0, 'shrinkage': 0.5}]
    """
    return list(ParameterGrid(dict(grid)))


def search_space(default: Grid, fixed: Mapping[str, Any], asked: Grid | None = None) -> dict[str, list[Any]]:
    """Values to choose among.

    Parameters
    ----------
    default : mapping of str to sequence
        Search space of the method.
    fixed : mapping
        Hyperparameters with fixed values; they are left out of the default space.
    asked : mapping of str to sequence, default=None
        Search space of the user, which replaces the default.

    Returns
    -------
    dict of str to list
        The search space.

    Examples
    --------
    >>> search_space({"noise": (0.1, 1.0), "shrinkage": (0.1, 0.9)}, fixed={"noise": 0.3})
    {'shrinkage': [0.1, 0.9]}
    """
    if asked is None:
        asked = {name: values for name, values in default.items() if name not in fixed}
    return {name: list(values) for name, values in asked.items()}


def choice_of(
    entry: Mapping[str, Any], tried: Tried, folds: Sequence[Mapping[str, int]], by: str, calibration: Mapping[str, Any]
) -> Choice:
    """Make the choice of a tried combination, at its best stopping point.

    Parameters
    ----------
    entry : mapping
        The chosen entry of ``tried``.
    tried : list of dict
        All combinations, for the report.
    folds : sequence of mapping
        Sizes of the class folds, for the report.
    by : str
        The criterion, a key of ``CRITERIA``.
    calibration : mapping
        Fields of a :class:`~sightunseen.core.calibration.Calibration`.

    Returns
    -------
    Choice
        The choice, with its report.
    """
    settings, point = entry["settings"], best_point(entry)
    steps = {"steps": point["steps"]} if "steps" in point else {}
    report = {
        "by": f"{by} on validation classes",
        "folds": list(folds),
        "tried": tried,
        "chosen": {**settings, **steps, "seen_penalty": point["best_penalty"]},
        "validation": {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC")},
        "calibration": calibration,
    }
    return Choice(settings, point["best_penalty"], point.get("steps"), report, Calibration(**calibration))


def best_point(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Stopping point of a tried combination with the best H on validation classes.

    Parameters
    ----------
    entry : mapping
        One entry of ``Tried``.

    Returns
    -------
    dict
        The measurements at this point.
    """
    return dict(max(entry["points"], key=lambda point: point["H_at_best_penalty"]))
