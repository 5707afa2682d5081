"""Highest-scoring images of each class against sorted()."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.best_images import BestImage, best_images


@pytest.mark.parametrize("kind", [str, int])
def test_images_are_sorted_by_score_then_row(kind) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (30, 5)).astype(np.float32)  # many ties
    labels, truth = np.array([10, 3, 7, 1, 5]).astype(kind), rng.choice([1, 3, 5, 7, 99], 30).astype(kind)
    names = np.array([f"image {row}.jpg" for row in range(30)])
    found = best_images(Answers(labels, scores, names, truth), top=4)
    assert list(found) == labels.tolist()
    for column, label in enumerate(labels.tolist()):
        rows = sorted(range(30), key=lambda row: (-scores[row, column], row))[:4]
        assert [image.row for image in found[label]] == rows
        for image in found[label]:
            assert image.name == f"image {image.row}.jpg"
            assert image.score == scores[image.row, column]
            assert image.truth == truth[image.row]
            assert image.correct is (truth[image.row].item() == label)


def test_fewer_images_than_requested_without_labels() -> None:
    answers = Answers(np.array(["owl"]), np.array([[0.5], [1.5]], dtype=np.float32), np.array(["a", "b"]))
    assert best_images(answers) == {"owl": (BestImage(1, "b", 1.5, None, None), BestImage(0, "a", 0.5, None, None))}
