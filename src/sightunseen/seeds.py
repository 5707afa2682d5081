"""Several seeds of one method: what a seed is, models that differ by it, and what came out over all of them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from sightunseen.checks import check_whole
from sightunseen.errors import SettingsError
from sightunseen.methods import ZeroShotClassifier
from sightunseen.trials import Choice

Method = TypeVar("Method", bound=ZeroShotClassifier)


def check_seeds(model: ZeroShotClassifier, n_seeds: int, select: bool) -> None:
    """Refuse a number of seeds that is none, or that would make the same model several times."""
    check_whole("n_seeds", n_seeds, 1)
    if n_seeds > 1 and not select and not _has_seed(model):
        raise SettingsError(
            f"{type(model).__name__} draws nothing at random, and nothing is chosen with --select none: every seed gives the "
            "same model. Leave --seeds out."
        )


def of_seeds(model: Method, first: int, n_seeds: int) -> list[Method]:
    """The model itself and others with its settings, of the seeds after the first where its method has one."""
    others = [clone(model) for _ in range(1, n_seeds)]
    if _has_seed(model):
        others = [other.set_params(seed=first + k) for k, other in enumerate(others, start=1)]
    return [model, *others]


def seed_of(model: ZeroShotClassifier) -> int:
    """The seed of a fitted model; of one whose method draws nothing at random, that of the folds it was chosen on."""
    return int(getattr(model, "seed", 0 if model.record_ is None else model.record_.seed))


def over_seeds(first: int, choices: Sequence[Choice], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What came out for each seed from the first up, with mean and standard deviation (of a sample: divided by n - 1)."""
    names = [name for name, value in results[0].items() if value is not None]
    columns = {name: [result[name] for result in results] for name in names}
    return {
        "seeds": [first + k for k in range(len(results))],
        "chosen": [choice.report.get("chosen", {}) for choice in choices],
        "results": list(results),
        "mean": {name: round(float(np.mean(column)), 2) for name, column in columns.items()},
        "std": {name: round(float(np.std(column, ddof=1)), 2) for name, column in columns.items()},
    }


def _has_seed(model: ZeroShotClassifier) -> bool:
    return "seed" in model._get_param_names()
