"""Search spaces, and the result of a selection."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.model_selection import ParameterGrid

from sightunseen.core.calibration import Calibration
from sightunseen.core.documents import DocumentError, quoted, validated
from sightunseen.core.errors import ModelError, SettingsError
from sightunseen.core.limits import COMBINATIONS
from sightunseen.core.records import FINITE, OPEN
from sightunseen.methods import ZeroShotClassifier
from sightunseen.methods.base.feature_scaling import AUTO, AUTOMATIC, SEARCHED

Grid = Mapping[str, Sequence[Any]]  # hyperparameter -> the values to choose among
CRITERIA: dict[str, Callable[[Mapping[str, Any]], float]] = {  # of a point; larger is better
    "H": lambda point: point["H_at_best_penalty"],
    "T1 + H": lambda point: point["T1"] + point["H_at_best_penalty"],
}
# Per combination: its ``settings``, the ``points`` of training at which it was evaluated, and the gradient ``steps`` taken.
Tried = list[dict[str, Any]]


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
    shared : dict, default={}
        Sums over all training images that the selection computed, for the ``fit_sharing`` of the method.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    seen_penalty: float | None = None
    stop_after: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    shared: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

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

        Raises
        ------
        ModelError
            If the report has values of other types.
        """
        chosen = report.get("chosen", {})
        own = {name: chosen[name] for name in ("seen_penalty", "steps") if name in chosen} if isinstance(chosen, dict) else {}
        try:
            found = validated(_Chosen, {"chosen": chosen, "calibration": report.get("calibration"), **own})
        except DocumentError as error:
            raise ModelError(f"the selection in the run record is damaged: {error}. Run the job again.") from error
        settings = {name: value for name, value in found.chosen.items() if name not in own}
        return cls(settings, found.seen_penalty, found.steps, report, found.calibration)


@dataclass(frozen=True)
class _Chosen:
    """Parts of a report that are a choice."""

    __pydantic_config__ = FINITE

    chosen: dict[str, Any]
    calibration: Calibration | None
    seen_penalty: float | None = None
    steps: int | None = None


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

    Raises
    ------
    SettingsError
        If there are too many combinations.

    Examples
    --------
    >>> combinations({"noise": [0.1, 1.0], "shrinkage": [0.5]})
    [{'noise': 0.1, 'shrinkage': 0.5}, {'noise': 1.0, 'shrinkage': 0.5}]
    """
    count = math.prod(len(values) for values in grid.values())
    if count > COMBINATIONS:
        raise SettingsError(
            f"the search space has {quoted(count)} combinations of hyperparameters; the limit is {COMBINATIONS:,}. "
            "Search fewer values."
        )
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


def with_scaling(method: type[ZeroShotClassifier], grid: Grid) -> dict[str, list[Any]]:
    """Add the feature scaling to a search space: the method's own (``AUTOMATIC`` for ``"auto"``), then those of ``SEARCHED``.

    Parameters
    ----------
    method : type
        Estimator class.
    grid : mapping of str to sequence
        The values of each hyperparameter.

    Returns
    -------
    dict of str to list
        The search space; as it is if it has the feature scaling already, or if the method has no such hyperparameter.

    Examples
    --------
    >>> from sightunseen.methods import GFZSL, Foresight
    >>> with_scaling(GFZSL, {})["feature_scaling"][:4]
    ['none', 'unit', 'standard', 'root']
    >>> with_scaling(Foresight, Foresight.search_space)["feature_scaling"]
    ['root', 'centred', 'root+centred']
    """
    found = {name: list(values) for name, values in grid.items()}
    if "feature_scaling" in method._get_param_names() and "feature_scaling" not in found:
        own = method().feature_scaling
        kinds = (*(AUTOMATIC if own == AUTO else (own,)), *SEARCHED)
        found["feature_scaling"] = [kind for kind in dict.fromkeys(kinds) if kind in method.feature_scalings]
    return found


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
        "validation": validation_of(point),
        "calibration": calibration,
    }
    return Choice(settings, point["best_penalty"], point.get("steps"), report, Calibration(**calibration))


def validation_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """Results on validation classes for the report.

    Parameters
    ----------
    point : mapping
        Measurements, averaged over class folds.

    Returns
    -------
    dict
        T1, H and AUSUC in percent, and T1 of every fold.
    """
    return {name: point[name] for name in ("T1", "H_at_best_penalty", "AUSUC", "T1_of_folds") if name in point}


def check_points(points: Sequence[Mapping[str, Any]], calibrated: bool) -> None:
    """Check measurements that were restored from a checkpoint.

    Parameters
    ----------
    points : sequence of mapping
        Measurements along training, as made by :class:`~sightunseen.selection.search.Measurements`.
    calibrated : bool
        Whether each of them has a calibration, as those on a class fold do.

    Raises
    ------
    ModelError
        If a measurement is missing or has another type.
    """
    try:
        kind: Any = list[_CalibratedPoint] if calibrated else list[_Point]
        found: list[_Point] = validated(kind, points)
    except DocumentError as error:
        raise ModelError(f"its measurements do not fit: {error}") from error
    if any((point.H is None) != (point.U is None or point.S is None) for point in found):
        raise ModelError("its measurements do not fit: H is missing, or U or S")


@dataclass(frozen=True, kw_only=True)
class _Point:
    """Measurements at one stopping point, in percent; some are None if the data lack the images for them."""

    __pydantic_config__ = OPEN

    steps: int
    loss: float
    T1: float | None
    U: float | None
    S: float | None
    H: float | None
    AUSUC: float | None


@dataclass(frozen=True, kw_only=True)
class _CalibratedPoint(_Point):
    """Measurements on a class fold, which has images of seen and of validation classes."""

    __pydantic_config__ = OPEN

    T1: float
    H: float
    AUSUC: float
    best_penalty: float
    H_at_best_penalty: float
    calibration: Calibration


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
