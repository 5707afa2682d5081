"""The images that a model finds most typical of each class: the paper's appendix figure."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers


@dataclass(frozen=True)
class BestImage:
    """An image among the best-scored of a class; ``truth`` and ``right`` are None where labels are not known."""

    row: int
    name: str
    score: float
    truth: Any
    right: bool | None


def best_images(answers: Answers, most: int = 7) -> dict[Any, tuple[BestImage, ...]]:
    """The best-scored images of each candidate over all images, whatever they were taken for; best first, ties by row."""
    truths = None if answers.truth is None else answers.truth.tolist()

    def image(row: int, label: Any, score: float) -> BestImage:
        truth = None if truths is None else truths[row]
        return BestImage(row, str(answers.names[row]), score, truth, None if truths is None else truth == label)

    found = {}
    for label, scores in zip(answers.labels.tolist(), answers.scores.T, strict=True):
        rows = np.argsort(-scores, kind="stable")[:most].tolist()
        found[label] = tuple(image(row, label, float(scores[row])) for row in rows)
    return found
