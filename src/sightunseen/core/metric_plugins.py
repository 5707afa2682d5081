"""Metrics of other packages, by entry points of the group ``sightunseen.metrics``.

A metric is a function ``metric(y_true, y_pred, seen_classes)`` that returns a number. ``y_true`` and ``y_pred`` are arrays of
shape (n,): labels of the test images of seen and unseen classes together, and predictions among all classes (GZSL).
``seen_classes`` is the sorted array of the classes that the model was trained on. The number is shown as it is, so a share is
best returned in percent, as all other metrics are.
"""

import math
import warnings
from typing import Any

from sightunseen.core.class_table import Labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import MAGNITUDE
from sightunseen.core.metrics import METRICS
from sightunseen.core.plugins import METRICS as GROUP
from sightunseen.core.plugins import load_object, plugins


def plugin_results(y_true: Labels, y_pred: Labels, seen_classes: Labels) -> dict[str, float | None]:
    """Compute all installed metric plug-ins.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
        Labels of the test images.
    y_pred : ndarray of shape (n,)
        Predictions among all classes.
    seen_classes : ndarray of shape (s,)
        Labels of the seen classes, sorted.

    Returns
    -------
    dict of str to float or None
        Result by the name of the entry point, rounded to two decimals. None for a plug-in that fails, with a warning that
        names it: a model that was trained for hours is not lost by the failure of a metric.
    """
    return {name: _result(name, y_true.copy(), y_pred.copy(), seen_classes.copy()) for name in plugins(GROUP)}


def _result(name: str, *arguments: Labels) -> float | None:
    try:
        if name in METRICS:
            raise SettingsError("it has the name of a metric of sightunseen; expected another name for the entry point")
        return round(_number(load_object(name, GROUP)(*arguments)), 2)
    except (Exception, SystemExit) as error:  # whatever the code of the plug-in does
        what = str(error) if isinstance(error, SettingsError) else f"{type(error).__name__}: {error}"
        source = plugins(GROUP)[name].value
        warnings.warn(
            f"the metric plug-in '{quoted(name)}' ({quoted(source)}) failed, so its result is missing: {quoted(what, 200)}",
            stacklevel=4,
        )
        return None


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or abs(number) > MAGNITUDE:
        raise SettingsError(f"it returned {quoted(value)}; expected a finite number")
    return number
