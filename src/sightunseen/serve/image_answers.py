"""Predictions and attribute contributions in the schema of the HTTP API."""

from dataclasses import asdict
from typing import Any

import numpy as np

from sightunseen.analysis.contributions import attribute_names
from sightunseen.analysis.reasons import Explainer, speaking_attributes
from sightunseen.core.calibration import NONE
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.prediction import ranked
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
    """Predict the best classes of images, as the command ``predict`` does, and explain the best one.

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
        Explainer of the model, or of the same model with fewer classes. Without it, no contributions are returned.
    none : bool, default=True
        Apply open-set rejection.

    Returns
    -------
    list of ImagePrediction
        One prediction per image.
    """
    found: list[ImagePrediction] = []
    best: dict[int, Any] = {}  # label of the best class by index of the image
    for batch in ranked(model, [(features, np.array(names, dtype=object))], top, candidates, none):
        rows = zip(*(batch[name].tolist() for name in ("path", "rank", "class", "confidence", "seen")), strict=True)
        for image, rank, label, confidence, seen in rows:
            if rank == 1:
                found.append(ImagePrediction(image=image, none=label == NONE, classes=[]))
            if rank == 1 + found[-1].none:
                best[len(found) - 1] = label
            found[-1].classes.append(RankedClass(name=str(label), confidence=confidence, seen=seen))
    if explainer is not None and explainer.speaks and best:
        reasons_of = explainer(features[list(best)], list(best.values()), model.table_)
        for row, reasons in zip(best, reasons_of, strict=True):
            found[row].speaks_for = [Contribution(**asdict(reason)) for reason in reasons.speaks_for]
            found[row].speaks_against = [Contribution(**asdict(reason)) for reason in reasons.speaks_against]
            found[row].others, found[row].total = reasons.others, reasons.total
    return found


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
