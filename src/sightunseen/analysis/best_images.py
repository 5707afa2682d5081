"""Images that are predicted as each class, best first, and the most confident mistakes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers


@dataclass(frozen=True)
class BestImage:
    """An image that is predicted as a class.

    Parameters
    ----------
    row : int
        Row of the image.
    name : str
        Name of the image.
    score : float
        Score of the image for the class.
    confidence : float
        Probability of the class.
    truth : label or None
        True label; None if it is not known.
    correct : bool or None
        Whether the true label is the class; None if it is not known.
    """

    row: int
    name: str
    score: float
    confidence: float
    truth: Any
    correct: bool | None


@dataclass(frozen=True)
class ConfidentMistake:
    """An image that is predicted as another class than its own.

    Parameters
    ----------
    row : int
        Row of the image.
    name : str
        Name of the image.
    truth, predicted : label
        True and predicted class.
    confidence : float
        Probability of the predicted class.
    """

    row: int
    name: str
    truth: Any
    predicted: Any
    confidence: float


def best_images(answers: Answers, top: int = 7) -> dict[Any, tuple[BestImage, ...]]:
    """Find the images with the highest scores among those predicted as each candidate.

    Parameters
    ----------
    answers : Answers
        Scores of the images.
    top : int, default=7
        Maximum number of images per class.

    Returns
    -------
    dict of label to tuple of BestImage
        Images by descending score, ties by row; an empty tuple for a candidate that is never predicted.

    Examples
    --------
    >>> scores = np.array([[2, 0], [3, 1], [0, 1]], dtype=np.float32)
    >>> found = best_images(Answers(np.array(["owl", "emu"]), scores, np.array(["a.jpg", "b.jpg", "c.jpg"])))
    >>> {label: [image.name for image in images] for label, images in found.items()}
    {'owl': ['b.jpg', 'a.jpg'], 'emu': ['c.jpg']}
    """
    truths = [None] * len(answers.names) if answers.truth is None else answers.truth.tolist()
    labelled, columns, found = answers.truth is not None, answers.scores.argmax(axis=1), {}
    for column, label in enumerate(answers.labels.tolist()):
        predicted = np.flatnonzero(columns == column)
        scores = answers.scores[predicted, column]
        rows = predicted[np.argsort(-scores, kind="stable")[:top]].tolist()
        found[label] = tuple(
            BestImage(
                row,
                str(answers.names[row]),
                float(answers.scores[row, column]),
                float(answers.confidence[row]),
                truths[row],
                truths[row] == label if labelled else None,
            )
            for row in rows
        )
    return found


def confident_mistakes(answers: Answers, top: int = 14) -> tuple[ConfidentMistake, ...]:
    """Find the wrong predictions with the highest confidence.

    Parameters
    ----------
    answers : Answers
        Predictions for labelled images.
    top : int, default=14
        Maximum number of images.

    Returns
    -------
    tuple of ConfidentMistake
        Mistakes by descending confidence, ties by row.

    Raises
    ------
    DataError
        If the true labels are not known.

    Examples
    --------
    >>> scores = np.array([[2, 0], [3, 1], [0, 1]], dtype=np.float32)
    >>> names, truth = np.array(["a.jpg", "b.jpg", "c.jpg"]), np.array(["emu", "owl", "owl"])
    >>> [(one.name, one.predicted) for one in confident_mistakes(Answers(np.array(["owl", "emu"]), scores, names, truth))]
    [('a.jpg', 'owl'), ('c.jpg', 'emu')]
    """
    wrong = np.flatnonzero(~answers.correct)
    rows = wrong[np.argsort(-answers.confidence[wrong], kind="stable")[:top]].tolist()
    truth, predicted = answers.known_truth.tolist(), answers.predicted.tolist()
    return tuple(
        ConfidentMistake(row, str(answers.names[row]), truth[row], predicted[row], float(answers.confidence[row]))
        for row in rows
    )
