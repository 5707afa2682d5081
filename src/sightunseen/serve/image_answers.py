"""Ranked answers with reasons, as they go out over HTTP."""

from dataclasses import asdict
from typing import Any

import numpy as np

from sightunseen.analysis.contributions import attribute_names
from sightunseen.analysis.reasons import Explainer, speaking_attributes
from sightunseen.core.calibration import NONE
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.prediction import ranked
from sightunseen.serve.schemas import ImageAnswer, Rank, Reason, Slider


def answers_of(
    model: ZeroShotClassifier,
    features: Any,
    names: list[str],
    top: int,
    candidates: Any,
    explainer: Explainer | None = None,
    none: bool = True,
) -> list[ImageAnswer]:
    """The ``top`` best classes of images (n, d), as the command line gives them, with the reasons for the best.

    Reasons are given where there is an ``explainer`` of the model, or of one that knows some classes less.
    """
    answers: list[ImageAnswer] = []
    best: dict[int, Any] = {}  # the label of an image's best class, by its row
    for batch in ranked(model, [(features, np.array(names, dtype=object))], top, candidates, none):
        rows = zip(*(batch[name].tolist() for name in ("path", "rank", "class", "confidence", "seen")), strict=True)
        for image, rank, label, confidence, seen in rows:
            if rank == 1:
                answers.append(ImageAnswer(image=image, none=label == NONE, classes=[]))
            if rank == 1 + answers[-1].none:
                best[len(answers) - 1] = label
            answers[-1].classes.append(Rank(name=str(label), confidence=confidence, seen=seen))
    if explainer is not None and explainer.speaks and best:
        found = explainer(features[list(best)], list(best.values()), model.table_)
        for row, reasons in zip(best, found, strict=True):
            answers[row].speaks_for = [Reason(**asdict(reason)) for reason in reasons.speaks_for]
            answers[row].speaks_against = [Reason(**asdict(reason)) for reason in reasons.speaks_against]
            answers[row].others, answers[row].total = reasons.others, reasons.total
    return answers


def sliders_of(table: ClassTable) -> list[Slider]:
    """The attributes that people can tell, with their ranges; none where classes are known by text."""
    names, vectors = attribute_names(table), table.vectors
    parts = (vectors.min(axis=0), vectors.max(axis=0), vectors.mean(axis=0))
    rows = zip(names, *(part.tolist() for part in parts), strict=True)
    found = [Slider(name=name, lowest=low, highest=high, mean=mean) for name, low, high, mean in rows]
    return found[: speaking_attributes(table)]
