"""Counts of chosen classes against a loop, and their skewness against its definition."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers
from sightunseen.analysis.hubness import hubness


def chosen(places: list[int], labels: list) -> Answers:
    scores = np.eye(len(labels), dtype=np.float32)[places].reshape(len(places), len(labels))
    return Answers(np.array(labels), scores, np.arange(len(places)).astype(str))


def test_counts_and_skewness_by_definition() -> None:
    found = hubness(chosen([2] * 7 + [0, 0, 1], ["owl", "kea", "emu", "jay"]))
    counts = [2, 1, 7, 0]
    assert found.labels.tolist() == ["owl", "kea", "emu", "jay"]
    assert found.chosen.tolist() == counts
    mean = sum(counts) / 4
    moment = {power: sum((count - mean) ** power for count in counts) / 4 for power in (2, 3)}
    assert found.skewness == pytest.approx(moment[3] / moment[2] ** 1.5)


def test_a_hub_is_above_zero_and_an_orphan_below() -> None:
    assert hubness(chosen([0] * 9 + [1, 2, 3], [1, 2, 3, 4])).skewness > 1
    assert hubness(chosen([0, 0, 0, 1, 1, 1, 2, 2, 2], [1, 2, 3, 4])).skewness < -1


@pytest.mark.parametrize(
    ("places", "labels"), [([0, 0, 0], [5]), ([0, 0, 1], [5, 6]), ([0, 1, 2, 2, 1, 0], [5, 6, 7]), ([], [5, 6, 7])]
)
def test_no_skewness_of_too_few_or_even_choices(places, labels) -> None:
    found = hubness(chosen(places, labels))
    assert found.skewness is None
    assert found.chosen.tolist() == [places.count(place) for place in range(len(labels))]
