"""Images predicted as each class, and confident mistakes, against sorted()."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.best_images import best_images, confident_mistakes
from sightunseen.core.errors import DataError


def answers(kind: type = str) -> Answers:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (30, 5)).astype(np.float32)  # many ties
    labels, truth = np.array([10, 3, 7, 1, 5]).astype(kind), rng.choice([1, 3, 5, 7, 99], 30).astype(kind)
    return Answers(labels, scores, np.array([f"image {row}.jpg" for row in range(30)]), truth)


@pytest.mark.parametrize("kind", [str, int])
def test_images_predicted_as_a_class_are_sorted_by_score_then_row(kind: type) -> None:
    given = answers(kind)
    found = best_images(given, top=4)
    assert list(found) == given.labels.tolist()
    for column, label in enumerate(given.labels.tolist()):
        predicted = [row for row in range(30) if given.predicted[row] == label]
        assert [image.row for image in found[label]] == sorted(predicted, key=lambda row: (-given.scores[row, column], row))[:4]
        for image in found[label]:
            assert image.name == f"image {image.row}.jpg"
            assert image.score == given.scores[image.row, column]
            assert image.confidence == given.confidence[image.row]
            assert image.truth == given.known_truth[image.row]
            assert image.correct is (given.known_truth[image.row].item() == label)


def test_a_class_that_is_never_predicted_has_no_images() -> None:
    scores = np.array([[0.5, 0.0], [1.5, 1.0]], dtype=np.float32)
    found = best_images(Answers(np.array(["owl", "emu"]), scores, np.array(["a", "b"])))
    assert [(image.name, image.truth, image.correct) for image in found["owl"]] == [("b", None, None), ("a", None, None)]
    assert found["emu"] == ()


@pytest.mark.parametrize("kind", [str, int])
def test_mistakes_are_sorted_by_confidence_then_row(kind: type) -> None:
    given = answers(kind)
    wrong = [row for row in range(30) if given.predicted[row] != given.known_truth[row]]
    found = confident_mistakes(given, top=5)
    assert [one.row for one in found] == sorted(wrong, key=lambda row: (-given.confidence[row], row))[:5]
    for one in found:
        assert (one.truth, one.predicted) == (given.known_truth[one.row].item(), given.predicted[one.row].item())
        assert one.truth != one.predicted
        assert one.confidence == given.confidence[one.row]


def test_there_are_no_mistakes_if_all_predictions_are_correct_and_none_are_known_without_labels() -> None:
    scores = np.array([[1.0, 0.0]], dtype=np.float32)
    assert confident_mistakes(Answers(np.array(["owl", "emu"]), scores, np.array(["a"]), np.array(["owl"]))) == ()
    with pytest.raises(DataError, match="true labels"):
        confident_mistakes(Answers(np.array(["owl", "emu"]), scores, np.array(["a"])))
