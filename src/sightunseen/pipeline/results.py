"""Test results of a run, as fields of its record: numbers, intervals, the verdict, and the results over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ZeroShotClassifier
from sightunseen.selection.choice import Choice
from sightunseen.selection.evaluation import Evaluation, evaluate
from sightunseen.selection.verdict import IMAGES, PHOTOS, agreement, verdict


def tested(model: ZeroShotClassifier, data: ZeroShotDataset) -> Evaluation | None:
    """Evaluate a model on the test images.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    data : ZeroShotDataset
        The data.

    Returns
    -------
    Evaluation or None
        The results; None if the data have no test images.
    """
    return evaluate(model, data) if len(data.test_seen) or len(data.test_unseen) else None


def called(data: ZeroShotDataset) -> str:
    """Word for the images of a data set: photos, if their features were extracted by a known network."""
    return IMAGES if data.backbone is None else PHOTOS


def told(
    result: Evaluation | None,
    selection: Mapping[str, Any],
    data: ZeroShotDataset,
    protocol: str,
    seeds: Mapping[str, Any] | None = None,
    before: Evaluation | None = None,
) -> dict[str, Any]:
    """Fields of a run record that follow from the test results.

    Parameters
    ----------
    result : Evaluation or None
        Results on the test images; None if there are none.
    selection : mapping
        Report of the selection.
    data : ZeroShotDataset
        The data.
    protocol : {"honest", "paper"}
        Protocol of the run.
    seeds : mapping, default=None
        Results of several seeds, as of :func:`over_seeds`; empty for a single one.
    before : Evaluation, default=None
        Results before adapting.

    Returns
    -------
    dict
        ``results``, ``intervals``, ``verdict``, ``compared``, ``seeds`` and ``selection``.
    """
    sentences = verdict(result, selection, called(data), protocol, before)
    found = agreement(result, selection)
    noted = {} if found is None else {"validation_and_test": found.note()}
    earlier = {} if before is None else {"before": before.results()}
    return {
        "results": {} if result is None else result.results(),
        "intervals": {} if result is None else result.intervals,
        "verdict": (*sentences, *_by_seed(seeds or {})),
        "compared": {**noted, **earlier},
        "seeds": dict(seeds or {}),
        "selection": selection,
    }


def _by_seed(seeds: Mapping[str, Any]) -> list[str]:
    """Range of T1 over several seeds, in words."""
    found = [result["T1"] for result in seeds.get("results", ()) if result.get("T1") is not None]
    if not found:
        return []
    return [
        f"Trained with {len(found)} seeds, the models get {min(found):.0f} to {max(found):.0f}% right per unseen class; the "
        "above is that of the first."
    ]


def over_seeds(first: int, choices: Sequence[Choice], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise the results of several seeds.

    Parameters
    ----------
    first : int
        The first seed; the others follow it.
    choices : sequence of Choice
        The choice of each seed.
    results : sequence of mapping
        The test results of each seed.

    Returns
    -------
    dict
        ``seeds``, ``chosen`` and ``results`` of each, with ``mean`` and ``std``, the sample standard deviation (n - 1), of the
        metrics that all seeds have; empty for a single seed.
    """
    if len(results) == 1:
        return {}
    names = [name for name in results[0] if all(result.get(name) is not None for result in results)]
    columns = {name: [result[name] for result in results] for name in names}
    return {
        "seeds": [first + k for k in range(len(results))],
        "chosen": [choice.report.get("chosen", {}) for choice in choices],
        "results": list(results),
        "mean": {name: round(float(np.mean(column)), 2) for name, column in columns.items()},
        "std": {name: round(float(np.std(column, ddof=1)), 2) for name, column in columns.items()},
    }
