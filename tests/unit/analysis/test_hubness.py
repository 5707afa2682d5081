"""Counts of predicted classes, and their skewness against its definition."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.hubness import hubness


def predicted(indices: list[int], labels: list) -> Answers:
    scores = np.eye(len(labels), dtype=np.float32)[indices].reshape(len(indices), len(labels))
    return Answers(np.array(labels), scores, np.arange(len(indices)).astype(str))


def test_counts_and_skewness() -> None:
    found = hubness(predicted([2] * 7 + [0, 0, 1], ["owl", "kea", "emu", "jay"]))
    counts = [2, 1, 7, 0]
    assert found.labels.tolist() == ["owl", "kea", "emu", "jay"]
    assert found.counts.tolist() == counts
    mean = sum(counts) / 4
    moment = {power: sum((count - mean) ** power for count in counts) / 4 for power in (2, 3)}
    assert found.skewness == pytest.approx(moment[3] / moment[2] ** 1.5)


def test_skewness_is_positive_for_a_hub_and_negative_for_an_orphan() -> None:
    assert hubness(predicted([0] * 9 + [1, 2, 3], [1, 2, 3, 4])).skewness > 1
    assert hubness(predicted([0, 0, 0, 1, 1, 1, 2, 2, 2], [1, 2, 3, 4])).skewness < -1


@pytest.mark.parametrize(
    ("indices", "labels"), [([0, 0, 0], [5]), ([0, 0, 1], [5, 6]), ([0, 1, 2, 2, 1, 0], [5, 6, 7]), ([], [5, 6, 7])]
)
def test_skewness_is_undefined_for_few_or_equal_counts(indices, labels) -> None:
    found = hubness(predicted(indices, labels))
    assert found.skewness is None
    assert found.counts.tolist() == [indices.count(k) for k in range(len(labels))]
