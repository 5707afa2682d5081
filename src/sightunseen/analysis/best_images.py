"""Images with the highest scores for each class, as in the figure of the paper's appendix."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers


@dataclass(frozen=True)
class BestImage:
    """One of the highest-scoring images of a class.

    Parameters
    ----------
    row : int
        Row of the image.
    name : str
        Name of the image.
    score : float
        Score of the image for the class.
    truth : label or None
        True label; None if it is not known.
    correct : bool or None
        Whether the true label is the class; None if it is not known.
    """

    row: int
    name: str
    score: float
    truth: Any
    correct: bool | None


def best_images(answers: Answers, top: int = 7) -> dict[Any, tuple[BestImage, ...]]:
    """Find the images with the highest scores for each candidate, whatever class is predicted for them.

    Parameters
    ----------
    answers : Answers
        Scores of the images.
    top : int, default=7
        Number of images per class.

    Returns
    -------
    dict of label to tuple of BestImage
        Images by descending score, ties by row.
    """
    truths = [None] * len(answers.names) if answers.truth is None else answers.truth.tolist()
    labelled, found = answers.truth is not None, {}
    for label, scores in zip(answers.labels.tolist(), answers.scores.T, strict=True):
        rows = np.argsort(-scores, kind="stable")[:top].tolist()
        found[label] = tuple(
            BestImage(row, str(answers.names[row]), float(scores[row]), truths[row], truths[row] == label if labelled else None)
            for row in rows
        )
    return found
