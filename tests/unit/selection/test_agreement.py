"""Agreement of validation and test: conversion between numbers of classes, and the flag."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import ModelError
from sightunseen.core.intervals import Counts
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import ESZSL
from sightunseen.pipeline import TrainingSpecification, train
from sightunseen.selection.agreement import Validation, compare, with_classes


def simulated(discriminability: float, n_classes: int) -> float:
    """Share of draws in which the right class has the largest of normal scores."""
    scores = np.random.default_rng(0).standard_normal((40_000, n_classes))
    scores[:, 0] += discriminability
    return float((scores.argmax(axis=1) == 0).mean())


@pytest.mark.parametrize(("n_from", "n_to"), [(5, 20), (50, 10), (7, 7), (2, 3)])
@pytest.mark.parametrize("discriminability", [0.0, 0.8, 2.5])
def test_conversion_matches_simulated_scores(discriminability: float, n_from: int, n_to: int) -> None:
    found = with_classes(simulated(discriminability, n_from), n_from, n_to)
    assert found == pytest.approx(simulated(discriminability, n_to), abs=0.012)


def test_conversion_of_all_right_and_none_right() -> None:
    assert with_classes(1.0, 5, 50) == pytest.approx(1.0)
    assert with_classes(0.0, 5, 50) == pytest.approx(0.0)


def test_chance_in_folds_is_chance_in_the_test() -> None:
    found = compare(Validation((20.0, 20.0), (5, 5)), Counts(np.full(50, 2), np.full(50, 100)), 50)
    assert found is not None
    assert (found.expected, found.found) == (pytest.approx(2.0, abs=0.1), pytest.approx(2.0))
    assert not found.differs


def test_difference_beyond_chance_is_flagged_in_both_directions() -> None:
    validation = Validation((60.0, 64.0, 56.0, 61.0, 59.0), (20,) * 5)
    for right, differs in ((11, False), (13, False), (4, True), (19, True)):
        found = compare(validation, Counts(np.full(20, right), np.full(20, 20)), 20)
        assert found is not None
        assert found.expected == pytest.approx(60, abs=0.5)
        assert found.differs == differs
        assert found.note()["differs"] == differs


def test_classes_that_are_too_few_for_a_comparison_give_none() -> None:
    validation = Validation((60.0, 75.0), (2, 2))
    assert compare(validation, Counts(np.array([3, 4]), np.array([5, 5])), 2) is None


def test_spread_over_folds_and_few_images_allow_larger_differences() -> None:
    test = Counts(np.full(20, 8), np.full(20, 20))
    steady, shaky = (compare(Validation(values, (20,) * 3), test, 20) for values in ((60.0, 61.0, 59.0), (50.0, 70.0, 60.0)))
    fewer = compare(Validation((60.0, 61.0, 59.0), (20,) * 3), Counts(np.full(20, 2), np.full(20, 5)), 20)
    assert steady is not None
    assert shaky is not None
    assert fewer is not None
    assert steady.allowed < shaky.allowed
    assert steady.allowed < fewer.allowed


@pytest.mark.parametrize(("classes", "n_test", "n_candidates"), [((1, 1), 5, 5), ((5, 5), 1, 5), ((5, 5), 1, 1)])
def test_a_single_class_is_not_compared(classes: tuple[int, ...], n_test: int, n_candidates: int) -> None:
    test = Counts(np.full(n_test, 3), np.full(n_test, 4))
    assert compare(Validation((50.0, 60.0), classes), test, n_candidates) is None


def test_validation_is_read_from_a_record() -> None:
    folds = [{"validation_classes": 4, "training_classes": 9}] * 2
    selection: dict[str, Any] = {"validation": {"T1": 50.0, "T1_of_folds": [40.0, 60.0]}, "folds": folds}
    assert Validation.of(selection) == Validation((40.0, 60.0), (4, 4))
    assert Validation.of({**selection, "validation": {"T1": 50.0}}) == Validation((50.0,), (4,))
    assert Validation.of({"by": "no selection"}) is None
    found = Validation.of(selection)
    assert found is not None
    assert (found.mean, found.guessing) == (50.0, 25.0)


@pytest.mark.parametrize(
    "selection",
    [
        {"validation": 3, "folds": []},
        {"validation": {"T1": "many"}, "folds": []},
        {"validation": {"T1": 50.0, "T1_of_folds": ["x"]}, "folds": [{"validation_classes": 4}]},
        {"validation": {"T1": 1e9}, "folds": [{"validation_classes": 4}]},
        {"validation": {"T1": 50.0}, "folds": [{"validation_classes": 0}]},
        {"validation": {"T1": 50.0}, "folds": [{"validation_classes": 10**400}]},
        {"validation": {"T1": 50.0}},
        {"validation": {"T1": 50.0, "T1_of_folds": [50.0] * 5000}, "folds": [{"validation_classes": 4}] * 5000},
    ],
    ids=lambda selection: str(selection)[:60],
)
def test_damaged_selection_raises_an_error(selection: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"selection in the run record is damaged: .* Train the model again"):
        Validation.of(selection)


def exchanged(data: ZeroShotDataset) -> ZeroShotDataset:
    """The same data with the class vectors of the unseen classes exchanged among them."""
    table = data.classes
    vectors, rows = table.vectors.copy(), table.rows_of(data.unseen)
    vectors[rows] = np.roll(vectors[rows], 1, axis=0)
    return replace(data, classes=ClassTable(table.labels, vectors))


def test_wrong_class_vectors_of_unseen_classes_are_flagged(tmp_path: Path) -> None:
    data = make_world(World(n_seen=30, n_unseen=8, n_attributes=14, n_features=32, images_per_class=15, private=0.6, noise=1.0))
    right, wrong = (train(TrainingSpecification(method=ESZSL), one, tmp_path).record_ for one in (data, exchanged(data)))
    assert right is not None
    assert wrong is not None
    assert not right.compared["validation_and_test"]["differs"]
    assert wrong.compared["validation_and_test"]["differs"]
    assert not any(sentence.startswith("Careful") for sentence in right.verdict)
    assert any(sentence.startswith("Careful") and "less than chance explains" in sentence for sentence in wrong.verdict)
