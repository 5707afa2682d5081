"""Ranked answers with reasons, as they go out over HTTP."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sightunseen.analyses.attributes import attribute_names, pulls
from sightunseen.classes import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.predictions import ranked
from sightunseen.serve.messages import ImageAnswer, Rank, Reason, Slider

STRONGEST = 3  # attributes for, and as many against
SPEECHLESS = ("text", "names", "one-hot")  # semantics whose dimensions mean nothing to people


def answers_of(
    model: ZeroShotClassifier, features: Any, names: list[str], top: int, candidates: Any, reasons: bool = True
) -> list[ImageAnswer]:
    """The ``top`` best classes of images (n, d), as the command line gives them, with the reasons for the best."""
    answers: list[ImageAnswer] = []
    for batch in ranked(model, features, np.array(names, dtype=object), top, candidates):
        rows = zip(*(batch[name].tolist() for name in ("path", "rank", "class", "confidence", "seen")), strict=True)
        for image, rank, label, confidence, seen in rows:
            if rank == 1:
                answers.append(ImageAnswer(image=image, classes=[]))
                if reasons:
                    _explain(answers[-1], model, features[len(answers) - 1 : len(answers)], label)
            answers[-1].classes.append(Rank(name=str(label), confidence=confidence, seen=seen))
    return answers


def sliders_of(table: ClassTable) -> list[Slider]:
    """The attributes that people can tell, with their ranges; none where classes are known by text."""
    names, vectors = attribute_names(table), table.vectors
    parts = (vectors.min(axis=0), vectors.max(axis=0), vectors.mean(axis=0))
    rows = zip(names, *(part.tolist() for part in parts), strict=True)
    kept = _speaking(table)
    return [Slider(name=name, lowest=low, highest=high, mean=mean) for name, low, high, mean in rows if kept(name)]


def _explain(answer: ImageAnswer, model: ZeroShotClassifier, image: Any, label: Any) -> None:
    """Add the attributes that speak most for and against a class of one image (1, d)."""
    kept = _speaking(model.table_)
    if not any(kept(name) for name in attribute_names(model.table_)):
        return
    found = pulls(model, image, label)
    said = [
        Reason(attribute=str(found.names[k]), pull=found.values[k], value=found.own[k], usual=found.others[k])
        for k in found.strongest(len(found.values)).tolist()
        if kept(str(found.names[k]))
    ]
    answer.speaks_for = [reason for reason in said if reason.pull > 0][:STRONGEST]
    answer.speaks_against = [reason for reason in said if reason.pull < 0][:STRONGEST]


def _speaking(table: ClassTable) -> Callable[[str], bool]:
    """Whether an attribute of a table means something to people: the dimensions of a text's vector do not."""
    kind = table.use.partition(":")[0]
    if kind in SPEECHLESS:
        return lambda name: False
    return lambda name: kind != "both" or re.fullmatch(r"text \d+", name) is None
