"""Scores of test images among all classes, block by block: what is kept of them for the metrics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.blocks import row_blocks
from sightunseen.core.calibration import MOST_IMAGES, probabilities, temperature_of
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Split
from sightunseen.core.rows import Rows, selected_blocks
from sightunseen.core.seen_unseen import BestScores
from sightunseen.methods import ZeroShotClassifier


@dataclass(frozen=True)
class Scored:
    """What is kept of the scores of test images of unseen and seen classes among all classes.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        Labels of the images.
    predicted : ndarray of shape (n,)
        Predicted labels.
    confidence : ndarray of shape (n,)
        Probability of the predicted class.
    candidates : ndarray of shape (c,)
        All classes, sorted.
    best : BestScores or None
        Best seen and best unseen class; None if all candidates are seen or all are unseen.
    sample : ndarray of shape (m, c)
        Scores of every k-th image, for the calibration.
    every : int
        k.
    """

    truth: Labels
    predicted: Labels
    confidence: NDArray[np.float64]
    candidates: Labels
    best: BestScores | None
    sample: NDArray[np.float32]
    every: int

    @classmethod
    def of(cls, model: ZeroShotClassifier, parts: Sequence[Split], candidates: Labels) -> "Scored":
        """Score the images of all parts, block by block."""
        seen = np.isin(candidates, model.seen_classes_)
        truth = np.concatenate([part.y for part in parts])
        every = -(-len(truth) // MOST_IMAGES)
        predicted, confidence = np.empty(len(truth), dtype=candidates.dtype), np.empty(len(truth))
        sample = np.empty((-(-len(truth) // every), len(candidates)), dtype=np.float32)
        best = BestScores.empty(len(truth), candidates.dtype) if seen.any() and not seen.all() else None
        score, temperature = model.scorer(candidates), temperature_of(model.calibration_for(candidates))
        for rows, block in _blocks(parts):
            scores = score(block)
            predicted[rows] = candidates[scores.argmax(axis=1)]
            confidence[rows] = probabilities(scores, temperature).max(axis=1)
            sample[rows[rows % every == 0] // every] = scores[rows % every == 0]
            if best is not None:
                best.fill(rows, scores, candidates, seen)
        return cls(truth, predicted, confidence, candidates, best, sample, every)


def _blocks(parts: Sequence[Split]) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Images of all parts in blocks, with their indices; files are read in one pass."""
    if any(isinstance(part.X, Rows) for part in parts):
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows, kind="stable")
        done = 0
        for wanted, block in selected_blocks(parts[0].features, rows[order]):
            yield order[done : done + len(wanted)], block
            done += len(wanted)
        return
    done = 0
    for block in (block for part in parts for block in row_blocks(part.X)):
        yield np.arange(done, done + len(block)), block
        done += len(block)
