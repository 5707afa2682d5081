"""Confusions against scikit-learn, explicit loops and hand-worked cases; the similarity order of classes."""

import time

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as reference

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.confusion import Confusion, confusion_matrix, destinations, leaks, most_confused, similarity_order
from sightunseen.core.errors import DataError


def answered(truth, best, labels) -> Answers:
    """Answers that predict ``best`` among ``labels``."""
    labels = np.asarray(labels)
    scores = (np.asarray(best)[:, None] == labels).astype(np.float32)
    return Answers(labels, scores, np.arange(len(scores)).astype(str), np.asarray(truth))


def random_answers(seed: int, kind: type, n_images: int = 300) -> Answers:
    """Six candidates in random order; 4 and 5 are seen, class 3 has no image."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(6)
    truth, best = rng.choice([0, 1, 2, 4, 5], n_images), rng.integers(0, 6, n_images)
    return answered(truth.astype(kind), best.astype(kind), labels.astype(kind))


BIRDS = answered(
    ["owl"] * 5 + ["kea"] * 2 + ["emu"] * 3,
    ["owl", "owl", "emu", "emu", "jay", "owl", "jay", "owl", "kea", "jay"],
    ["emu", "jay", "kea", "owl"],
)


@pytest.mark.parametrize("kind", [str, int])
def test_confusion_matrix_equals_scikit_learns(kind) -> None:
    answers, rows = random_answers(0, kind), np.array([4, 3, 0]).astype(kind)
    everything = np.arange(6).astype(kind)
    square = reference(answers.truth, answers.predicted, labels=everything)
    wanted = square[np.ix_(np.searchsorted(everything, rows), np.searchsorted(everything, answers.labels))]
    found = confusion_matrix(answers, rows)
    np.testing.assert_array_equal(found, wanted)
    assert found[1].sum() == 0  # a class without images
    empty = Answers(answers.labels, answers.scores[:0], answers.names[:0], answers.truth[:0])
    assert confusion_matrix(empty, rows).tolist() == [[0] * 6] * 3


def test_confusions_are_sorted_by_images_then_share_then_label() -> None:
    assert most_confused(BIRDS) == [
        Confusion("owl", "emu", 2, 2 / 5),
        Confusion("kea", "jay", 1, 1 / 2),
        Confusion("kea", "owl", 1, 1 / 2),
        Confusion("emu", "jay", 1, 1 / 3),
        Confusion("emu", "kea", 1, 1 / 3),
        Confusion("emu", "owl", 1, 1 / 3),
        Confusion("owl", "jay", 1, 1 / 5),
    ]
    assert most_confused(BIRDS, 2) == most_confused(BIRDS)[:2]
    assert most_confused(answered([1, 2], [1, 2], [1, 2])) == []


def test_leaks_are_confusions_of_unseen_with_seen_classes() -> None:
    assert leaks(BIRDS, ["jay", "emu"]) == [
        Confusion("owl", "emu", 2, 2 / 5),
        Confusion("kea", "jay", 1, 1 / 2),
        Confusion("owl", "jay", 1, 1 / 5),
    ]
    assert leaks(BIRDS, ["jay", "emu"], 1) == [Confusion("owl", "emu", 2, 2 / 5)]


@pytest.mark.parametrize("kind", [str, int])
def test_destinations_equal_a_loop_over_images(kind) -> None:
    answers, seen = random_answers(1, kind), np.array([4, 5]).astype(kind)
    found = destinations(answers, seen)
    assert sorted(destination.label for destination in found) == [kind(label) for label in (0, 1, 2)]
    assert [part.seen for part in found] == sorted([part.seen for part in found], reverse=True)
    for destination in found:
        rows = np.flatnonzero(answers.truth == destination.label)
        correct = leaked = 0
        for row in rows:
            correct += bool(answers.predicted[row] == answers.truth[row])
            leaked += answers.predicted[row] in seen.tolist()
        shares = destination.correct, destination.unseen, destination.seen
        assert shares == pytest.approx((correct / len(rows), 1 - (correct + leaked) / len(rows), leaked / len(rows)), abs=1e-12)
        assert destination.images == len(rows)


def test_destinations_are_sorted_by_leaks_then_label() -> None:
    found = destinations(answered([3, 3, 1, 1, 2], [1, 3, 9, 1, 2], [1, 2, 3, 9]), [9])
    assert [(part.label, part.correct, part.unseen, part.seen) for part in found] == [
        (1, 0.5, 0.0, 0.5),
        (2, 1.0, 0.0, 0.0),
        (3, 0.5, 0.5, 0.0),
    ]


def test_confusions_require_true_labels() -> None:
    unlabelled = Answers(BIRDS.labels, BIRDS.scores, BIRDS.names)
    with pytest.raises(DataError, match="true labels"):
        most_confused(unlabelled)
    with pytest.raises(DataError, match="true labels"):
        destinations(unlabelled, ["jay"])


def test_similarity_order_of_classes_along_an_arc() -> None:
    rng = np.random.default_rng(2)
    angles = rng.permutation(np.linspace(0, 1.4, 12))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.1, 10, (12, 1))
    ordered = angles[similarity_order(vectors)]
    assert sorted(ordered) in (ordered.tolist(), ordered[::-1].tolist())


@pytest.mark.parametrize(
    "vectors", [np.ones((1, 3)), np.eye(2), np.ones((5, 3)), np.zeros((4, 3)), np.vstack([np.zeros((2, 3)), np.eye(3)])]
)
def test_similarity_order_of_few_equal_and_zero_vectors(vectors) -> None:
    order = similarity_order(vectors)
    assert sorted(order.tolist()) == list(range(len(vectors)))
    np.testing.assert_array_equal(order, similarity_order(vectors))


def test_700_classes_take_less_than_5_seconds() -> None:
    rng = np.random.default_rng(3)
    vectors, labels = rng.random((717, 102)), np.arange(717)
    answers = answered(rng.integers(0, 717, 1440), rng.integers(0, 717, 1440), labels)
    start = time.perf_counter()
    assert len(set(similarity_order(vectors).tolist())) == 717
    assert confusion_matrix(answers, labels).sum() == 1440
    assert time.perf_counter() - start < 5  # 0.2 s on a laptop
