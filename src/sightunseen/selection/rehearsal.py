"""Judge a rehearsed adaptation by its effect on validation classes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sightunseen.core.calibration import Calibration, temperature_of
from sightunseen.selection.choice import Choice, validation_of
from sightunseen.selection.search import over_folds

HARM = 1.0  # points of T1 that an adaptation may lose in a rehearsal without a warning


def judge(
    choice: Choice,
    before: Sequence[Mapping[str, Any]],
    optional: bool,
    seen_penalty: float = 0.0,
    calibration: Calibration | None = None,
) -> Choice:
    """Compare the chosen adaptation with the unadapted models of the rehearsals.

    Parameters
    ----------
    choice : Choice
        The chosen hyperparameters; its report has T1 and H of every rehearsal.
    before : sequence of mapping
        Measurements of the unadapted model in every rehearsal.
    optional : bool
        Whether the method has the hyperparameter ``trust``, which is 0 for no adaptation.
    seen_penalty : float, default=0.0
        That of the model before adapting.
    calibration : Calibration, default=None
        That of the model before adapting; the temperature of the adapted model is not lower.

    Returns
    -------
    Choice
        The same choice; or, if it did not improve T1 + H on average and is optional, no adaptation, with the seen penalty and
        the calibration of the model before. Its report additionally has ``rehearsal``, T1 and H before and after, and
        ``warnings``, sentences for the user.
    """
    point = next(entry["points"][0] for entry in choice.report["tried"] if entry["settings"] == dict(choice.settings))
    t1_before, h_before = (np.array([one[name] for one in before]) for name in ("T1", "H_at_best_penalty"))
    t1, h = np.array(point["T1_of_folds"]), np.array(point["H_of_folds"])
    change = t1 - t1_before
    gain = float(np.mean(change + (h - h_before)))  # exactly 0 if nothing has changed
    harmed = int((change < -HARM).sum())
    rehearsal = {
        "T1_before": float(t1_before.mean()),
        "H_before": float(h_before.mean()),
        "T1_after": float(t1.mean()),
        "H_after": float(h.mean()),
        "worst_change_of_T1": float(change.min()),
    }
    report = {**choice.report, "rehearsal": rehearsal, "warnings": []}
    numbers = f"T1 {t1_before.mean():.1f} before and {t1.mean():.1f} after adapting, H {h_before.mean():.1f} and {h.mean():.1f}"
    if gain <= 0 and optional:
        report["warnings"] = [
            f"adapting did not help on validation classes ({numbers}, mean of {len(t1)} class folds), so the model was left as "
            "it is. To adapt it nevertheless, set trust: --set trust=1, in Python adapt(X, trust=1)."
        ]
        return _without_adaptation(choice, before, report, seen_penalty, calibration)
    if gain <= 0:
        report["warnings"] = [f"adapting did not help on validation classes ({numbers}, mean of {len(t1)} class folds)."]
    elif harmed:
        report["warnings"] = [
            f"adapting lowered T1 by more than a point in {harmed} of {len(t1)} class folds, by {-change.min():.1f} points in "
            f"the worst ({numbers}, on average). Check the answers on a few labelled images."
        ]
    return _cautious(replace(choice, report=report), [*point["temperature_of_folds"], temperature_of(calibration)])


def _cautious(choice: Choice, temperatures: Sequence[float]) -> Choice:
    """Calibrate with the highest of the temperatures: an adapted model is confident of its own mistakes."""
    assert choice.calibration is not None
    calibration = replace(choice.calibration, temperature=max(temperatures))
    return replace(choice, calibration=calibration, report={**choice.report, "calibration": asdict(calibration)})


def _without_adaptation(
    choice: Choice,
    before: Sequence[Mapping[str, Any]],
    report: dict[str, Any],
    seen_penalty: float,
    calibration: Calibration | None,
) -> Choice:
    """Replace the choice by ``trust=0``: the model, its seen penalty and its calibration stay as they are."""
    settings, measured = {**choice.settings, "trust": 0.0}, over_folds(before)
    report["chosen"] = {**settings, "seen_penalty": seen_penalty}
    report["calibration"] = None if calibration is None else asdict(calibration)
    report["validation"] = validation_of(measured)
    return Choice(settings, seen_penalty, None, report, calibration)
