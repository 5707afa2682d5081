"""Warnings of this package, each with its own category, so that a user can silence it."""

import sys
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakSet

_OWN = str(Path(__file__).parents[1])
_WARNED: dict[type[Warning], WeakSet[Any]] = {}


class UncalibratedWarning(UserWarning):
    """The probabilities of a model that was never calibrated are a plain softmax of its scores.

    ``predict_proba`` gives this warning. A model is calibrated by :class:`~sightunseen.ZeroShotSearchCV` and by
    ``sightunseen train``.

    Examples
    --------
    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=UncalibratedWarning)
    """


class SeenClassesOnlyWarning(UserWarning):
    """A model was fitted without ``classes``, so it can recognise only the classes that have training images.

    Examples
    --------
    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=SeenClassesOnlyWarning)
    """


class AdaptationWarning(UserWarning):
    """Adapting a model did not help on validation classes, or lowered T1 on some of them.

    ``adapt`` of :class:`~sightunseen.ZeroShotSearchCV` gives this warning; ``sightunseen adapt`` prints it.

    Examples
    --------
    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=AdaptationWarning)
    """


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package.

    Parameters
    ----------
    message : str
        What was found, and what to do.
    category : type of Warning
        Category of the warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_once(model: object, message: str, category: type[Warning]) -> None:
    """Warn once for each model, by :func:`warn_user`.

    Python's own filter of repeated warnings starts anew whenever a library changes the filters for a moment.

    Parameters
    ----------
    model : object
        The model.
    message : str
        What was found, and what to do.
    category : type of Warning
        Category of the warning.
    """
    warned = _WARNED.setdefault(category, WeakSet())
    if model in warned:
        return
    warned.add(model)
    warn_user(message, category)


def _is_own(file: str) -> bool:
    """Whether code belongs to this package, or to scikit-learn, whose meta-estimators call this package."""
    return file.startswith(_OWN) or "sklearn" in Path(file).parts
