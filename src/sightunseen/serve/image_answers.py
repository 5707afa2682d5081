"""Predictions and attribute contributions in the schema of the HTTP API."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sightunseen.analysis.pairs import attribute_names, speaking_attributes
from sightunseen.analysis.reasons import Explainer, Reason, Reasons
from sightunseen.core.calibration import NONE
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.prediction import Batch, ranked
from sightunseen.serve.schemas import AttributeRange, Contribution, ImagePrediction, RankedClass


def predictions_of(
    model: ZeroShotClassifier,
    features: Any,
    names: list[str],
    top: int,
    candidates: Any,
    explainer: Explainer | None = None,
    none: bool = True,
) -> list[ImagePrediction]:
    """Predict the best classes of images, as the command ``predict`` does, and explain why the best one is ahead.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.
    features : ndarray of shape (n, d)
        Features of the images.
    names : list of str
        Names of the images.
    top : int
        Number of classes per image.
    candidates : str or ndarray of shape (c,)
        "all", "seen", "unseen", or labels.
    explainer : Explainer, optional
        Explainer of the model, or of the same model with fewer classes. Without it, no reasons are returned.
    none : bool, default=True
        Apply open-set rejection.

    Returns
    -------
    list of ImagePrediction
        One prediction per image.
    """
    found: list[ImagePrediction] = []
    explained = explainer is not None and explainer.speaks

    def explain(X: Any, labels: Any, leads: Any) -> Batch:
        assert explainer is not None
        values = np.empty(len(labels), dtype=object)
        values[:] = [*zip(labels[:, 1].tolist(), explainer(X, labels, leads, model.table_), strict=True)]
        return {"reasons": values}

    blocks = [(features, np.array(names, dtype=object))]
    for batch in ranked(model, blocks, top, candidates, none, explain if explained else None):
        columns = [batch[name].tolist() for name in ("path", "rank", "class", "confidence", "seen")]
        reasons = batch.get("reasons", np.full(len(columns[0]), "", dtype=object)).tolist()
        for image, rank, label, confidence, seen, why in zip(*columns, reasons, strict=True):
            if rank == 1:
                found.append(ImagePrediction(image=image, none=label == NONE, classes=[]))
            found[-1].classes.append(RankedClass(name=str(label), confidence=confidence, seen=seen))
            if why:
                _explain(found[-1], *why)
    return found


def _explain(answer: ImagePrediction, runner_up: Any, reasons: Reasons) -> None:
    answer.runner_up = str(runner_up)
    answer.speaks_for, answer.speaks_against = _listed(reasons.speaks_for), _listed(reasons.speaks_against)
    answer.others, answer.beyond, answer.total = reasons.others, reasons.beyond, reasons.total


def _listed(reasons: Iterable[Reason]) -> list[Contribution]:
    return [
        Contribution(
            attribute=one.name,
            phrase=one.phrase,
            contribution=one.contribution,
            value=one.value,
            other=one.other,
            usual=one.usual,
        )
        for one in reasons
    ]


def attribute_ranges(table: ClassTable) -> list[AttributeRange]:
    """Compute the range and mean of each attribute over the classes.

    Parameters
    ----------
    table : ClassTable
        Classes of the model.

    Returns
    -------
    list of AttributeRange
        Ranges in the order of the class vectors; empty if class vectors are text embeddings.
    """
    names, vectors = attribute_names(table), table.vectors
    parts = (vectors.min(axis=0), vectors.max(axis=0), vectors.mean(axis=0))
    rows = zip(names, *(part.tolist() for part in parts), strict=True)
    found = [AttributeRange(name=name, lowest=low, highest=high, mean=mean) for name, low, high, mean in rows]
    return found[: speaking_attributes(table)]
