"""Choose the method itself: candidates with their own hyperparameters are compared on further class folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.base import clone

from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError, SightUnseenError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods import ZeroShotClassifier
from sightunseen.selection.choice import CRITERIA, Choice, search_space
from sightunseen.selection.evaluation import measure
from sightunseen.selection.folds import MOST_FOLDS, class_folds
from sightunseen.selection.on_validation import choose_on_validation
from sightunseen.selection.search import OF_FOLDS, fit_chosen

PREFERRED = "Foresight"  # it adapts, explains, exports and takes examples


@dataclass(frozen=True)
class MethodChoice:
    """Result of a comparison of methods.

    Parameters
    ----------
    name : str
        The chosen candidate.
    choice : Choice
        Its hyperparameters, seen penalty and calibration.
    report : mapping
        ``chosen``, ``why`` (one sentence), the number of ``folds``, the ``compared`` candidates, best first, and the reasons
        for those ``left_out``; it becomes ``selection["methods"]`` of the run record.
    """

    name: str
    choice: Choice
    report: Mapping[str, Any]


def choose_method(
    candidates: Mapping[str, ZeroShotClassifier], data: ZeroShotDataset, n_folds: int | None = None, seed: int = 0
) -> MethodChoice:
    """Choose a method by mean T1 + H on class folds; test images are not used.

    The hyperparameters of each candidate are chosen over its own search space. The candidates are then compared on five
    random class folds drawn with another seed, each at the seen penalty with the best H.
    :func:`one_standard_error` decides between them.

    Parameters
    ----------
    candidates : mapping of str to ZeroShotClassifier
        Unfitted models by name. One that fails on the data is left out.
    data : ZeroShotDataset
        The data.
    n_folds : int, default=None
        Number of class folds on which hyperparameters are chosen; see
        :func:`~sightunseen.selection.on_validation.choose_on_validation`.
    seed : int, default=0
        Seed from which all folds are drawn.

    Returns
    -------
    MethodChoice
        The chosen method with its hyperparameters, and the comparison.

    Raises
    ------
    DataError
        If the data have too few seen classes or images for a fold, or if every candidate fails.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL, SAE
    >>> data = make_world(World(n_seen=12, n_unseen=4, n_features=24, images_per_class=10))
    >>> found = choose_method({"ESZSL": ESZSL(), "SAE": SAE()}, data)
    >>> found.name == found.report["compared"][0]["method"]
    True
    """
    folds = _further_folds(data, seed)
    choices: dict[str, Choice] = {}
    points: dict[str, list[dict[str, Any]]] = {}
    left_out: dict[str, str] = {}
    for name, candidate in candidates.items():
        try:
            (choice,) = choose_on_validation([candidate], data, search_space(candidate.search_space, {}), n_folds, seed)
            points[name] = [_measured(candidate, choice, fold) for fold in folds]
            choices[name] = choice
        except (SightUnseenError, LinAlgError) as error:
            left_out[name] = str(error)
    if not points:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"none of the methods can be fitted to the data. {reasons}")
    sums = {name: [CRITERIA["T1 + H"](point) for point in found] for name, found in points.items()}
    chosen, why = one_standard_error(sums)
    compared = [_row(name, points[name], sums) for name in sorted(sums, key=lambda name: -np.mean(sums[name]))]
    report = {
        "by": "T1 + H on class folds",
        "folds": len(folds),
        "chosen": chosen,
        "why": why,
        "compared": compared,
        "left_out": left_out,
    }
    return MethodChoice(chosen, choices[chosen], report)


def one_standard_error(sums: Mapping[str, Sequence[float]], preferred: str = PREFERRED) -> tuple[str, str]:
    """Choose the best candidate, or the preferred one if none is better by more than one standard error.

    The one-standard-error rule of Breiman et al. (1984), with the standard error of the paired difference over the folds.

    Parameters
    ----------
    sums : mapping of str to sequence of float
        T1 + H of each candidate on the same folds, in percent.
    preferred : str, default="Foresight"
        The preferred candidate. If it is missing, the best one is chosen.

    Returns
    -------
    name : str
        The chosen candidate.
    why : str
        The reason, in one sentence.

    Examples
    --------
    >>> one_standard_error({"Foresight": [90.0, 94.0, 92.0], "GFZSL": [91.0, 92.0, 94.0]})[0]
    'Foresight'
    >>> one_standard_error({"Foresight": [90.0, 94.0, 92.0], "GFZSL": [91.0, 95.0, 94.0]})[0]
    'GFZSL'
    """
    best = max(sums, key=lambda name: float(np.mean(sums[name])))
    on_folds = f"on {len(sums[best])} class folds"
    if preferred not in sums or best == preferred:
        return best, f"{best} was chosen: best T1 + H {on_folds}."
    differences = {name: _difference(own, sums[preferred]) for name, own in sums.items() if name != preferred}
    better = [name for name, (mean, error) in differences.items() if mean > error]
    if better:
        chosen = max(better, key=lambda name: differences[name][0])
        mean, error = differences[chosen]
        above = f"T1 + H {mean:.1f} points above {preferred}'s {on_folds}"
        return chosen, f"{chosen} was chosen: {above}, more than its standard error of {error:.1f}."
    mean, error = differences[best]
    above = f"T1 + H of {best} is {mean:.1f} points higher {on_folds}"
    return preferred, f"{preferred} was chosen: {above}, not more than its standard error of {error:.1f}."


def columns_of(report: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Table of a comparison of methods.

    Parameters
    ----------
    report : mapping
        ``report`` of a :class:`MethodChoice`.

    Returns
    -------
    dict of str to list
        Columns with one entry per candidate, in percent with standard errors (s.e.). With the preferred method, also the
        paired differences from it.
    """
    rows = report["compared"]
    columns = {name: [row[name] for row in rows] for name in ("method", "T1", "H", "T1 + H")}
    columns["± s.e."] = [row["standard_error"] for row in rows]
    if any("difference" in row for row in rows):
        columns[f"above {PREFERRED} ± s.e."] = [
            f"{row['difference']:+.1f} ± {row['difference_standard_error']:.1f}" if "difference" in row else None
            for row in rows
        ]
    return columns


def _further_folds(data: ZeroShotDataset, seed: int) -> list[Fold]:
    """Draw the folds of the comparison; those that come with the data are used for hyperparameters."""
    return class_folds(None, replace(data, validation=()), MOST_FOLDS, derive_seed(seed, "comparison of methods"))


def _measured(candidate: ZeroShotClassifier, choice: Choice, fold: Fold) -> dict[str, Any]:
    model: ZeroShotClassifier = clone(candidate)
    fit_chosen([model], [replace(choice, shared={})], [fold], ["comparison of methods"])  # other images than were chosen on
    return measure(model, fold)


def _row(name: str, points: Sequence[Mapping[str, Any]], sums: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Means over the folds with their standard errors, in percent."""
    row: dict[str, Any] = {"method": name}
    row |= {metric: _rounded(np.mean([point[key] for point in points])) for metric, key in OF_FOLDS.items()}
    row |= {"T1 + H": _rounded(np.mean(sums[name])), "standard_error": _rounded(_standard_error(sums[name]))}
    if PREFERRED in sums and name != PREFERRED:
        mean, error = _difference(sums[name], sums[PREFERRED])
        row |= {"difference": _rounded(mean), "difference_standard_error": _rounded(error)}
    return row


def _difference(own: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Mean paired difference and its standard error."""
    paired = np.subtract(own, other)
    return float(paired.mean()), _standard_error(paired)


def _standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _rounded(value: Any) -> float:
    return round(float(value), 2)
