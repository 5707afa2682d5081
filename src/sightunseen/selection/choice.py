"""What was chosen, and the grid that it was chosen from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.model_selection import ParameterGrid

from sightunseen.core.calibration import Calibration

Grid = Mapping[str, Sequence[Any]]  # hyperparameter -> the values to choose among
Tried = list[dict[str, Any]]  # one entry a combination: its ``settings``, and the ``points`` at which it was measured


@dataclass(frozen=True)
class Choice:
    """Chosen hyperparameters, seen penalty, stopping point and calibration (None: not chosen); ``report`` tells how."""

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
        """The choice that a run record's ``selection`` tells of."""
        chosen, calibration = dict(report.get("chosen", {})), report.get("calibration")
        seen_penalty, stop_after = chosen.pop("seen_penalty", None), chosen.pop("steps", None)
        return cls(chosen, seen_penalty, stop_after, report, None if calibration is None else Calibration(**calibration))


NO_SELECTION = Choice(report={"by": "no selection: hyperparameters as given"})


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of the grid's values; the empty one of an empty grid."""
    return list(ParameterGrid(dict(grid)))


def search_space(default: Grid, fixed: Mapping[str, Any], asked: Grid | None = None) -> dict[str, list[Any]]:
    """The values to choose among: those asked for; or else a method's default ones, without hyperparameters that are fixed."""
    if asked is not None:
        return {name: list(values) for name, values in asked.items()}
    return {name: list(values) for name, values in default.items() if name not in fixed}


def best_point(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a tried combination at which H on validation classes is best."""
    return dict(max(entry["points"], key=lambda point: point["H_at_best_penalty"]))
